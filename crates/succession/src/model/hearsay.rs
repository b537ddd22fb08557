//! What a host tells of the machine that is asked to stand by for it.

use super::Fault;
use super::exhaustive::world_in;
use super::failures::Failure;
use super::steps::Step;
use super::world::{Role, World};
use crate::{ActiveInput, ActiveMember, ActiveState, MemberId, Mode, Record, Term};

/// A member alone that is told of a later term, by beta: that `holder` has the machine.
fn tell(world: &mut World, holder: &str, term: u64) {
    let holder = MemberId::new(holder, 7);
    let told_by = "beta".to_owned();
    world.tell_active(0, ActiveInput::Outranked { told_by, term: Term(term), holder }).unwrap();
}

fn is_gone(world: &World) -> bool {
    matches!(world.processes[0].role, Role::Gone)
}

#[test]
fn a_member_that_hears_of_a_later_term_first_hand_stops_whatever_its_register_holds() {
    for (fault, stops) in [(None, true), (Some(Fault::IgnoresLaterTerms), false)] {
        let mut world = world_in(Mode::Net, ActiveState::Unprotected, fault);
        tell(&mut world, "beta", 1);
        assert_eq!(world.serving(), [0], "the term is its own");
        tell(&mut world, "beta", 9);
        assert_eq!(is_gone(&world), stops, "{fault:?}");
    }
}

/// A machine whose second host was set up with another register, in which a third one has it in a later term.
fn foreign(fault: Option<Fault>) -> World {
    let mut world = World::new(Mode::Net, fault);
    world.registers_differ = true;
    world.other_register = Some(Record::alone(Term(9), MemberId::new("gamma", 7)));
    world
}

#[test]
fn what_a_wrong_register_holds_ends_no_guest() {
    for (fault, goes_on) in [(None, true), (Some(Fault::BelievesHearsay), false)] {
        let mut world = foreign(fault);
        world.run_punctually(60).unwrap();
        assert_eq!(is_gone(&world), !goes_on, "{fault:?}");
        assert!(world.links.is_empty(), "nor does that host stand by for it");
        assert!(!goes_on || !world.processes[0].seeking, "it is left alone");
    }
}

#[test]
fn what_our_own_register_confirms_ends_a_member_at_once() {
    for (fault, stops) in [(None, true), (Some(Fault::IgnoresHearsay), false)] {
        let mut world = world_in(Mode::Net, ActiveState::Unprotected, fault);
        let is_connect = |step| matches!(step, Step::Connect(_));
        world.run_without(3, is_connect).unwrap();
        world.put(Some(Record::alone(Term(9), MemberId::new("gamma", 7))));
        tell(&mut world, "gamma", 9);
        world.run_without(0, is_connect).unwrap();
        assert_eq!(is_gone(&world), stops, "{fault:?}: no time has passed");
    }
}

#[test]
fn what_was_read_before_it_was_heard_settles_nothing() {
    let mut world = world_in(Mode::Net, ActiveState::Unprotected, None);
    let is_connect = |step| matches!(step, Step::Connect(_));
    world.run_without(1, is_connect).unwrap();
    while world.processes[0].answer.is_none() {
        let steps = world.ordinary_steps();
        let is_of_register = |step: &&Step| matches!(step, Step::Apply(0) | Step::Tick(0));
        world.take(steps.iter().find(is_of_register).copied().unwrap_or(Step::Advance)).unwrap();
    }
    world.put(Some(Record::alone(Term(9), MemberId::new("gamma", 7))));
    tell(&mut world, "gamma", 9);
    world.take(Step::Answer(0)).unwrap();
    assert!(!is_gone(&world));
    world.run_without(0, is_connect).unwrap();
    assert!(is_gone(&world), "it is looked for anew");
}

#[test]
fn hearsay_that_our_register_cannot_be_asked_about_changes_no_lease() {
    let mut world = foreign(None);
    world.run_without(3, |step| matches!(step, Step::Connect(_))).unwrap();
    world.take(Step::Fail(Failure::HideRegister(0))).unwrap();
    world.run_punctually(4).unwrap();
    assert_eq!(world.serving(), [0]);
    world.run_punctually(20).unwrap();
    assert_eq!(world.active(0).map(ActiveMember::state), Some(ActiveState::Fenced), "without a register it stands");
    world.take(Step::Fail(Failure::ShowRegister(0))).unwrap();
    world.run_punctually(4).unwrap();
    assert_eq!(world.serving(), [0]);
}
