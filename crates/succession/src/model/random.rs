//! Long runs of random steps, failures among them.

use proptest::prelude::*;

use super::Fault;
use super::failures::Failure;
use super::steps::Step;
use super::watch::Violation;
use super::world::{Role, World, timing, two_leases};
use crate::{ActiveState, Mode};

/// Choose a step by each of `choices`. A small byte lets time pass, a large one breaks something; the others
/// take one of the ordinary steps, so that processes and messages are late at random.
pub fn run(mode: Mode, fault: Option<Fault>, choices: &[u16]) -> Result<World, (Violation, Vec<Step>)> {
    run_in(World::new(mode, fault), choices)
}

/// The same from a beginning.
pub fn run_in(mut world: World, choices: &[u16]) -> Result<World, (Violation, Vec<Step>)> {
    let mut taken = Vec::new();
    for choice in choices {
        let (kind, which) = (choice % 64, usize::from(choice / 64));
        let step = choose(&world, kind, which);
        taken.push(step);
        world.take(step).map_err(|violation| (violation, taken.clone()))?;
    }
    Ok(world)
}

fn choose(world: &World, kind: u16, which: usize) -> Step {
    let failures: Vec<_> = world.failures().into_iter().filter(|failure| !ends_all(world, *failure)).collect();
    let steps = world.ordinary_steps();
    let active = world.processes.iter().rposition(|process| process.guest.is_some());
    match (kind, active) {
        (0, _) if !failures.is_empty() && world.time > 3 => Step::Fail(failures[which % failures.len()]),
        (1, Some(active)) if which.is_multiple_of(8) => Step::SwitchOver(active),
        (1, Some(active)) if which % 16 == 1 => Step::Leave(active),
        // Seldom: the rest of the run is idle.
        (1, Some(active)) if which % 128 == 3 => Step::End(active),
        (2..=6, _) => Step::Advance,
        (7, _) if world.fills && !world.takes_no_writes => Step::Fail(Failure::FillRegister),
        (7, _) if world.takes_no_writes && which.is_multiple_of(2) => Step::Fail(Failure::EmptyRegister),
        _ if steps.is_empty() => Step::Advance,
        _ => steps[which % steps.len()],
    }
}

/// A guest that nobody could go on with is spared: the rest of the run would be idle.
fn ends_all(world: &World, failure: Failure) -> bool {
    let (Failure::Kill(index) | Failure::PowerOff(index) | Failure::KillGuest(index)) = failure else {
        return false;
    };
    world.active(index).is_some_and(|member| match member.state() {
        ActiveState::Protected => false,
        // Of a planned failover, both sides have it.
        ActiveState::Resigned | ActiveState::Arriving => !another_has_it(world, index),
        _ => true,
    })
}

fn another_has_it(world: &World, index: usize) -> bool {
    let others = world.processes.iter().enumerate().filter(|(other, _)| *other != index);
    others.map(|(_, process)| process).any(|process| match process.role {
        Role::Active(_) => process.guest.is_some(),
        Role::Standby(_) => process.copy.is_some(),
        Role::Gone => false,
    })
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::NoNet), Just(Mode::Net), Just(Mode::NetBypass)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_run_breaks_a_rule(
        mode in modes(), timing in prop_oneof![Just(timing()), Just(two_leases())], fills in any::<bool>(),
        choices in prop::collection::vec(any::<u16>(), 1..1500)
    ) {
        let world = World { fills, ..World::with_timing(mode, None, timing) };
        if let Err((violation, taken)) = run_in(world, &choices) {
            let shown: Vec<_> = taken.iter().rev().take(60).rev().collect();
            prop_assert!(false, "{mode}: {violation:?} after {shown:?}");
        }
    }
}
