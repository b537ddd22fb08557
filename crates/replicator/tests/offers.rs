//! A host that is only asked whether it would take a machine: it says what it would say to a hello, and starts nothing.

use std::fs;

use serde_json::{Value, json};
use stealtime_shipping::{Image, Inquire, Message, Offer, Verdict};
use stealtime_succession::{MemberId, Term};

use crate::host_daemon::{Daemon, HOST, send};

fn ask(daemon: &Daemon, offer: Offer) -> Verdict {
    let question = Inquire {
        term: Term(0),
        host: "a".to_owned(),
        vm: daemon.vm.clone(),
        member: MemberId::new(HOST, 0),
        wants_living: true,
        offer: Some(offer),
    };
    match send(&daemon.endpoint, &Message::Inquire(question), None) {
        Ok(Message::Told(told)) => told.verdict.unwrap(),
        other => panic!("no answer: {other:?}\n{}", daemon.log()),
    }
}

fn offer(specification: Value) -> Offer {
    Offer { qemu_version: "7.2.9 (Debian 1:7.2+dfsg-3)".to_owned(), firmware: None, specification }
}

fn changed(daemon: &Daemon, pointer: &str, value: Value) -> Offer {
    let mut assignment = daemon.assignment();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    assignment.pointer_mut(parent).unwrap()[key] = value;
    offer(assignment)
}

#[test]
fn a_host_says_what_it_would_refuse_and_starts_nothing() {
    let daemon = Daemon::start(None);
    let mut config: Value = serde_json::from_slice(&fs::read(daemon.path("host.json")).unwrap()).unwrap();
    config["disks"] = json!(daemon.path("disks"));
    fs::write(daemon.path("host.json"), config.to_string()).unwrap();
    let before = daemon.files();
    assert_eq!(ask(&daemon, offer(daemon.assignment())), Verdict::Takes, "{}", daemon.log());
    let disk = |bytes: u64| changed(&daemon, "/machine/disks", json!([{"name": "root", "bytes": bytes}]));
    assert_eq!(ask(&daemon, disk(1 << 20)), Verdict::Takes);
    let other_qemu = Offer { qemu_version: "10.0.0".to_owned(), ..offer(daemon.assignment()) };
    let firmware = Some(Image { path: "bios-256k.bin".to_owned(), sha256: "00".to_owned() });
    let other_firmware = Offer { firmware, ..offer(daemon.assignment()) };
    for (offer, said) in [
        (changed(&daemon, "/machine/machine", json!("pc-i440fx-9.9")), "no machine type \"pc-i440fx-9.9\""),
        (changed(&daemon, "/machine/memory_bytes", json!(1_u64 << 40)), "MiB are available"),
        (changed(&daemon, "/machine/initramfs/path", json!("/nothing")), "/nothing"),
        (changed(&daemon, "/machine/teapot", json!(1)), "unknown field `teapot`"),
        (disk(1 << 46), "its file system has room for"),
        (other_qemu, "10.0.0"),
        (other_firmware, "bios-256k.bin"),
    ] {
        match ask(&daemon, offer) {
            Verdict::Refuses(refusal) => assert!(refusal.to_string().contains(said), "{said}: {refusal}"),
            Verdict::Takes => panic!("it would take what it must not: {said}"),
        }
    }
    assert_eq!(daemon.files(), before, "{}", daemon.log());
}
