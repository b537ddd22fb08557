//! The active member, without a QEMU.

mod full_register;
mod hanging;
mod hearsay;
mod leaving;
pub mod rig;
mod stopping;

use stealtime_capture::Shutdown;
use stealtime_shipping::{Confirmed, Endpoint, Link, LinkError, LinkReceiver, Listener, Refusal, accept, connect};
use stealtime_succession::{OutputPolicy, Record, Term};

use serde_json::Value;
use tokio::sync::oneshot;

use self::rig::{IMPATIENT_MS, PATIENT_MS, Rig, Shared, Standby, spec};
use super::*;
use crate::fake_guest::{self, Deed, FakeGuest};

const MODES: [&str; 2] = ["net", "no-net"];

#[tokio::test]
async fn a_guest_without_a_standby_sends_at_once() {
    let mut rig = Rig::boot("net").await;
    assert_eq!(rig.see(Deed::Continue).await, [Deed::Boot, Deed::Output(OutputPolicy::Free)]);
    assert!(rig.guest.may_leave(None));
    let status = rig.status().await;
    assert_eq!((&status["role"], &status["protected"]), (&json!("solo"), &json!(false)), "{status}");
    assert_eq!(rig.register.record(), Some(Record::alone(Term(1), MemberId::new("a", 1))));
}

#[tokio::test]
async fn output_is_held_from_the_first_cut_on_until_the_standby_acknowledges() {
    let mut rig = Rig::boot("net").await;
    let mut standby = rig.standby().await;
    let (term, first) = (Term(1), Epoch(1));
    let before = rig.see(Deed::FullCopy { term, first }).await;
    assert_eq!(before.last(), Some(&Deed::Output(OutputPolicy::HoldFromCut)), "{before:?}");
    assert!(rig.guest.may_leave(None), "it is not copied yet");
    // Nobody has heard of the cut.
    rig.guest.cut(first, false);
    assert!(!rig.guest.may_leave(None) && !rig.guest.may_leave(Some(first)));
    let Message::Addresses(told) = standby.hears(|it| matches!(it, Message::Addresses(_))).await else {
        unreachable!()
    };
    assert_eq!(told.ipv4.len(), 1);
    assert!(!rig.guest.may_leave(None) && !rig.guest.may_leave(Some(first)));
    standby.acknowledge(first);
    assert_eq!(rig.see(Deed::Go(Term(2))).await, [Deed::Release(first)]);
    assert!(rig.guest.may_leave(Some(first)) && !rig.guest.may_leave(None));
    standby.hears(|it| matches!(it, Message::Protected(Protected { term: Term(2) }))).await;
    let record = rig.register.record().unwrap();
    assert_eq!((record.term, record.standby), (Term(2), Some(MemberId::new("b", 7))));
    let status = rig.status().await;
    assert_eq!((&status["role"], &status["protected"]), (&json!("solo"), &json!(false)), "not confirmed: {status}");
    standby.send(&Message::Confirmed(Confirmed { term: Term(2), port_fault: None }));
    rig.stands("protected", true).await;
    let status = rig.status().await;
    assert_eq!((&status["role"], &status["acknowledged"]), (&json!("active"), &json!(1)), "{status}");
    assert_eq!(status["standby"]["name"], "b");
}

#[tokio::test]
async fn a_mode_that_does_not_hold_is_free_all_the_time() {
    let mut rig = Rig::boot("no-net").await;
    rig.protect(Epoch(1)).await;
    rig.guest.cut(Epoch(2), false);
    assert!(rig.guest.may_leave(None));
}

#[tokio::test]
async fn after_a_lost_link_nothing_leaves_until_the_register_grants_a_term_alone() {
    for mode in MODES {
        let mut rig = Rig::boot(mode).await;
        let standby = rig.protect(Epoch(1)).await;
        rig.register.hide(true);
        standby.hang_up();
        assert_eq!(rig.see(Deed::Rest).await.last(), Some(&Deed::Output(OutputPolicy::Keep)));
        assert!(!rig.guest.may_leave(Some(Epoch(1))) && !rig.guest.may_leave(None));
        rig.register.hide(false);
        rig.see(Deed::Output(OutputPolicy::Free)).await;
        assert!(rig.guest.may_leave(None));
        assert_eq!(rig.register.record(), Some(Record::alone(Term(3), MemberId::new("a", 1))));
        // And the next standby is welcome; epochs go on from the last.
        assert_eq!(rig.protect(Epoch(2)).await.term, Term(3));
    }
}

#[tokio::test]
async fn a_link_that_is_lost_while_the_output_is_cut_leaves_it_free() {
    let mut rig = Rig::boot("net").await;
    let standby = rig.standby().await;
    rig.see(Deed::FullCopy { term: Term(1), first: Epoch(1) }).await;
    standby.hang_up();
    rig.see(Deed::Output(OutputPolicy::Free)).await;
    // The engine had begun by then.
    rig.guest.cut(Epoch(1), false);
    assert!(rig.guest.may_leave(None));
    rig.protect(Epoch(2)).await;
}

#[tokio::test]
async fn a_lease_that_is_lost_stops_the_output_and_then_the_guest_until_the_register_answers() {
    let boot = Origin::Boot { force: false };
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), boot).await;
    let standby = rig.protect(Epoch(1)).await;
    rig.register.hide(true);
    standby.fall_silent();
    let before = rig.see(Deed::Stop).await;
    assert_eq!(before, [Deed::Output(OutputPolicy::Keep), Deed::Rest]);
    assert!(!rig.guest.may_leave(Some(Epoch(1))));
    rig.stands("role", "stopped").await;
    rig.register.hide(false);
    let before = rig.see(Deed::Output(OutputPolicy::Free)).await;
    assert_eq!(before, [Deed::Continue]);
    let status = rig.status().await;
    assert_eq!(status["role"], "solo");
    assert!(status["guest_time_lost_ns"].as_u64().unwrap() > 0, "it stood: {status}");
}

#[tokio::test]
async fn a_higher_term_of_another_ends_the_member_and_its_guest() {
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), Origin::Boot { force: false }).await;
    rig.protect(Epoch(1)).await;
    rig.register.put(Record::alone(Term(9), MemberId::new("b", 7)));
    let ending = rig.ending().await.unwrap();
    assert_eq!(ending.to_string(), "b@0000000000000007 took over in term 9");
    assert!(rig.see(Deed::Kill).await.contains(&Deed::Output(OutputPolicy::Discard)));
    rig.see(Deed::End).await;
    assert!(!rig.guest.may_leave(Some(Epoch(1))));
}

fn takeover(register: &Shared) -> Origin {
    let held = register.put(Record::alone(Term(5), MemberId::new("a", 1)));
    Origin::Takeover(Box::new(Takeover {
        promotion: Promotion { held, from: MemberId::new("b", 7), epoch: Epoch(40), claimed_at: now() },
        facts: fake_guest::facts(),
        devices: b"devices".to_vec(),
        addresses: LearnedAddresses::default(),
        decided: now(),
        leftover: Leftover::none(),
        offered_by: None,
        metrics: None,
        promised: None,
    }))
}

#[tokio::test]
async fn a_takeover_resumes_the_guest_and_announces_it_before_a_standby_is_looked_for() {
    let register = Shared::default();
    let origin = takeover(&register);
    let mut rig = Rig::start("net", PATIENT_MS, register, origin).await;
    let before = rig.see(Deed::Announce).await;
    assert_eq!(before, [Deed::Output(OutputPolicy::Free), Deed::Load(b"devices".to_vec())]);
    assert!(rig.guest.may_leave(None));
    let soon = Duration::from_millis(100);
    assert!(tokio::time::timeout(soon, rig.standby()).await.is_err(), "it needs the processors");
    rig.guest.events.send(GuestEvent::Continued).unwrap();
    assert_eq!(rig.status().await["released"], json!(40));
    // After the epoch that it went on from.
    assert_eq!(rig.protect(Epoch(41)).await.term, Term(5));
    let status = rig.status().await;
    assert!(status["resume_ns"].as_u64().is_some_and(|took| took > 0), "{status}");
    assert_eq!((&status["tracker"], &status["released"]), (&json!("shadow"), &json!(41)));
}

#[tokio::test]
async fn a_takeover_whose_lease_is_over_resumes_and_lets_nothing_out_before_a_new_one() {
    let register = Shared::default();
    let Origin::Takeover(mut late) = takeover(&register) else { unreachable!() };
    late.promotion.claimed_at = Duration::ZERO;
    register.hide(true);
    let mut rig = Rig::start("net", PATIENT_MS, register, Origin::Takeover(late)).await;
    let before = rig.see(Deed::Announce).await;
    assert_eq!(before, [Deed::Output(OutputPolicy::Keep), Deed::Load(b"devices".to_vec())]);
    assert!(!rig.guest.may_leave(None));
    rig.register.hide(false);
    rig.see(Deed::Output(OutputPolicy::Free)).await;
    assert!(rig.guest.may_leave(None));
}

#[tokio::test]
async fn a_stop_ends_the_guest_after_the_register_knows() {
    let mut rig = Rig::boot("net").await;
    let mut standby = rig.protect(Epoch(1)).await;
    let answer = rig.ask(Command::Stop).await;
    let before = rig.see(Deed::Kill).await;
    let held_back = [Deed::Output(OutputPolicy::Keep), Deed::Rest, Deed::Stop];
    assert_eq!(before[..3], held_back, "{before:?}");
    let record = rig.register.record().unwrap();
    assert_eq!((record.holder, record.term), (None, Term(3)));
    standby.hears(|it| matches!(it, Message::Bye { term: Term(3) })).await;
    assert_eq!(answer.await.unwrap().unwrap(), json!({"ended": "stopped as asked"}));
    assert_eq!(rig.ending().await.unwrap(), ActiveEnding::Stopped);
}

#[tokio::test]
async fn a_planned_failover_ships_a_last_epoch_and_hands_over() {
    let mut rig = Rig::boot("net").await;
    let refusal = rig.answer(Command::Failover { force: false }).await.unwrap_err();
    assert!(refusal.error.contains("no standby that could take over"), "{refusal:?}");
    let mut standby = rig.protect(Epoch(1)).await;
    let answer = rig.ask(Command::Failover { force: false }).await;
    rig.see(Deed::Last).await;
    rig.guest.cut(Epoch(2), true);
    standby.acknowledge(Epoch(2));
    standby.hears(|it| matches!(it, Message::Resign(Resign { last: Epoch(2), .. }))).await;
    let b = MemberId::new("b", 7);
    rig.register.put(Record { taking_over: true, ..Record::alone(Term(3), b.clone()) });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.status().await["role"], "active", "it keeps the guest while that is loaded there");
    rig.register.put(Record::alone(Term(3), b));
    let ended = answer.await.unwrap().unwrap();
    assert_eq!(ended, json!({"ended": "handed over to b@0000000000000007 in term 3"}));
    assert!(rig.see(Deed::End).await.contains(&Deed::Kill));
}

type Waiting = oneshot::Receiver<Result<Value, crate::control::Refusal>>;

/// A member that has offered its guest: the standby that it offered it to, and the answer that waits.
async fn offered(rig: &mut Rig) -> (Standby, Waiting) {
    let mut standby = rig.protect(Epoch(1)).await;
    let answer = rig.ask(Command::Failover { force: false }).await;
    rig.see(Deed::Last).await;
    rig.guest.cut(Epoch(2), true);
    standby.acknowledge(Epoch(2));
    standby.hears(|it| matches!(it, Message::Resign(_))).await;
    (standby, answer)
}

fn claim() -> Record {
    Record { taking_over: true, ..Record::alone(Term(3), MemberId::new("b", 7)) }
}

#[tokio::test]
async fn a_guest_is_taken_back_from_a_standby_that_died_before_it_ran() {
    for claimed in [false, true] {
        let mut rig = Rig::boot("net").await;
        let (standby, answer) = offered(&mut rig).await;
        if claimed {
            rig.register.put(claim());
        }
        standby.hang_up();
        rig.see(Deed::Continue).await;
        rig.see(Deed::Output(OutputPolicy::Free)).await;
        let term = if claimed { Term(4) } else { Term(3) };
        assert_eq!(rig.register.record(), Some(Record::alone(term, MemberId::new("a", 1))));
        let refusal = answer.await.unwrap().unwrap_err();
        assert!(refusal.error.contains("goes on here"), "{refusal:?}");
        assert!(rig.guest.may_leave(None));
    }
}

#[tokio::test]
async fn a_stop_during_a_planned_failover_is_answered_by_what_happened() {
    for (claimed, runs_there) in [(false, false), (true, false), (true, true)] {
        let mut rig = Rig::boot("net").await;
        let (_standby, moved) = offered(&mut rig).await;
        if claimed {
            rig.register.put(Record { taking_over: !runs_there, ..claim() });
        }
        let stopped = rig.ask(Command::Stop).await;
        let (moved, stopped) = (moved.await.unwrap(), stopped.await.unwrap());
        let record = rig.register.record().unwrap();
        if runs_there {
            assert_eq!(record.holder, Some(MemberId::new("b", 7)));
            let refusal = stopped.unwrap_err();
            assert_eq!(refusal.error, "it was not stopped: handed over to b@0000000000000007 in term 3");
        } else {
            assert_eq!(record.holder, None);
            assert_eq!(stopped.unwrap(), json!({"ended": "stopped as asked"}));
            assert!(moved.unwrap_err().error.contains("asked to stop"));
        }
    }
}

#[tokio::test]
async fn an_offered_guest_is_loaded_and_runs_when_the_register_lets_it() {
    let register = Shared::default();
    let Origin::Takeover(mut offered) = takeover(&register) else { unreachable!() };
    let me = MemberId::new("a", 1);
    offered.promotion.held = register.put(Record { taking_over: true, ..Record::alone(Term(5), me.clone()) });
    let mut rig = Rig::start("net", PATIENT_MS, register, Origin::Takeover(offered)).await;
    assert_eq!(rig.see(Deed::LoadOnly(b"devices".to_vec())).await, []);
    assert_eq!(rig.status().await["role"], "starting");
    rig.guest.events.send(GuestEvent::Loaded).unwrap();
    let before = rig.see(Deed::Announce).await;
    assert_eq!(before, [Deed::Output(OutputPolicy::Free), Deed::Continue]);
    assert_eq!(rig.register.record(), Some(Record { renewals: 1, ..Record::alone(Term(5), me) }));
}

#[tokio::test]
async fn an_offered_guest_that_cannot_be_loaded_is_left_to_who_offered_it() {
    let register = Shared::default();
    let Origin::Takeover(mut offered) = takeover(&register) else { unreachable!() };
    let claim = Record { taking_over: true, ..Record::alone(Term(5), MemberId::new("a", 1)) };
    offered.promotion.held = register.put(claim.clone());
    let mut rig = Rig::start("net", PATIENT_MS, register, Origin::Takeover(offered)).await;
    rig.see(Deed::LoadOnly(b"devices".to_vec())).await;
    let reason = "the state cannot be loaded".to_owned();
    rig.guest.events.send(GuestEvent::CaptureFailed { reason, cut: Epoch(40), is_lost: false }).unwrap();
    assert_eq!(rig.ending().await.unwrap(), ActiveEnding::GuestGone { resigned: false });
    assert_eq!(rig.register.record(), Some(claim));
}

#[tokio::test]
async fn a_detached_guest_goes_on_alone() {
    let mut rig = Rig::boot("net").await;
    let mut standby = rig.protect(Epoch(1)).await;
    assert_eq!(rig.answer(Command::Detach).await.unwrap(), json!({"detached": "phone"}));
    standby.hears(|it| matches!(it, Message::Bye { .. })).await;
    rig.see(Deed::Output(OutputPolicy::Free)).await;
    assert_eq!(rig.status().await["role"], "solo");
}

#[tokio::test]
async fn a_guest_that_powers_off_ends_the_machine_and_a_qemu_that_somebody_ends_does_not() {
    for by_guest in [true, false] {
        let mut rig = Rig::boot("net").await;
        let mut standby = rig.protect(Epoch(1)).await;
        rig.guest.events.send(GuestEvent::Exited(std::process::ExitStatus::default())).unwrap();
        rig.see(Deed::TellShutdown).await;
        let reason = if by_guest { "guest-shutdown" } else { "host-signal" };
        let shutdown = Shutdown { by_guest, reason: reason.to_owned() };
        rig.guest.events.send(GuestEvent::Shutdown(Some(shutdown))).unwrap();
        let is_it = |it: &Message| matches!(it, Message::Bye { .. }) || matches!(it, Message::Resign(_));
        let told = standby.hears(is_it).await;
        assert_eq!(matches!(told, Message::Bye { .. }), by_guest, "{told:?}");
        let ending = rig.ending().await.unwrap();
        let expected = if by_guest { ActiveEnding::Stopped } else { ActiveEnding::GuestGone { resigned: true } };
        assert_eq!(ending, expected);
    }
}

#[tokio::test]
async fn a_guest_that_is_beyond_help_is_killed_so_that_its_standby_goes_on() {
    let mut rig = Rig::boot("net").await;
    let mut standby = rig.protect(Epoch(1)).await;
    let reason = "it does not answer".to_owned();
    let failed = GuestEvent::CaptureFailed { reason, cut: Epoch(2), is_lost: true };
    rig.guest.events.send(failed).unwrap();
    rig.see(Deed::Kill).await;
    standby.hears(|it| matches!(it, Message::Resign(Resign { last: Epoch(1), .. }))).await;
    assert_eq!(rig.ending().await.unwrap(), ActiveEnding::GuestGone { resigned: true });
}

#[tokio::test]
async fn a_capture_that_fails_ends_the_session_and_its_cut_is_not_used_again() {
    let mut rig = Rig::boot("net").await;
    rig.protect(Epoch(1)).await;
    let reason = "no descriptors are left".to_owned();
    let failed = GuestEvent::CaptureFailed { reason, cut: Epoch(2), is_lost: false };
    rig.guest.events.send(failed).unwrap();
    rig.see(Deed::Output(OutputPolicy::Free)).await;
    let warnings = rig.status().await["warnings"].to_string();
    assert!(warnings.contains("no descriptors are left"), "{warnings}");
    rig.protect(Epoch(3)).await;
}

#[tokio::test]
async fn a_standby_that_could_not_resume_the_guest_is_left_alone() {
    let mut rig = Rig::boot("net").await;
    let standby = rig.standby().await;
    rig.see(Deed::FullCopy { term: Term(1), first: Epoch(1) }).await;
    let refusal = Refusal::Other { reason: "no KVM".to_owned(), hint: "load it".to_owned() };
    standby.send(&Message::Refuse { term: Term(1), refusal });
    rig.see(Deed::Output(OutputPolicy::Free)).await;
    let warnings = rig.status().await["warnings"].to_string();
    assert!(warnings.contains("b refuses: no KVM (hint: load it)"), "{warnings}");
}

#[tokio::test]
async fn a_standby_may_call_the_machine_to_its_host_in_its_term_only() {
    let mut rig = Rig::boot("net").await;
    let standby = rig.protect(Epoch(1)).await;
    let term = standby.term.next();
    standby.send(&Message::Call { term: standby.term });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.status().await["protected"], true, "that was of a term that is over");
    standby.send(&Message::Call { term });
    rig.see(Deed::Last).await;
}

/// A standby that was found, and its side of the link.
async fn found(folder: &std::path::Path) -> (Box<Found>, LinkReceiver) {
    let endpoint = Endpoint::Unix(folder.join("found.sock"));
    let listener = Listener::bind(&endpoint).await.unwrap();
    let there = async { accept(listener.accept().await.unwrap(), None).await };
    let (ours, theirs) = tokio::join!(connect(&endpoint, None), there);
    let (sender, receiver) = Link::split(ours.unwrap());
    let host = StandbyHost { name: "b".to_owned(), endpoint: endpoint.to_string() };
    let found = Found { host, standby: MemberId::new("b", 1), delta: true, qemu_version: None, sender, receiver };
    (Box::new(found), theirs.unwrap().split().1)
}

#[tokio::test]
async fn what_a_seeker_found_that_was_stopped_is_for_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (sender, _inputs) = unbounded_channel();
    let (guest, _heard, _watcher) = FakeGuest::new();
    let (spec, me) = (spec(folder.path(), "net", PATIENT_MS), MemberId::new("a", 1));
    let (register, origin) = (Box::new(Shared::default()), Origin::Boot { force: false });
    let mut active = Active::new(spec, me, register, Box::new(guest), origin, &sender).unwrap();
    active.seeker.stop();
    let stopped = active.seeker.number();
    // It waits in the queue when the next seeker is started.
    let (late, mut standby) = found(folder.path()).await;
    active.seeker.stop();
    active.take(Input::Found { seeker: stopped, found: late });
    assert!(active.link.host().is_none(), "the link of another term was taken");
    let end = standby.receive().await.unwrap_err();
    assert!(matches!(end, LinkError::Closed { .. }), "{end}");
    let (in_time, _standby) = found(folder.path()).await;
    let seeker = active.seeker.number();
    active.take(Input::Found { seeker, found: in_time });
    assert!(active.link.host().is_some());
}

#[tokio::test]
async fn a_machine_that_is_booted_is_promised_its_memory_as_long_as_its_member_lives() {
    let mut rig = Rig::boot("net").await;
    rig.stands("role", "solo").await;
    let path = rig.folder.path().join("promise.json");
    let promise: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(promise, serde_json::json!({"bytes": 1 << 20, "copies": false}));
    rig.answer(Command::Stop).await.unwrap();
    rig.ending().await.unwrap();
    assert!(!path.exists());
}
