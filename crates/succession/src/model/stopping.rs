//! The end of a machine where the register cannot be told of it.

use super::Fault;
use super::exhaustive::world_in;
use super::failures::Failure;
use super::steps::Step;
use super::watch::Violation;
use super::world::World;
use crate::{ActiveState, Mode};

/// A protected machine is stopped while the register takes no writes, after a failure if there is one; later it takes
/// some again.
pub fn stopped_at_a_full_register(failure: Option<Failure>, fault: Option<Fault>) -> Result<World, Violation> {
    let alone = |step| matches!(step, Step::Connect(_));
    let mut world = world_in(Mode::Net, ActiveState::Protected, fault);
    world.run_without(2, alone)?;
    world.takes_no_writes = true;
    if let Some(failure) = failure {
        world.take(Step::Fail(failure))?;
        world.run_without(1, alone)?;
    }
    world.take(Step::End(0))?;
    world.run_without(20, alone)?;
    assert!(world.active(0).is_none(), "it waits for the register no longer");
    world.takes_no_writes = false;
    world.run_without(12, alone)?;
    Ok(world)
}

#[test]
fn a_standby_that_hears_of_the_end_ends_too_and_its_host_says_so() {
    let world = stopped_at_a_full_register(None, None).unwrap();
    assert!(world.ended && !world.unregistered);
    assert_eq!(world.serving(), [] as [usize; 0]);
}

#[test]
fn a_standby_that_does_not_hear_of_the_end_is_named() {
    for failure in [Failure::Reset(0), Failure::CutBoth(0), Failure::Stop(1)] {
        let world = stopped_at_a_full_register(Some(failure), None).unwrap();
        assert!(world.unregistered && !world.ended, "{failure:?}");
        let runs = if failure == Failure::Stop(1) { vec![] } else { vec![1] };
        assert_eq!(world.serving(), runs, "{failure:?}: as was told");
    }
}

#[test]
fn a_standby_that_is_dead_is_named_only_while_nobody_vouches_for_its_end() {
    let world = stopped_at_a_full_register(Some(Failure::Kill(1)), None).unwrap();
    assert!(world.ended && !world.unregistered);
}

/// Who runs a machine has lost its standby and the register, and hears nothing of what follows: the standby takes the
/// machine over, is protected anew and dies. Then an end is asked for, of which no register hears.
pub fn stopped_by_a_stranger_to_all(fault: Option<Fault>) -> Result<World, Violation> {
    let mut world = world_in(Mode::Net, ActiveState::Protected, fault);
    world.run_punctually(2)?;
    world.take(Step::Fail(Failure::HideRegister(0)))?;
    world.take(Step::Fail(Failure::CutBoth(0)))?;
    world.run_punctually(12)?;
    assert_eq!(world.active(1).map(crate::ActiveMember::state), Some(ActiveState::Protected), "it was taken over");
    world.take(Step::Fail(Failure::PowerOff(1)))?;
    world.take(Step::End(0))?;
    world.run_punctually(20)?;
    Ok(world)
}

#[test]
fn a_standby_that_has_ended_may_have_claimed_and_named_another_one_before() {
    let world = stopped_by_a_stranger_to_all(None).unwrap();
    assert!(world.unregistered && !world.ended);
    assert_eq!(world.serving().len(), 1, "as was told");
}

/// A guest that is loaded where it was offered is stopped there, and the register takes no writes for a while.
pub fn stopped_on_arrival(fault: Option<Fault>) -> Result<World, Violation> {
    let mut world = world_in(Mode::Net, ActiveState::Protected, fault);
    world.run_punctually(3)?;
    world.take(Step::SwitchOver(0))?;
    let is_load = |step| matches!(step, Step::Load(_));
    while world.active(1).is_none_or(|member| member.state() != ActiveState::Arriving) {
        let step = world.ordinary_steps().into_iter().find(|step| !matches!(step, Step::Write(_)) && !is_load(*step));
        world.take(step.unwrap_or(Step::Advance))?;
    }
    world.takes_no_writes = true;
    world.take(Step::End(1))?;
    world.run_without(9, is_load)?;
    assert!(world.active(1).is_none(), "it waits for the register no longer");
    world.takes_no_writes = false;
    world.run_punctually(12)?;
    Ok(world)
}

#[test]
fn who_offered_the_guest_is_named_as_it_may_take_it_back() {
    let world = stopped_on_arrival(None).unwrap();
    assert!(world.unregistered && !world.ended);
    assert_eq!(world.serving(), [0], "as was told");
}
