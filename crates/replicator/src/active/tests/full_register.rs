//! At a register that can be read and takes no writes.

use std::time::Duration;

use stealtime_succession::{Epoch, MemberId, OutputPolicy, Term};

use super::rig::{IMPATIENT_MS, Rig, Shared};
use crate::active::Origin;
use crate::fake_guest::Deed;

/// As long as the last proof that it takes writes is good for, and longer.
const LONG: Duration = Duration::from_millis(IMPATIENT_MS[2] + 200);

async fn boot() -> Rig {
    let boot = Origin::Boot { force: false };
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), boot).await;
    rig.see(Deed::Continue).await;
    rig
}

/// Nobody is looked for, and an alarm says why.
async fn looks_for_nobody(rig: &Rig) {
    let says_why = "takes no writes: the register cannot be used: it is full; no standby is looked for until it does";
    rig.stands_by("alarms", |alarms| alarms[0]["text"].to_string().contains(says_why)).await;
    let call = tokio::time::timeout(LONG * 2, rig.standby()).await;
    assert!(call.is_err(), "a standby was called that could not be named");
    assert_eq!(rig.status().await["role"], "solo");
    assert!(rig.guest.may_leave(None), "looking is enough");
}

#[tokio::test]
async fn a_full_register_stops_no_guest_whose_standby_is_known_to_have_ended() {
    let boot = Origin::Boot { force: false };
    let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), boot).await;
    let standby = rig.protect(Epoch(1)).await;
    rig.register.fill(true);
    standby.hang_up();
    assert_eq!(rig.see(Deed::Rest).await.last(), Some(&Deed::Output(OutputPolicy::Keep)));
    let question = rig.vouch(false).await;
    assert_eq!((question.vm.as_str(), question.member), ("phone", MemberId::new("b", 7)));
    rig.stands("role", "stopped").await;
    assert!(!rig.guest.may_leave(None), "it may live");
    rig.vouch(true).await;
    rig.see(Deed::Continue).await;
    rig.see(Deed::Output(OutputPolicy::Free)).await;
    rig.stands_by("alarms", |alarms| alarms[0]["text"].to_string().contains("takes no writes: ")).await;
    assert!(rig.guest.may_leave(None), "looking is enough");
    rig.register.fill(false);
    rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().is_empty()).await;
    assert_eq!(rig.register.record().unwrap().standby, None);
}

#[tokio::test]
async fn a_guest_alone_is_not_stopped_for_a_standby_that_could_not_be_named() {
    let mut rig = boot().await;
    tokio::time::sleep(LONG).await;
    rig.register.fill(true);
    let standby = rig.standby().await;
    rig.see(Deed::FullCopy { term: Term(1), first: Epoch(1) }).await;
    tokio::time::sleep(LONG / 4).await;
    rig.guest.cut(Epoch(1), false);
    standby.acknowledge(Epoch(1));
    let before = rig.see(Deed::Output(OutputPolicy::Free)).await;
    assert_eq!(before, [Deed::Release(Epoch(1)), Deed::Rest], "it never stood, and nothing of it waits");
    assert_eq!(rig.register.record().unwrap().standby, None);
    looks_for_nobody(&rig).await;
    rig.register.fill(false);
    rig.protect(Epoch(2)).await;
}

#[tokio::test]
async fn a_register_that_fills_while_a_standby_is_named_costs_the_guest_one_stop_at_the_most() {
    let mut rig = boot().await;
    let standby = rig.standby().await;
    rig.see(Deed::FullCopy { term: Term(1), first: Epoch(1) }).await;
    rig.register.fill(true);
    rig.guest.cut(Epoch(1), false);
    standby.acknowledge(Epoch(1));
    rig.see(Deed::Output(OutputPolicy::Keep)).await;
    assert!(!rig.guest.may_leave(None), "it may have been named");
    rig.vouch(true).await;
    rig.see(Deed::Output(OutputPolicy::Free)).await;
    looks_for_nobody(&rig).await;
    rig.register.fill(false);
    rig.protect(Epoch(2)).await;
}
