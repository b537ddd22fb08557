//! Starts that are refused, and input that is not believed.

use std::time::Duration;

use super::*;
use crate::{
    MemberId, Mode, Record, RegisterAnswer, RegisterCall, RegisterOutcome, RegisterRequest, SwapOutcome, Timing,
    Version,
};

const NOW: Duration = Duration::from_secs(100);

fn alpha(life: u64) -> MemberId {
    MemberId::new("alpha", life)
}

fn member(force: bool) -> ActiveMember {
    let config = ActiveConfig { me: alpha(1), mode: Mode::Net, timing: Timing::default(), epochs_in_flight: 2, force };
    ActiveMember::new(config, NOW)
}

fn request(actions: &[ActiveAction]) -> RegisterRequest {
    let requests = actions.iter().filter_map(|action| match action {
        ActiveAction::Register(request) => Some(request.clone()),
        _ => None,
    });
    requests.into_iter().next_back().unwrap_or_else(|| panic!("no request in {actions:?}"))
}

fn answer(member: &mut ActiveMember, id: u64, outcome: RegisterOutcome) -> Vec<ActiveAction> {
    member.handle(NOW, ActiveInput::Register(RegisterAnswer { id, outcome }))
}

/// Start a member where the register holds `record`.
fn start(member: &mut ActiveMember, record: Option<Record>) -> Vec<ActiveAction> {
    let id = request(&member.handle(NOW, ActiveInput::Tick)).id;
    let found = record.map(|record| Versioned { version: Version(3), record });
    answer(member, id, RegisterOutcome::Read(found))
}

fn protected() -> ActiveMember {
    let mut member = member(false);
    let take = request(&start(&mut member, None));
    let actions = answer(&mut member, take.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(1))));
    assert!(actions.starts_with(&[ActiveAction::BootGuest]), "{actions:?}");
    member.handle(NOW, ActiveInput::StandbyConnected { standby: MemberId::new("beta", 2) });
    member.handle(NOW, ActiveInput::EpochCut { epoch: Epoch(1), last: false });
    let actions = member.handle(NOW, ActiveInput::Acknowledged { term: Term(1), epoch: Epoch(1) });
    let name = request(&actions);
    let actions = answer(&mut member, name.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(2))));
    let told = ActiveAction::Send(ActiveMessage::Protected { term: Term(2) });
    assert!(actions.contains(&told) && member.state() == ActiveState::Confirming, "{actions:?}");
    member.handle(NOW, ActiveInput::Confirmed { term: Term(1) });
    assert_eq!((member.state(), member.refusals().unexpected), (ActiveState::Confirming, 1), "of another term");
    member.handle(NOW, ActiveInput::Confirmed { term: Term(2) });
    assert_eq!(member.state(), ActiveState::Protected);
    member.refusals = Refusals::default();
    member
}

#[test]
fn what_another_host_holds_is_refused_with_a_hint() {
    let actions = start(&mut member(false), Some(Record::alone(Term(7), MemberId::new("gamma", 9))));
    let [ActiveAction::Exit(ending)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(ending.to_string(), "the virtual machine is held by gamma@0000000000000009 in term 7");
    assert!(ending.hint().is_some_and(|hint| hint.contains("--force")));
}

#[test]
fn an_earlier_life_whose_standby_may_hold_newer_state_is_left_to_it() {
    let standby = Some(MemberId::new("beta", 2));
    let record = Record { standby, ..Record::alone(Term(7), alpha(9)) };
    let actions = start(&mut member(false), Some(record.clone()));
    assert!(matches!(actions[..], [ActiveAction::Exit(ActiveEnding::StandbyMayClaim { .. })]), "{actions:?}");
    let mut forced = member(true);
    start(&mut forced, Some(record));
    assert_eq!(forced.state(), ActiveState::Observing);
}

#[test]
fn a_vacant_record_is_taken_in_the_next_term() {
    let record = Record { holder: None, ..Record::alone(Term(7), alpha(9)) };
    let take = request(&start(&mut member(false), Some(record)));
    let wanted = Record::alone(Term(8), alpha(1));
    assert_eq!(take.call, RegisterCall::Swap { expected: Some(Version(3)), wanted });
}

#[test]
fn a_start_without_a_register_ends_with_its_reason() {
    let mut member = member(false);
    let id = request(&member.handle(NOW, ActiveInput::Tick)).id;
    let outcome = RegisterOutcome::Unreachable { reason: "no route to 10.0.0.1".to_owned() };
    let later = NOW + Timing::default().register_deadline;
    let actions = member.handle(later, ActiveInput::Register(RegisterAnswer { id, outcome }));
    let [ActiveAction::Exit(ending)] = &actions[..] else { panic!("{actions:?}") };
    assert!(ending.to_string().ends_with("no route to 10.0.0.1"), "{ending}");
}

#[test]
fn what_does_not_belong_to_the_session_is_counted_and_releases_nothing() {
    let mut member = protected();
    let before = member.permit();
    for epoch in [2, 3] {
        member.handle(NOW, ActiveInput::EpochCut { epoch: Epoch(epoch), last: false });
    }
    assert!(!member.may_cut(), "two epochs are on their way");
    member.handle(NOW, ActiveInput::EpochCut { epoch: Epoch(4), last: false });
    for (term, epoch) in [(0, 2), (3, 2), (2, 1), (2, 4)] {
        let acknowledged = ActiveInput::Acknowledged { term: Term(term), epoch: Epoch(epoch) };
        assert_eq!(member.handle(NOW, acknowledged), [], "term {term}, epoch {epoch}");
    }
    member.handle(NOW, ActiveInput::Echo { term: Term(2), sent: NOW + Duration::from_secs(1) });
    assert_eq!(member.permit(), before);
    let expected = Refusals { wrong_term: 2, wrong_epoch: 2, unexpected: 2 };
    assert_eq!(member.refusals(), expected);
    let acknowledged = ActiveInput::Acknowledged { term: Term(2), epoch: Epoch(3) };
    assert_eq!(member.handle(NOW, acknowledged), [ActiveAction::Release(Epoch(3))], "both at once");
    assert!(member.may_cut());
}

#[test]
fn a_crashed_guest_is_handed_to_the_standby() {
    let mut member = protected();
    let actions = member.handle(NOW, ActiveInput::GuestGone);
    let resign = ActiveMessage::Resign { term: Term(2), last: Epoch(1) };
    assert!(actions.contains(&ActiveAction::Send(resign)), "{actions:?}");
    assert!(actions.ends_with(&[ActiveAction::Exit(ActiveEnding::GuestGone { resigned: true })]), "{actions:?}");
}

#[test]
fn an_orderly_stop_tells_the_register_before_the_standby() {
    let mut member = protected();
    let actions = member.handle(NOW + Duration::from_millis(1), ActiveInput::StopRequested);
    let vacate = request(&actions);
    let RegisterCall::Swap { wanted, .. } = &vacate.call else { panic!("{vacate:?}") };
    assert_eq!((wanted.holder.as_ref(), wanted.term), (None, Term(3)));
    let bye = ActiveAction::Send(ActiveMessage::Bye { term: Term(3) });
    assert!(!actions.contains(&bye), "{actions:?}");
    let actions = answer(&mut member, vacate.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(9))));
    assert!(actions.contains(&bye) && actions.contains(&ActiveAction::KillGuest), "{actions:?}");
}

#[test]
fn an_epoch_that_was_cut_after_the_link_was_lost_is_not_cut_again() {
    let mut member = protected();
    let solo = request(&member.handle(NOW, ActiveInput::LinkClosed));
    member.handle(NOW, ActiveInput::EpochCut { epoch: Epoch(2), last: false });
    answer(&mut member, solo.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(3))));
    let standby = MemberId::new("beta", 3);
    let actions = member.handle(NOW, ActiveInput::StandbyConnected { standby });
    let begin = ActiveAction::BeginEpochs { term: Term(3), first: Epoch(3) };
    assert!(actions.contains(&begin), "{actions:?}");
}

#[test]
fn an_epoch_that_was_being_cut_when_a_failover_was_asked_for_is_not_the_last() {
    let mut member = protected();
    let actions = member.handle(NOW, ActiveInput::FailoverRequested);
    assert_eq!(actions, [ActiveAction::ShipLastEpoch]);
    member.handle(NOW, ActiveInput::EpochCut { epoch: Epoch(2), last: false });
    member.handle(NOW, ActiveInput::EpochCut { epoch: Epoch(3), last: true });
    let acknowledged = |epoch| ActiveInput::Acknowledged { term: Term(2), epoch: Epoch(epoch) };
    assert_eq!(member.handle(NOW, acknowledged(2)), [ActiveAction::Release(Epoch(2))]);
    let actions = member.handle(NOW, acknowledged(3));
    let resign = ActiveAction::Send(ActiveMessage::Resign { term: Term(2), last: Epoch(3) });
    assert_eq!(actions, [ActiveAction::Release(Epoch(3)), resign]);
}

/// The register answers the next look with what it holds instead.
fn looked_up(member: &mut ActiveMember, found: Option<Record>) -> Vec<ActiveAction> {
    let later = NOW + Timing::default().register_deadline;
    // The standby lives: its echo extends the lease.
    member.handle(NOW, ActiveInput::Echo { term: member.term(), sent: NOW });
    let look = request(&member.handle(later, ActiveInput::Tick));
    assert_eq!(look.call, RegisterCall::Read);
    let found = found.map(|record| Versioned { version: Version(40), record });
    member.handle(later, ActiveInput::Register(RegisterAnswer { id: look.id, outcome: RegisterOutcome::Read(found) }))
}

fn patient() -> ActiveMember {
    let mut member = protected();
    member.config.timing.active_deadline = Duration::from_secs(10);
    member
}

#[test]
fn a_register_that_goes_back_is_told_again_who_holds_the_machine() {
    let old = [
        None,
        Some(Record::alone(Term(1), alpha(1))),
        Some(Record::alone(Term(1), MemberId::new("beta", 9))),
        Some(Record { holder: None, ..Record::alone(Term(1), alpha(1)) }),
    ];
    for found in old {
        let mut member = patient();
        let actions = looked_up(&mut member, found.clone());
        let alarm = ActiveAction::RegisterWentBack { held: Term(2), found: found.as_ref().map(|record| record.term) };
        assert!(actions.contains(&alarm), "{found:?}: {actions:?}");
        assert_eq!((member.state(), member.term()), (ActiveState::Protected, Term(2)), "{found:?}");
        let RegisterCall::Swap { expected, wanted } = request(&actions).call else { panic!("{actions:?}") };
        assert_eq!(expected, found.map(|_| Version(40)));
        assert_eq!((wanted.term, wanted.holder, wanted.standby.is_some()), (Term(2), Some(alpha(1)), true));
    }
}

#[test]
fn a_higher_term_of_another_holder_supersedes() {
    let mut member = patient();
    let actions = looked_up(&mut member, Some(Record::alone(Term(3), MemberId::new("beta", 2))));
    assert!(matches!(actions.last(), Some(ActiveAction::Exit(ActiveEnding::Superseded { .. }))), "{actions:?}");
}

#[test]
fn of_two_holders_of_one_term_a_higher_term_ends_one() {
    let mut member = patient();
    let actions = looked_up(&mut member, Some(Record::alone(Term(2), MemberId::new("beta", 9))));
    assert_eq!(member.state(), ActiveState::Naming);
    let RegisterCall::Swap { wanted, .. } = request(&actions).call else { panic!("{actions:?}") };
    assert_eq!((wanted.term, wanted.standby.is_some()), (Term(3), true), "its standby may claim as before");
}

#[test]
fn a_member_that_is_to_leave_hands_over_as_soon_as_a_standby_may_claim() {
    let mut member = member(false);
    let take = request(&start(&mut member, None));
    answer(&mut member, take.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(1))));
    member.handle(NOW, ActiveInput::LeaveRequested);
    assert_eq!(member.state(), ActiveState::Unprotected, "nobody could go on");
    member.handle(NOW, ActiveInput::StandbyConnected { standby: MemberId::new("beta", 2) });
    member.handle(NOW, ActiveInput::EpochCut { epoch: Epoch(1), last: false });
    let name = request(&member.handle(NOW, ActiveInput::Acknowledged { term: Term(1), epoch: Epoch(1) }));
    answer(&mut member, name.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(2))));
    assert_eq!(member.state(), ActiveState::Confirming, "nobody could be sure to go on");
    let actions = member.handle(NOW, ActiveInput::Confirmed { term: Term(2) });
    assert!(actions.contains(&ActiveAction::ShipLastEpoch), "{actions:?}");
    assert_eq!(member.state(), ActiveState::Draining);
}

#[test]
fn a_machine_that_is_not_to_be_protected_ends_with_its_member() {
    let config = ActiveConfig { mode: Mode::Off, ..member(false).config };
    let mut member = ActiveMember::new(config, NOW);
    let take = request(&start(&mut member, None));
    answer(&mut member, take.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(1))));
    member.handle(NOW, ActiveInput::LeaveRequested);
    assert_eq!(member.state(), ActiveState::Stopping);
}

#[test]
fn a_standby_that_does_not_find_itself_in_its_register_is_given_up() {
    let mut member = protected();
    member.phase = Phase::Confirming { since: NOW };
    let later = NOW + Timing::default().register_deadline;
    member.config.timing.active_deadline = Timing::default().register_deadline * 2;
    member.handle(later, ActiveInput::Tick);
    assert_eq!(member.state(), ActiveState::Reclaiming);
}

#[test]
fn a_start_challenges_the_holder_and_takes_only_what_stays_challenged() {
    let found = Record::alone(Term(7), alpha(9));
    for is_alive in [false, true] {
        let mut member = member(false);
        let challenge = request(&start(&mut member, Some(found.clone())));
        let wanted = Record { challenger: Some(alpha(1)), ..found.clone() };
        assert_eq!(challenge.call, RegisterCall::Swap { expected: Some(Version(3)), wanted: wanted.clone() });
        answer(&mut member, challenge.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(4))));
        assert_eq!((member.state(), member.term()), (ActiveState::Observing, Term(0)));
        let later = NOW + Timing::default().observation();
        let look = request(&member.handle(later, ActiveInput::Tick));
        let record = if is_alive { found.renewed() } else { wanted };
        let seen = Versioned { version: Version(if is_alive { 5 } else { 4 }), record };
        let outcome = RegisterOutcome::Read(Some(seen));
        let actions = member.handle(later, ActiveInput::Register(RegisterAnswer { id: look.id, outcome }));
        if is_alive {
            assert!(matches!(actions[..], [ActiveAction::Exit(ActiveEnding::StillRenewed { .. })]), "{actions:?}");
        } else {
            let taken = Record::alone(Term(8), alpha(1));
            assert_eq!(request(&actions).call, RegisterCall::Swap { expected: Some(Version(4)), wanted: taken });
        }
    }
}

#[test]
fn a_challenged_holder_writes_its_record_again_and_has_no_longer_lease_until_then() {
    let mut member = member(false);
    let take = request(&start(&mut member, None));
    answer(&mut member, take.id, RegisterOutcome::Swap(SwapOutcome::Won(Version(1))));
    let permit = member.permit();
    let later = NOW + Timing::default().look_interval();
    let look = request(&member.handle(later, ActiveInput::Tick));
    let challenged = Record { challenger: Some(alpha(2)), ..Record::alone(Term(1), alpha(1)) };
    let outcome = RegisterOutcome::Read(Some(Versioned { version: Version(2), record: challenged }));
    let actions = member.handle(later, ActiveInput::Register(RegisterAnswer { id: look.id, outcome }));
    assert_eq!(member.permit(), permit);
    let renewal = request(&actions);
    let wanted = Record { renewals: 1, ..Record::alone(Term(1), alpha(1)) };
    assert_eq!(renewal.call, RegisterCall::Swap { expected: Some(Version(2)), wanted });
    let outcome = RegisterOutcome::Swap(SwapOutcome::Won(Version(3)));
    member.handle(later, ActiveInput::Register(RegisterAnswer { id: renewal.id, outcome }));
    assert!(member.permit().acknowledged_until > permit.acknowledged_until);
}
