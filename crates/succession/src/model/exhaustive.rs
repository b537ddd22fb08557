//! Every order of events in small models, from the beginnings that matter.

use super::search::{Bounds, search};
use super::steps::Step;
use super::world::World;
use crate::{ActiveState, Mode};

/// A world whose first member has come to `state`, all in time.
pub fn world_in(mode: Mode, state: ActiveState, fault: Option<super::Fault>) -> World {
    bring_to(World::new(mode, fault), state)
}

pub fn bring_to(mut world: World, state: ActiveState) -> World {
    for _ in 0..1000 {
        if world.active(0).is_some_and(|member| member.state() == state) {
            return world;
        }
        let steps = world.ordinary_steps();
        let step = steps.into_iter().find(|step| !matches!(step, Step::Write(_) | Step::Release(_)));
        world.take(step.unwrap_or(Step::Advance)).unwrap();
    }
    panic!("never came to {state:?}");
}

fn check(world: &World, bounds: Bounds) {
    let found = search(world, bounds);
    eprintln!("{:?} {bounds:?}: {} states, {} with a failover", world.mode, found.states, found.failovers);
    assert_eq!(found.violation, None);
    assert!(found.complete, "the bound of {} states was reached", bounds.states);
    assert!(found.failovers > 0, "nothing was failed over in {} states", found.states);
}

const SMALL: Bounds = Bounds { ticks: 3, failures: 1, lag: 0, writes: 1, cuts: 1, reorders: false, states: 150_000 };

#[test]
fn protected_in_mode_net() {
    check(&world_in(Mode::Net, ActiveState::Protected, None), SMALL);
}

#[test]
fn protected_in_mode_no_net() {
    // The standby waits for the other's lease to end: one tick more until it has won.
    check(&world_in(Mode::NoNet, ActiveState::Protected, None), Bounds { ticks: 4, cuts: 0, ..SMALL });
}

#[test]
fn while_the_standby_is_copied_to() {
    check(&world_in(Mode::Net, ActiveState::Syncing, None), SMALL);
}

#[test]
fn while_the_standby_is_named() {
    check(&world_in(Mode::Net, ActiveState::Naming, None), Bounds { ticks: 2, ..SMALL });
}

#[test]
fn during_a_planned_failover() {
    let mut world = world_in(Mode::NetBypass, ActiveState::Protected, None);
    world.take(Step::SwitchOver(0)).unwrap();
    check(&world, Bounds { ticks: 2, ..SMALL });
}

#[test]
fn during_a_planned_failover_asked_for_while_an_epoch_is_cut() {
    let mut world = world_in(Mode::Net, ActiveState::Protected, None);
    world.take(Step::Cut(0)).unwrap();
    world.take(Step::SwitchOver(0)).unwrap();
    check(&world, Bounds { ticks: 2, ..SMALL });
}
