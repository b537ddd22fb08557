//! What a standby believes, and what it does not.

use std::time::Duration;

use super::*;
use crate::{
    MemberId, Record, RegisterAnswer, RegisterCall, RegisterOutcome, RegisterRequest, Timing, Version, Versioned,
};

const NOW: Duration = Duration::from_secs(100);

fn config() -> StandbyConfig {
    StandbyConfig {
        me: MemberId::new("beta", 2),
        active: MemberId::new("alpha", 1),
        term: Term(5),
        mode: Mode::Net,
        timing: Timing::default(),
    }
}

fn standby() -> StandbyMember {
    StandbyMember::new(config(), NOW)
}

fn verified(term: u64, epoch: u64, full: bool) -> StandbyInput {
    StandbyInput::EpochVerified { term: Term(term), epoch: Epoch(epoch), full }
}

/// Tell it that it is named in term 6, and have its register say so, too.
fn be_named(standby: &mut StandbyMember) {
    let asked = request(&standby.handle(NOW, StandbyInput::Protected { term: Term(6) }));
    let record = Record { standby: Some(config().me), ..Record::alone(Term(6), config().active) };
    let confirmed = StandbyAction::Send(StandbyMessage::Confirmed { term: Term(6) });
    assert_eq!(standby.handle(NOW, read(asked.id, Some(record))), [confirmed]);
    assert_eq!(standby.state(), StandbyState::Eligible);
}

fn read(id: u64, record: Option<Record>) -> StandbyInput {
    let outcome = RegisterOutcome::Read(record.map(|record| Versioned { version: Version(1), record }));
    StandbyInput::Register(RegisterAnswer { id, outcome })
}

#[test]
fn a_register_that_does_not_name_us_is_another_one() {
    let unnamed = Record::alone(Term(6), config().active);
    let of_another_life = Record { standby: Some(config().me), ..Record::alone(Term(6), MemberId::new("alpha", 3)) };
    for record in [None, Some(Record::alone(Term(4), config().active)), Some(unnamed), Some(of_another_life)] {
        let mut standby = standby();
        standby.handle(NOW, verified(5, 1, true));
        let asked = request(&standby.handle(NOW, StandbyInput::Protected { term: Term(6) }));
        assert_eq!((asked.call, standby.state()), (RegisterCall::Read, StandbyState::Named));
        let found = record.as_ref().map(|record| record.term);
        let ending = StandbyEnding::OtherRegister { told: Term(6), found };
        let actions = standby.handle(NOW, read(asked.id, record));
        assert_eq!(actions, [StandbyAction::Exit(ending)], "the link is needed to say so");
    }
}

#[test]
fn a_register_that_does_not_answer_is_asked_again() {
    let mut standby = standby();
    standby.handle(NOW, verified(5, 1, true));
    let asked = request(&standby.handle(NOW, StandbyInput::Protected { term: Term(6) }));
    let outcome = RegisterOutcome::Unreachable { reason: String::new() };
    let silent = StandbyInput::Register(RegisterAnswer { id: asked.id, outcome });
    assert_eq!(standby.handle(NOW, silent), []);
    let later = NOW + Timing::default().retry_interval();
    assert_eq!((standby.deadline(), standby.state()), (Some(later), StandbyState::Named));
    assert_eq!(request(&standby.handle(later, StandbyInput::Tick)).call, RegisterCall::Read);
}

#[test]
fn epochs_are_committed_in_order_from_a_full_one_on() {
    let mut standby = standby();
    assert_eq!(standby.handle(NOW, verified(5, 7, false)), [], "the first one must be full");
    let acknowledge = StandbyMessage::Acknowledge { term: Term(5), epoch: Epoch(7) };
    assert_eq!(
        standby.handle(NOW, verified(5, 7, true)),
        [StandbyAction::Commit(Epoch(7)), StandbyAction::Send(acknowledge)]
    );
    for (epoch, full) in [(7, false), (9, false), (8, true)] {
        assert_eq!(standby.handle(NOW, verified(5, epoch, full)), [], "epoch {epoch}, full: {full}");
    }
    assert_eq!((standby.committed(), standby.refusals().wrong_epoch), (Some(Epoch(7)), 4));
}

#[test]
fn messages_of_another_term_are_refused_and_are_no_sign_of_life() {
    let mut standby = standby();
    standby.handle(NOW, verified(5, 1, true));
    be_named(&mut standby);
    let deadline = standby.deadline();
    let later = NOW + Duration::from_millis(150);
    for term in [Term(4), Term(7)] {
        assert_eq!(standby.handle(later, StandbyInput::Heartbeat { term, sent: NOW }), []);
        assert_eq!(standby.handle(later, StandbyInput::Traffic { term }), []);
        assert_eq!(standby.handle(later, verified(term.0, 2, false)), []);
        assert_eq!(standby.handle(later, StandbyInput::Resign { term, last: Epoch(1) }), []);
        assert_eq!(standby.handle(later, StandbyInput::Bye { term }), []);
    }
    assert_eq!(standby.refusals().wrong_term, 10);
    assert_eq!((standby.deadline(), standby.state()), (deadline, StandbyState::Eligible));
    let echo = StandbyMessage::Echo { term: Term(6), sent: NOW };
    assert_eq!(
        standby.handle(later, StandbyInput::Heartbeat { term: Term(5), sent: NOW }),
        [StandbyAction::Send(echo)],
        "the term at the beginning of the session is of the session"
    );
}

#[test]
fn a_resignation_counts_only_if_its_last_epoch_is_here() {
    let mut standby = standby();
    standby.handle(NOW, verified(5, 1, true));
    be_named(&mut standby);
    standby.handle(NOW, StandbyInput::Resign { term: Term(6), last: Epoch(2) });
    assert_eq!((standby.state(), standby.refusals().wrong_epoch), (StandbyState::Eligible, 1));
    standby.handle(NOW, StandbyInput::Resign { term: Term(6), last: Epoch(1) });
    assert_eq!(standby.state(), StandbyState::Claiming);
}

#[test]
fn one_without_a_copy_leaves() {
    let mut standby = standby();
    let actions = standby.handle(NOW + Timing::default().register_deadline, StandbyInput::Tick);
    assert_eq!(actions, [StandbyAction::CloseLink, StandbyAction::Exit(StandbyEnding::NeverSynced)]);
    assert_eq!(standby.deadline(), None);
}

#[test]
fn a_closed_connection_is_waited_for_as_long_as_output_may_leave() {
    for (mode, waits_ms) in [(Mode::Net, 50), (Mode::NetBypass, 60), (Mode::NoNet, 60)] {
        let mut standby = StandbyMember::new(StandbyConfig { mode, ..config() }, NOW);
        standby.handle(NOW, verified(5, 1, true));
        be_named(&mut standby);
        standby.handle(NOW, StandbyInput::Heartbeat { term: Term(6), sent: NOW });
        let later = NOW + Duration::from_millis(40);
        standby.handle(later, StandbyInput::Traffic { term: Term(6) });
        assert_eq!(standby.deadline(), Some(later + Timing::default().standby_timeout), "{mode}: while it is open");
        standby.handle(later, StandbyInput::LinkClosed);
        // No lease counts from traffic: 100 ms after the heartbeat in modes in which output passes.
        let claims_at = later + Duration::from_millis(waits_ms);
        assert_eq!(standby.deadline(), Some(claims_at), "{mode}");
        standby.handle(claims_at.saturating_sub(Duration::from_nanos(1)), StandbyInput::Tick);
        assert_eq!(standby.state(), StandbyState::Eligible, "{mode}");
        standby.handle(claims_at, StandbyInput::Tick);
        assert_eq!(standby.state(), StandbyState::Claiming, "{mode}");
    }
}

#[test]
fn a_member_whose_heartbeats_never_came_is_given_all_the_patience() {
    let mut standby = StandbyMember::new(StandbyConfig { mode: Mode::NetBypass, ..config() }, NOW);
    standby.handle(NOW, verified(5, 1, true));
    be_named(&mut standby);
    standby.handle(NOW, StandbyInput::LinkClosed);
    assert_eq!(standby.deadline(), Some(NOW + Timing::default().standby_timeout));
}

fn request(actions: &[StandbyAction]) -> RegisterRequest {
    let request = actions.iter().find_map(|action| match action {
        StandbyAction::Register(request) => Some(request.clone()),
        _ => None,
    });
    request.unwrap_or_else(|| panic!("no request in {actions:?}"))
}

#[test]
fn a_register_that_went_back_is_claimed_by_the_operators_word_alone() {
    for found in [None, Some(Record::alone(Term(4), MemberId::new("gamma", 7)))] {
        let mut standby = standby();
        standby.handle(NOW, verified(5, 1, true));
        be_named(&mut standby);
        standby.handle(NOW, StandbyInput::ClaimForced);
        assert_eq!(standby.state(), StandbyState::Eligible, "it has not lost the active member");
        let look = request(&standby.handle(NOW, StandbyInput::Resign { term: Term(6), last: Epoch(1) }));
        let held = found.clone().map(|record| Versioned { version: Version(9), record });
        let answer = |id| StandbyInput::Register(RegisterAnswer { id, outcome: RegisterOutcome::Read(held.clone()) });
        let alarm = StandbyAction::RegisterWentBack { held: Term(6), found: found.as_ref().map(|record| record.term) };
        assert_eq!(standby.handle(NOW, answer(look.id)), [alarm]);
        assert_eq!(standby.state(), StandbyState::Claiming, "its holder may live");
        standby.handle(NOW, StandbyInput::ClaimForced);
        let later = NOW + Timing::default().retry_interval();
        let look = request(&standby.handle(later, StandbyInput::Tick));
        let claim = request(&standby.handle(later, answer(look.id))).call;
        let wanted = Record::alone(Term(7), MemberId::new("beta", 2));
        assert_eq!(claim, RegisterCall::Swap { expected: held.map(|held| held.version), wanted });
    }
}
