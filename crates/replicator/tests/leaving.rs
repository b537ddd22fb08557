//! A standby whose host is to go down.

use std::fs;

use stealtime_shipping::{Hello, Message, RamBlock, Refusal, connect};
use stealtime_succession::Term;

use crate::host_daemon::{Daemon, PATIENCE, hello};

#[test]
fn a_standby_without_a_copy_ends_when_its_host_is_to_go_down_and_leaves_nothing() {
    let mut daemon = Daemon::start(None);
    daemon.have_qemu_answer();
    let ram_blocks = vec![RamBlock { name: "pc.ram".to_owned(), bytes: 1 << 20 }];
    let hello = Hello { qemu_version: "7.2.0".to_owned(), ram_blocks, ..hello(daemon.assignment()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, mut receiver) = connect(&daemon.endpoint, None).await.unwrap().split();
        sender.send(&Message::Hello(Box::new(hello))).await.unwrap();
        let mut hear = async || tokio::time::timeout(PATIENCE, receiver.receive()).await.expect("an answer").unwrap();
        let answer = hear().await;
        assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
        fs::write(daemon.path("members/.leaving"), "").unwrap();
        let refusal = Refusal::Leaving { host: "b".to_owned() };
        assert_eq!(hear().await, Message::Refuse { term: Term(4), refusal });
    });
    daemon.await_that("nothing is left", |daemon| !daemon.member().exists());
}
