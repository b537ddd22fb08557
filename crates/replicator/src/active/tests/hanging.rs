//! A register whose calls do not return: the member goes on as with one that cannot be reached.

use std::time::Duration;

use serde_json::Value;
use stealtime_succession::{ActiveEnding, Epoch, MemberId, OutputPolicy, Record, Term};

use super::super::Origin;
use super::rig::{IMPATIENT_MS, Rig, Shared};
use crate::control::Command;
use crate::fake_guest::Deed;

const BOOT: Origin = Origin::Boot { force: false };

fn register_alarm(alarms: &Value) -> Option<String> {
    let alarms = alarms.as_array().unwrap();
    alarms.iter().find(|alarm| alarm["kind"] == "register").map(|alarm| alarm["text"].to_string())
}

#[tokio::test]
async fn a_register_that_hangs_is_an_alarm_and_stops_no_protected_guest() {
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), BOOT).await;
    rig.protect(Epoch(1)).await;
    rig.register.hang(true);
    rig.stands_by("alarms", |alarms| register_alarm(alarms).is_some()).await;
    let status = rig.status().await;
    assert_eq!(status["protected"], true, "{status}");
    let text = register_alarm(&status["alarms"]).unwrap();
    assert!(text.contains("the register memory has not answered for "), "{text}");
    rig.register.hang(false);
    rig.stands_by("alarms", |alarms| register_alarm(alarms).is_none()).await;
    assert_eq!(rig.register.1.most(), 1, "one call at a time");
}

#[tokio::test]
async fn a_guest_whose_register_hangs_stops_and_goes_on_as_with_one_that_is_away() {
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), BOOT).await;
    let standby = rig.protect(Epoch(1)).await;
    rig.register.hang(true);
    standby.fall_silent();
    let before = rig.see(Deed::Stop).await;
    assert_eq!(before, [Deed::Output(OutputPolicy::Keep), Deed::Rest]);
    assert!(!rig.guest.may_leave(Some(Epoch(1))));
    rig.stands("role", "stopped").await;
    rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().iter().any(|alarm| alarm["kind"] == "stopped")).await;
    rig.register.hang(false);
    let before = rig.see(Deed::Output(OutputPolicy::Free)).await;
    assert_eq!(before, [Deed::Continue]);
    assert_eq!(rig.status().await["role"], "solo");
}

#[tokio::test]
async fn a_guest_alone_whose_register_hangs_stops_at_the_end_of_its_lease() {
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), BOOT).await;
    rig.see(Deed::Continue).await;
    rig.register.hang(true);
    rig.see(Deed::Stop).await;
    assert!(!rig.guest.may_leave(None));
    rig.register.hang(false);
    rig.see(Deed::Continue).await;
}

#[tokio::test]
async fn a_standby_whose_naming_hangs_is_named_when_that_returns() {
    // A call is given up after 4 s, and the lease of a guest alone lasts for at least 6 s by then.
    let mut rig = Rig::start("net", [4000, 5000, 8000], Shared::default(), BOOT).await;
    let standby = rig.standby().await;
    rig.see(Deed::FullCopy { term: standby.term, first: Epoch(1) }).await;
    rig.register.1.hold(false, true);
    rig.guest.cut(Epoch(1), false);
    standby.acknowledge(Epoch(1));
    rig.see(Deed::Release(Epoch(1))).await;
    tokio::time::sleep(Duration::from_millis(4500)).await;
    assert_eq!(rig.register.record(), Some(Record::alone(Term(1), MemberId::new("a", 1))));
    rig.register.hang(false);
    rig.see(Deed::Go(standby.term.next())).await;
    let record = rig.register.record().unwrap();
    assert_eq!((record.term, record.standby), (Term(2), Some(MemberId::new("b", 7))), "named once");
    assert_eq!(rig.register.1.most(), 1);
}

#[tokio::test]
async fn a_machine_is_not_started_with_a_register_that_hangs_and_says_so() {
    let register = Shared::default();
    register.hang(true);
    let mut rig = Rig::start("net", IMPATIENT_MS, register, BOOT).await;
    let ActiveEnding::RegisterUnreachable { reason } = rig.ending().await.unwrap() else { panic!("it started") };
    assert!(reason.contains("the register memory has not answered for "), "{reason}");
    rig.register.hang(false);
}

#[tokio::test]
async fn a_stop_waits_for_a_register_that_hangs_no_longer_than_for_one_that_is_away() {
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), BOOT).await;
    rig.protect(Epoch(1)).await;
    rig.register.hang(true);
    let answer = rig.ask(Command::Stop).await;
    rig.see(Deed::Kill).await;
    let heir = Some(MemberId::new("b", 7));
    assert_eq!(rig.ending().await.unwrap(), ActiveEnding::StoppedButRegistered { heir });
    let _ = answer.await.unwrap();
    rig.register.hang(false);
}
