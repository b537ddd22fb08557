//! What a host says that is asked to stand by, and knows of another holder.

use std::time::Duration;

use stealtime_succession::{ActiveEnding, MemberId, Record, Term};

use super::rig::Rig;
use crate::fake_guest::Deed;

async fn boot() -> Rig {
    let mut rig = Rig::boot("net").await;
    rig.see(Deed::Continue).await;
    rig
}

#[tokio::test]
async fn a_host_with_a_wrong_register_ends_no_guest_and_is_left_alone() {
    let mut rig = boot().await;
    rig.refuse_as_held(&MemberId::new("c", 3), Term(9)).await;
    let says_why = "b looks into another register than a: a holds phone in term 1, and the register of b has another \
                    record, of term 9 (hint: name the same etcd";
    rig.stands_by("warnings", |warnings| warnings.to_string().contains(says_why)).await;
    let call = tokio::time::timeout(Duration::from_secs(2), rig.standby()).await;
    assert!(call.is_err(), "it is not asked again and again");
    let status = rig.status().await;
    assert_eq!(status["role"], "solo", "{status}");
    assert!(!status["warnings"].to_string().contains("must not go on"), "{status}");
    assert!(rig.guest.may_leave(None));
    assert!(rig.guest.deeds.try_recv().is_err(), "nothing was done to it");
}

#[tokio::test]
async fn what_our_own_register_confirms_ends_the_member() {
    let mut rig = boot().await;
    let record = Record::alone(Term(9), MemberId::new("c", 3));
    rig.register.put(record);
    rig.refuse_as_held(&MemberId::new("c", 3), Term(9)).await;
    assert_eq!(rig.ending().await.unwrap().to_string(), "c@0000000000000003 took over in term 9");
}

#[tokio::test]
async fn what_a_host_says_of_itself_ends_the_member_whatever_its_register_holds() {
    let mut rig = boot().await;
    rig.refuse_as_held(&MemberId::new("b", 3), Term(9)).await;
    let ending = rig.ending().await.unwrap();
    assert!(matches!(ending, ActiveEnding::Superseded { term: Term(9), .. }), "{ending:?}");
}
