//! The end of a machine where the register cannot be told of it.

use serde_json::json;
use stealtime_shipping::Message;
use stealtime_succession::{ActiveEnding, Epoch, MemberId};

use super::rig::{IMPATIENT_MS, Rig, Shared};
use crate::active::Origin;
use crate::control::Command;

async fn boot() -> Rig {
    Rig::start("net", IMPATIENT_MS, Shared::default(), Origin::Boot { force: false }).await
}

#[tokio::test]
async fn a_standby_that_may_run_the_machine_is_named_to_who_asked_for_its_end() {
    let mut rig = boot().await;
    let mut standby = rig.protect(Epoch(1)).await;
    rig.register.fill(true);
    let answer = rig.ask(Command::Stop).await;
    standby.hears(|it| matches!(it, Message::Bye { .. })).await;
    // Its host does not say that it has heard.
    rig.vouch(false).await;
    let refusal = answer.await.unwrap().unwrap_err();
    let expected = "stopped here as asked, but the register could not be told, so that b may run the virtual machine";
    assert_eq!(refusal.error, expected);
    assert_eq!(refusal.hint.as_deref(), Some("stop it there, too, with `stealtime protect stop`"));
    let heir = Some(MemberId::new("b", 7));
    assert_eq!(rig.ending().await.unwrap(), ActiveEnding::StoppedButRegistered { heir });
}

#[tokio::test]
async fn a_standby_that_ended_when_it_heard_of_the_end_runs_nothing() {
    let mut rig = boot().await;
    let mut standby = rig.protect(Epoch(1)).await;
    rig.register.fill(true);
    let answer = rig.ask(Command::Stop).await;
    standby.hears(|it| matches!(it, Message::Bye { .. })).await;
    rig.vouch(true).await;
    let ending = ActiveEnding::StoppedButRegistered { heir: None };
    assert_eq!(answer.await.unwrap().unwrap(), json!({"ended": ending.to_string()}));
    assert_eq!(rig.ending().await.unwrap(), ending);
}

#[tokio::test]
async fn a_standby_that_has_ended_is_named_where_no_register_says_that_it_had_not_claimed_before() {
    let mut rig = boot().await;
    let mut standby = rig.protect(Epoch(1)).await;
    rig.register.hide(true);
    let answer = rig.ask(Command::Stop).await;
    standby.hears(|it| matches!(it, Message::Bye { .. })).await;
    rig.vouch(true).await;
    assert!(answer.await.unwrap().unwrap_err().error.ends_with("so that b may run the virtual machine"));
    let heir = Some(MemberId::new("b", 7));
    assert_eq!(rig.ending().await.unwrap(), ActiveEnding::StoppedButRegistered { heir });
}

#[tokio::test]
async fn a_failover_that_the_guest_does_not_survive_is_no_failover() {
    let mut rig = boot().await;
    let _standby = rig.protect(Epoch(1)).await;
    let answer = rig.ask(Command::Failover { force: false }).await;
    rig.see(crate::fake_guest::Deed::Last).await;
    let reason = "it does not answer".to_owned();
    let lost = crate::guest::GuestEvent::CaptureFailed { reason, cut: Epoch(2), is_lost: true };
    rig.guest.events.send(lost).unwrap();
    let refusal = answer.await.unwrap().unwrap_err();
    assert!(refusal.error.starts_with("it was not handed over: the guest's process ended"), "{refusal:?}");
}
