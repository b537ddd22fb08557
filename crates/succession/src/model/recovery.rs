//! After any one failure of a protected pair, somebody is active again in bounded time.

use super::exhaustive::world_in;
use super::steps::{Failure, Step};
use super::world::World;
use crate::{ActiveState, Mode};

/// Ticks until somebody serves: the silence of three, and one for each of the messages on the way.
const OUTAGE_TICKS: u32 = 8;

fn check_recovery(mut world: World, failure: Failure) -> Result<(), String> {
    let told = |violation: super::watch::Violation| violation.0;
    world.take(Step::Fail(failure)).map_err(told)?;
    let mut outage = 0;
    loop {
        world.run_punctually(1).map_err(told)?;
        // A stopped process does not serve, a running one may do so no longer: look at what comes after its lease.
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
    if serving.len() == 1 && (protected || hidden) {
        Ok(())
    } else {
        Err(format!("in the end {serving:?} serve"))
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
        let step =
            steps.iter().find(|step| !writes(step)).or(steps.iter().find(writes).filter(|_| point % 3 == 0));
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
