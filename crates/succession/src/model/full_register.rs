//! A register that can be read and takes no writes, as an etcd without space.

use super::Fault;
use super::exhaustive::{bring_to, world_in};
use super::failures::Failure;
use super::steps::Step;
use super::watch::Violation;
use super::world::World;
use crate::{ActiveState, Mode};

fn state(world: &World, index: usize) -> Option<ActiveState> {
    world.active(index).map(crate::ActiveMember::state)
}

fn alone(step: Step) -> bool {
    matches!(step, Step::Connect(_))
}

#[test]
fn a_register_that_can_only_be_read_stops_no_guest() {
    let mut world = World::new(Mode::Net, None);
    world.run_without(3, alone).unwrap();
    world.takes_no_writes = true;
    // Long enough for renewals that are refused.
    world.run_without(600, alone).unwrap();
    assert_eq!((state(&world, 0), world.serving()), (Some(ActiveState::Unprotected), vec![0]));
    let seen = world.seen;
    world.take(Step::Fail(Failure::HideRegister(0))).unwrap();
    world.run_without(20, alone).unwrap();
    assert!(world.serving().is_empty(), "what it cannot even read says nothing");
    world.take(Step::Fail(Failure::ShowRegister(0))).unwrap();
    world.run_without(4, alone).unwrap();
    assert_eq!(world.serving(), [0], "to look is enough again");
    assert!(world.seen > seen);
}

/// The link to a standby that lives is reset while the register takes no writes, and then it takes some again.
pub fn closed_link(fault: Option<Fault>) -> Result<World, Violation> {
    let mut world = world_in(Mode::NoNet, ActiveState::Protected, fault);
    world.run_without(2, alone)?;
    world.takes_no_writes = true;
    world.take(Step::Fail(Failure::Reset(0)))?;
    world.run_without(5, alone)?;
    world.takes_no_writes = false;
    world.run_without(12, alone)?;
    Ok(world)
}

#[test]
fn a_standby_whose_end_is_vouched_for_stops_no_guest() {
    let mut world = world_in(Mode::Net, ActiveState::Protected, None);
    world.run_without(2, alone).unwrap();
    world.takes_no_writes = true;
    world.take(Step::Fail(Failure::Kill(1))).unwrap();
    world.run_without(4, alone).unwrap();
    assert_eq!((state(&world, 0), world.serving()), (Some(ActiveState::Unprotected), vec![0]));
    let seen = world.seen;
    world.run_without(100, alone).unwrap();
    assert_eq!(world.serving(), [0]);
    assert!(world.seen > seen);
    world.takes_no_writes = false;
    world.run_without(10, alone).unwrap();
    let record = &world.register.as_ref().unwrap().record;
    assert_eq!((record.standby.as_ref(), world.serving()), (None, vec![0]), "it says so as soon as it can");
}

#[test]
fn without_a_word_on_the_standby_the_guest_stops_and_nobody_runs_twice() {
    let world = closed_link(None).unwrap();
    assert_eq!(world.serving().len(), 1, "whoever wrote first when it could");
}

/// When the register of a guest whose host has somebody to stand by takes no writes any more.
#[derive(Copy, Clone, Debug)]
pub enum Filled {
    /// While it is alone, and long after it was written last.
    Alone,
    /// While its standby gets its first copy.
    Syncing,
    /// While its standby is being named.
    Naming,
    /// Just before its standby dies, whose host says so.
    Protected,
}

/// How often the guest is kept from sending, while a standby could be had at any time: until the register takes writes
/// again, and in all until it is protected.
pub fn outages(filled: Filled, fault: Option<Fault>) -> Result<(usize, Option<ActiveState>), Violation> {
    let mut world = World::new(Mode::Net, fault);
    match filled {
        Filled::Alone => world.run_without(20, alone)?,
        Filled::Syncing => world = bring_to(world, ActiveState::Syncing),
        Filled::Naming => world = bring_to(world, ActiveState::Naming),
        Filled::Protected => {
            world = bring_to(world, ActiveState::Protected);
            world.run_punctually(2)?;
            world.take(Step::Fail(Failure::Kill(1)))?;
        }
    }
    world.takes_no_writes = true;
    let (mut outages, mut served) = (0, true);
    for tick in 0..180 {
        world.takes_no_writes = tick < 150;
        world.run_punctually(1)?;
        let serves = world.serving() == [0];
        outages += usize::from(served && !serves);
        served = serves;
    }
    Ok((outages, state(&world, 0)))
}

#[test]
fn a_guest_that_is_alone_is_not_stopped_again_and_again_for_a_standby_that_cannot_be_named() {
    for (filled, at_most) in [(Filled::Alone, 0), (Filled::Syncing, 1), (Filled::Naming, 1), (Filled::Protected, 1)] {
        let (outages, state) = outages(filled, None).unwrap();
        assert!(outages <= at_most, "{filled:?}: {outages} times");
        assert_eq!(state, Some(ActiveState::Protected), "{filled:?}: once the register takes writes again");
    }
}
