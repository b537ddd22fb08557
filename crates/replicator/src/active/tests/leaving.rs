//! Hosts that are to go down, the active member's own and that of its standby.

use stealtime_shipping::Leaving;

use super::*;

/// Long enough for a guest to be offered that should not be.
const A_WHILE: Duration = Duration::from_millis(300);

fn leaves(standby: &Standby, is_leaving: bool) {
    standby.send(&Message::Leaving(Leaving { term: standby.term.next(), is_leaving }));
}

async fn warns(rig: &Rig, words: &str) {
    rig.stands_by("warnings", |warnings| warnings.to_string().contains(words)).await;
}

#[tokio::test]
async fn a_standby_whose_host_is_to_go_down_is_kept_until_another_host_takes_the_machine() {
    let (mut rig, c) = Rig::boot_with_two_hosts().await;
    let mut standby = rig.protect(Epoch(1)).await;
    leaves(&standby, true);
    warns(&rig, "b, which stands by, is to go down: it does not move there, and another host is looked for").await;
    let refusal = rig.answer(Command::Failover { force: false }).await.unwrap_err();
    assert_eq!(refusal.error, "b is to go down, and phone would go down with it");
    assert_eq!(rig.status().await["protected"], true, "nobody else was asked yet");
    // What it would take was in a term that is over when the other standby is given up.
    let mut asked = Standby::on("c", &c).await;
    asked.hears(|it| matches!(it, Message::Bye { term: Term(2) })).await;
    standby.hears(|it| matches!(it, Message::Bye { term: Term(2) })).await;
    rig.refuse(Refusal::Leaving { host: "b".to_owned() }).await;
    let next = Standby::on("c", &c).await;
    assert_eq!(next.term, Term(3));
    let _next = rig.protect_by(next, Epoch(2)).await;
    assert_eq!(rig.status().await["standby"]["name"], "c");
}

#[tokio::test]
async fn a_guest_that_is_to_leave_waits_for_a_standby_that_stays() {
    let (mut rig, c) = Rig::boot_with_two_hosts().await;
    let standby = rig.protect(Epoch(1)).await;
    leaves(&standby, true);
    warns(&rig, "b, which stands by, is to go down").await;
    rig.terminate();
    warns(&rig, "a was asked to leave while b is to go down, too: it does when a standby can take the machine").await;
    drop(Standby::on("c", &c).await);
    rig.refuse(Refusal::Leaving { host: "b".to_owned() }).await;
    let next = Standby::on("c", &c).await;
    let (term, first) = (next.term, Epoch(2));
    let before = rig.see(Deed::FullCopy { term, first }).await;
    assert!(!before.contains(&Deed::Last), "{before:?}");
    rig.guest.cut(first, false);
    next.acknowledge(first);
    rig.see(Deed::Go(term.next())).await;
    next.send(&Message::Confirmed(Confirmed { term: term.next(), port_fault: None }));
    rig.see(Deed::Last).await;
}

#[tokio::test]
async fn where_no_host_is_left_the_guest_stays_protected_until_the_standbys_host_stays() {
    let mut rig = Rig::boot("net").await;
    let standby = rig.protect(Epoch(1)).await;
    leaves(&standby, true);
    warns(&rig, "it does not move there, and there is no other host for it").await;
    rig.terminate();
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(rig.status().await["protected"], true);
    leaves(&standby, false);
    let before = rig.see(Deed::Last).await;
    assert_eq!(before, [], "nothing else was done to it");
}

#[tokio::test]
async fn a_guest_that_was_offered_to_a_host_that_is_to_go_down_goes_on_here() {
    let mut rig = Rig::boot("net").await;
    let (mut standby, answer) = offered(&mut rig).await;
    let term = standby.term.next();
    standby.send(&Message::Refuse { term, refusal: Refusal::Leaving { host: "b".to_owned() } });
    standby.hears(|it| matches!(it, Message::Bye { .. })).await;
    rig.see(Deed::Continue).await;
    let refusal = answer.await.unwrap().unwrap_err();
    assert!(refusal.error.contains("so the guest goes on here"), "{refusal:?}");
    // It is asked again at once: its host may have come back.
    rig.protect(Epoch(3)).await;
}

#[tokio::test]
async fn a_guest_that_is_taken_over_on_a_host_that_is_to_go_down_leaves_it() {
    let register = Shared::default();
    let origin = takeover(&register);
    let mut rig = Rig::start_on_a_host_that_leaves(register, origin).await;
    rig.see(Deed::Announce).await;
    rig.guest.events.send(GuestEvent::Continued).unwrap();
    let standby = rig.standby().await;
    let (term, first) = (standby.term, Epoch(41));
    rig.see(Deed::FullCopy { term, first }).await;
    rig.guest.cut(first, false);
    standby.acknowledge(first);
    rig.see(Deed::Go(term.next())).await;
    standby.send(&Message::Confirmed(Confirmed { term: term.next(), port_fault: None }));
    rig.see(Deed::Last).await;
}
