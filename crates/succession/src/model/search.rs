//! Takes every step that can be taken, in every order, up to a bound.
//!
//! What a process does by itself it does at once here: it hears an answer that has arrived, notices a
//! deadline, sends what may be sent. Being late with it is a failure (a stop), and `random.rs` takes these
//! steps at any time. Messages and requests may take any time.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::failures::Failure;
use super::steps::Step;
use super::watch::Violation;
use super::world::World;

/// How far a search goes.
#[derive(Copy, Clone, Debug)]
pub struct Bounds {
    /// Ticks after the beginning.
    pub ticks: u32,
    pub failures: u32,
    /// Messages that may wait in a link when a tick passes.
    pub lag: usize,
    /// Values that guests write, and epochs that are cut.
    pub writes: u64,
    pub cuts: u64,
    /// Whether epochs that have come may wait to be staged, and heartbeats overtake.
    pub reorders: bool,
    /// The search fails, as it proves nothing, if there are more states.
    pub states: usize,
}

#[derive(Debug)]
pub struct Found {
    pub states: usize,
    /// States in which a standby has gone live: the search would be idle without any.
    pub failovers: usize,
    pub violation: Option<(Violation, Vec<Step>)>,
    pub complete: bool,
}

struct Node {
    world: World,
    path: Option<Rc<Trail>>,
}

struct Trail {
    step: Step,
    before: Option<Rc<Trail>>,
}

/// Search breadth first, so that what is found is shortest.
pub fn search(beginning: &World, bounds: Bounds) -> Found {
    let mut seen = HashSet::from([fingerprint(beginning)]);
    let mut queue = VecDeque::from([Node { world: beginning.clone(), path: None }]);
    let mut found = Found { states: 1, failovers: 0, violation: None, complete: true };
    while let Some(node) = queue.pop_front() {
        for step in steps_within(&node.world, beginning, bounds) {
            let mut world = node.world.clone();
            let trail = Rc::new(Trail { step, before: node.path.clone() });
            if let Err(violation) = world.take(step) {
                found.violation = Some((violation, walk(&trail)));
                return found;
            }
            if !seen.insert(fingerprint(&world)) {
                continue;
            }
            found.states += 1;
            found.failovers += usize::from(world.resumed != beginning.resumed);
            if found.states >= bounds.states {
                found.complete = false;
                return found;
            }
            queue.push_back(Node { world, path: Some(trail) });
        }
    }
    found
}

fn steps_within(world: &World, beginning: &World, bounds: Bounds) -> Vec<Step> {
    let total = |world: &World| -> (u64, u64) {
        let guests = world
            .processes
            .iter()
            .enumerate()
            .filter_map(|(index, process)| Some((process.guest.as_ref()?.value, world.active(index)?.cut().0)));
        guests.fold((0, 0), |sum, guest| (sum.0.max(guest.0), sum.1.max(guest.1)))
    };
    let ((written, cut), (written_before, cut_before)) = (total(world), total(beginning));
    let mut steps = world.ordinary_steps();
    let at_once = |step: &Step| match step {
        Step::Answer(_) | Step::Release(_) | Step::Tick(_) | Step::Hear(_) => true,
        Step::Stage(_) => !bounds.reorders,
        _ => false,
    };
    if let Some(step) = steps.iter().copied().find(at_once) {
        return vec![step];
    }
    steps.retain(|step| match step {
        Step::Write(_) => written < written_before + bounds.writes,
        Step::Cut(_) => cut < cut_before + bounds.cuts,
        Step::Overtake(_) => bounds.reorders,
        _ => true,
    });
    if world.failures < beginning.failures + bounds.failures {
        steps.extend(world.failures().into_iter().map(Step::Fail));
    }
    // What was stopped may go on at any time.
    steps.extend(
        (0..world.processes.len())
            .filter(|index| world.processes[*index].stopped)
            .map(|index| Step::Fail(Failure::Continue(index))),
    );
    let is_slow = |step: &Step| matches!(step, Step::ToStandby(_) | Step::ToActive(_) | Step::Apply(_));
    let waiting = steps.iter().filter(|step| is_slow(step)).count();
    let flooded = world.links.iter().any(|link| link.to_standby.len().max(link.to_active.len()) > bounds.lag);
    if world.time < beginning.time + bounds.ticks && !(flooded && waiting > 0) {
        steps.push(Step::Advance);
    }
    steps
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

fn walk(trail: &Rc<Trail>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut next = Some(trail);
    while let Some(trail) = next {
        steps.push(trail.step);
        next = trail.before.as_ref();
    }
    steps.reverse();
    steps
}
