//! After any one failure of a protected pair, somebody is active again in bounded time.

use super::Fault;
use super::exhaustive::world_in;
use super::failures::Failure;
use super::steps::Step;
use super::world::{Process, Role, World};
use crate::{ActiveState, Mode, RegisterCall, StandbyState};

/// Ticks until somebody serves: the silence of three, and one for each of the messages on the way.
const OUTAGE_TICKS: u32 = 8;

pub fn check_recovery(mut world: World, failure: Failure) -> Result<(), String> {
    let told = |violation: super::watch::Violation| violation.0;
    let served = world.serving();
    world.take(Step::Fail(failure)).map_err(told)?;
    let is_of_register = matches!(failure, Failure::GoBack(_) | Failure::EraseRegister);
    let must_go_on = |world: &World| match world.serving() {
        serving if is_of_register && serving != served => Err(format!("{served:?} did not go on, {serving:?} serve")),
        _ => Ok(()),
    };
    let mut outage = 0;
    loop {
        world.run_punctually(1).map_err(told)?;
        must_go_on(&world)?;
        // A stopped process does not serve, a running one may do so no longer: look at what comes after its
        // lease.
        if world.serving().len() == 1 && outage >= 3 {
            break;
        }
        outage += 1;
        if outage > OUTAGE_TICKS {
            return Err(format!("nobody serves after {outage} ticks"));
        }
    }
    for _ in 0..12 {
        world.run_punctually(1).map_err(told)?;
        must_go_on(&world)?;
    }
    let serving = world.serving();
    let protected = serving
        .first()
        .and_then(|index| world.active(*index))
        .is_some_and(|member| member.state() == ActiveState::Protected);
    // A member that the register does not answer cannot be protected anew.
    let hidden = matches!(failure, Failure::HideRegister(_));
    if serving.len() != 1 || !(protected || hidden) {
        return Err(format!("in the end {serving:?} serve"));
    }
    if protected && !hidden { may_fail_over(&world, serving[0]) } else { Ok(()) }
}

/// Whether the next failure would find what a member that is protected relies on: a register that names its
/// standby, and a standby that knows it.
pub fn may_fail_over(world: &World, serving: usize) -> Result<(), String> {
    let record = world.register.as_ref().map(|current| &current.record);
    let standby = record.and_then(|record| record.standby.as_ref());
    let holder = record.and_then(|record| record.holder.as_ref());
    let is_eligible = |process: &&Process| {
        Some(&process.me) == standby
            && matches!(&process.role, Role::Standby(member) if member.state() == StandbyState::Eligible)
    };
    if holder == Some(&world.processes[serving].me) && world.processes.iter().any(|process| is_eligible(&process)) {
        Ok(())
    } else {
        Err(format!("{serving} is protected, and the register holds {record:?}"))
    }
}

fn check_all(mode: Mode) {
    let mut world = world_in(mode, ActiveState::Protected, None);
    let mut checked = 0;
    for point in 0..16 {
        for failure in world.failures() {
            let result = check_recovery(world.clone(), failure);
            assert_eq!(result, Ok(()), "{mode}, {failure:?} after {point} steps");
            checked += 1;
        }
        let steps = world.ordinary_steps();
        let writes = |step: &&Step| matches!(step, Step::Write(_) | Step::Cut(_));
        let step = steps.iter().find(|step| !writes(step)).or(steps.iter().find(writes).filter(|_| point % 3 == 0));
        world.take(step.copied().unwrap_or(Step::Advance)).unwrap();
    }
    assert!(checked > 100, "{checked} failures");
}

#[test]
fn a_pair_in_mode_net_recovers() {
    check_all(Mode::Net);
}

#[test]
fn a_pair_in_mode_no_net_recovers() {
    check_all(Mode::NoNet);
}

/// Ticks until somebody serves after a planned failover that was broken: the patience with who does not claim or does
/// not run the guest, and that of an outage.
const MOVED_WITHIN_TICKS: u32 = 8 + OUTAGE_TICKS;

/// Break a planned failover after so many steps; the guest must run again somewhere, with all that it had.
fn break_move(mode: Mode, fault: Option<Fault>, point: usize, failure: Failure) -> Result<(), String> {
    let told = |violation: super::watch::Violation| violation.0;
    let mut world = moving(mode, fault, point).map_err(told)?;
    let written = world.processes.iter().filter_map(|process| process.guest.as_ref()).map(|guest| guest.value).max();
    world.take(Step::Fail(failure)).map_err(told)?;
    for _ in 0..MOVED_WITHIN_TICKS {
        world.run_without(1, |step| matches!(step, Step::Write(_))).map_err(told)?;
        if let [serving] = world.serving()[..] {
            let value = world.processes[serving].guest.as_ref().map(|guest| guest.value);
            return if value >= written { Ok(()) } else { Err(format!("{value:?} of {written:?} is left")) };
        }
    }
    Err(format!("nobody serves after {MOVED_WITHIN_TICKS} ticks"))
}

/// A pair so many steps after a planned failover was asked for; nothing is written meanwhile.
fn moving(mode: Mode, fault: Option<Fault>, steps: usize) -> Result<World, super::watch::Violation> {
    let mut world = world_in(mode, ActiveState::Protected, fault);
    world.run_punctually(3)?;
    world.take(Step::SwitchOver(0))?;
    for _ in 0..steps {
        let mut possible = world.ordinary_steps().into_iter();
        let step = possible.find(|step| !matches!(step, Step::Write(_) | Step::Connect(_)));
        world.take(step.unwrap_or(Step::Advance))?;
    }
    Ok(world)
}

/// How many steps a planned failover takes, and some more.
const STEPS_OF_A_MOVE: usize = 24;

/// All that befalls either of the two members, or what lies between them.
fn all_that_breaks(world: &World) -> Vec<Failure> {
    let ends_both = |failure: &Failure| matches!(failure, Failure::GoBack(_) | Failure::EraseRegister);
    let mut failures: Vec<_> = world.failures().into_iter().filter(|failure| !ends_both(failure)).collect();
    failures.retain(|failure| !matches!(failure, Failure::HideRegister(_)));
    failures
}

/// Whether the register says that the standby runs the guest, or will if what is on its way arrives.
fn is_to_run_there(world: &World) -> bool {
    let Some(there) = world.processes.get(1) else { return false };
    let asked = there.request.as_ref().and_then(|request| match &request.call {
        RegisterCall::Swap { wanted, .. } => Some(wanted),
        RegisterCall::Read => None,
    });
    let held = world.register.as_ref().map(|current| &current.record);
    held.into_iter().chain(asked).any(|record| record.holder.as_ref() == Some(&there.me) && !record.taking_over)
}

fn first_broken_move(mode: Mode, fault: Option<Fault>) -> (usize, Option<String>) {
    let mut checked = 0;
    for point in 0..STEPS_OF_A_MOVE {
        let Ok(world) = moving(mode, fault, point) else { continue };
        if is_to_run_there(&world) {
            // From here on it is a machine without a standby.
            break;
        }
        for failure in all_that_breaks(&world) {
            checked += 1;
            if let Err(reason) = break_move(mode, fault, point, failure) {
                return (checked, Some(format!("{failure:?} after {point} steps: {reason}")));
            }
        }
    }
    (checked, None)
}

#[test]
fn a_planned_failover_survives_the_death_of_either_side_at_every_step() {
    for mode in [Mode::NoNet, Mode::Net, Mode::NetBypass] {
        let (checked, broken) = first_broken_move(mode, None);
        assert_eq!(broken, None, "{mode}");
        assert!(checked > 100, "{mode}: {checked} failures");
    }
}

#[test]
fn a_guest_that_is_given_up_at_the_claim_is_found() {
    let (_, broken) = first_broken_move(Mode::Net, Some(Fault::EndsWhenClaimed));
    let broken = broken.unwrap();
    assert!(broken.contains("nobody serves"), "{broken}");
}
