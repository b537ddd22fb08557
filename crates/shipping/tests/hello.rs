//! Which machines a host takes, and what it says of those that it does not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use stealtime_shipping::{Hello, Image, LocalFacts, Message, RamBlock, Refusal, Wanted, Welcome, judge};
use stealtime_succession::{MemberId, Term};

const KERNEL: &str = "/var/lib/stealtime/vmlinuz";

fn block(name: &str, bytes: u64) -> RamBlock {
    RamBlock { name: name.to_owned(), bytes }
}

fn hello() -> Hello {
    Hello {
        term: Term(4),
        host: "a".to_owned(),
        member: MemberId::new("a", 1),
        qemu_version: "7.2.22 (Debian)".to_owned(),
        firmware: None,
        ram_blocks: vec![block("pc.ram", 256 << 20), block("pc.bios", 256 << 10)],
        wants_delta: true,
        specification: serde_json::Value::Null,
    }
}

fn wanted() -> Wanted {
    Wanted {
        vm: "pbx".to_owned(),
        machine: "pc-i440fx-7.2".to_owned(),
        accelerator: "tcg".to_owned(),
        memory_bytes: 256 << 20,
        images: vec![Image { path: KERNEL.to_owned(), sha256: "00aa".to_owned() }],
    }
}

fn facts() -> LocalFacts {
    LocalFacts {
        host: "b".to_owned(),
        member: MemberId::new("b", 2),
        qemu_version: "7.2.22 (Debian)".to_owned(),
        machines: vec!["pc-i440fx-7.2".to_owned(), "pc-q35-7.2".to_owned()],
        accelerators: vec!["tcg".to_owned()],
        available_bytes: 640 << 20,
        images: BTreeMap::from([(KERNEL.to_owned(), "00AA".to_owned())]),
        highest_term: Some(Term(4)),
        ram_blocks: Some(vec![block("pc.bios", 256 << 10), block("pc.ram", 256 << 20)]),
        delta: true,
    }
}

#[test]
fn a_host_that_fits_takes_the_machine() {
    let expected = Welcome { term: Term(4), host: "b".to_owned(), member: MemberId::new("b", 2), delta: true };
    assert_eq!(judge(&hello(), &wanted(), &facts()), Ok(expected.clone()));
    let before_qemu_runs = LocalFacts { ram_blocks: None, ..facts() };
    assert_eq!(judge(&hello(), &wanted(), &before_qemu_runs), Ok(expected));
    for (wants_delta, delta) in [(true, false), (false, true), (false, false)] {
        let welcome = judge(&Hello { wants_delta, ..hello() }, &wanted(), &LocalFacts { delta, ..facts() }).unwrap();
        assert!(!welcome.delta);
    }
}

#[test]
fn what_differs_is_said_with_both_values_and_a_hint() {
    let firmware = || Image { path: "bios-256k.bin".to_owned(), sha256: "00".to_owned() };
    let cases = [
        (
            Hello { member: MemberId::new("c", 1), ..hello() },
            wanted(),
            facts(),
            "\"c@0000000000000001\" is no member of a",
        ),
        (
            Hello { host: "b".to_owned(), member: MemberId::new("b", 1), ..hello() },
            wanted(),
            facts(),
            "b cannot stand by for pbx, because pbx runs on b",
        ),
        (
            hello(),
            wanted(),
            LocalFacts { highest_term: Some(Term(5)), ..facts() },
            "b has seen term 5 of pbx, and was asked in term 4",
        ),
        (
            hello(),
            wanted(),
            LocalFacts { qemu_version: "8.0.0".to_owned(), ..facts() },
            "QEMU is \"7.2.22 (Debian)\" on a and \"8.0.0\" on b",
        ),
        (
            hello(),
            Wanted { machine: "pc-i440fx-9.0".to_owned(), ..wanted() },
            facts(),
            "QEMU on b has no machine type \"pc-i440fx-9.0\"",
        ),
        (
            hello(),
            Wanted { accelerator: "kvm".to_owned(), ..wanted() },
            facts(),
            "pbx runs with kvm, which does not work on b",
        ),
        (
            hello(),
            Wanted { memory_bytes: 4097, ..wanted() },
            facts(),
            "pbx has 4097 bytes of memory, which is no whole number of pages",
        ),
        (
            hello(),
            Wanted { memory_bytes: 0, ..wanted() },
            facts(),
            "pbx has 0 bytes of memory, which is no whole number of pages",
        ),
        (
            hello(),
            wanted(),
            LocalFacts { available_bytes: (640 << 20) - 1, ..facts() },
            "pbx needs 640 MiB on b, and 639 MiB are available",
        ),
        (
            hello(),
            wanted(),
            LocalFacts { images: BTreeMap::new(), ..facts() },
            "b has no file /var/lib/stealtime/vmlinuz that a machine may boot from",
        ),
        (
            Hello { firmware: Some(firmware()), ..hello() },
            wanted(),
            facts(),
            "b has no file bios-256k.bin that a machine may boot from",
        ),
        (
            hello(),
            wanted(),
            LocalFacts { images: BTreeMap::from([(KERNEL.to_owned(), "00ab".to_owned())]), ..facts() },
            "/var/lib/stealtime/vmlinuz has the SHA-256 00aa on a and another one on b",
        ),
        (
            hello(),
            wanted(),
            LocalFacts { ram_blocks: Some(vec![block("pc.ram", 256 << 20)]), ..facts() },
            "the memory block pc.bios has 262144 bytes on a and no byte on b",
        ),
        (
            Hello { ram_blocks: vec![block("pc.ram", 256 << 20)], ..hello() },
            wanted(),
            facts(),
            "the memory block pc.bios has no byte on a and 262144 bytes on b",
        ),
    ];
    for (hello, wanted, facts, said) in cases {
        let refusal = judge(&hello, &wanted, &facts).unwrap_err();
        assert_eq!(refusal.to_string(), said);
        assert!(!refusal.hint().is_empty());
        // The other host's user reads the same.
        let json = serde_json::to_string(&refusal).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
        Message::Refuse { term: Term(4), refusal }.encode().unwrap();
    }
}
