//! After any one failure of a protected pair, somebody is active again in bounded time.

use super::exhaustive::world_in;
use super::steps::{Failure, Step};
use super::world::{Process, Role, World};
use crate::{ActiveState, Mode, StandbyState};

/// Ticks until somebody serves: the silence of three, and one for each of the messages on the way.
const OUTAGE_TICKS: u32 = 8;

pub fn check_recovery(mut world: World, failure: Failure) -> Result<(), String> {
    let told = |violation: super::watch::Violation| violation.0;
    let served = world.serving();
    world.take(Step::Fail(failure)).map_err(told)?;
    let mut outage = 0;
    loop {
        world.run_punctually(1).map_err(told)?;
        if matches!(failure, Failure::GoBack(_) | Failure::EraseRegister) && world.serving() != served {
            return Err(format!("{served:?} did not go on, {:?} serve", world.serving()));
        }
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
    world.run_punctually(12).map_err(told)?;
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
