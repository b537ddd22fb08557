//! Which machines a host takes, and what it says of those that it does not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use stealtime_shipping::{Hello, Image, LocalFacts, Message, RamBlock, Refusal, Welcome, judge};
use stealtime_succession::{MemberId, Mode, Term};

const KERNEL: &str = "/var/lib/stealtime/vmlinuz";

fn block(name: &str, bytes: u64) -> RamBlock {
    RamBlock { name: name.to_owned(), bytes }
}

fn hello() -> Hello {
    Hello {
        term: Term(4),
        host: "a".to_owned(),
        member: MemberId::new("a", 1),
        vm: "pbx".to_owned(),
        qemu_version: "7.2.22 (Debian)".to_owned(),
        machine: "pc-i440fx-7.2".to_owned(),
        accelerator: "tcg".to_owned(),
        cpu: "max".to_owned(),
        vcpus: 1,
        memory_bytes: 256 << 20,
        ram_blocks: vec![block("pc.ram", 256 << 20), block("pc.bios", 256 << 10)],
        devices: vec!["virtio-rng-pci".to_owned()],
        images: vec![Image { path: KERNEL.to_owned(), sha256: "00aa".to_owned() }],
        device_state: "xen-save".to_owned(),
        mode: Mode::Net,
        wants_delta: true,
        specification: serde_json::Value::Null,
    }
}

fn facts() -> LocalFacts {
    LocalFacts {
        host: "b".to_owned(),
        member: MemberId::new("b", 2),
        qemu_version: "7.2.22 (Debian)".to_owned(),
        machines: vec!["pc-i440fx-7.2".to_owned(), "pc-q35-7.2".to_owned()],
        accelerators: vec!["tcg".to_owned()],
        available_bytes: 512 << 20,
        images: BTreeMap::from([(KERNEL.to_owned(), "00AA".to_owned())]),
        vms: vec!["web".to_owned()],
        highest_term: Term(4),
        ram_blocks: Some(vec![block("pc.bios", 256 << 10), block("pc.ram", 256 << 20)]),
        delta: true,
    }
}

#[test]
fn a_host_that_fits_takes_the_machine() {
    let expected =
        Welcome { term: Term(4), host: "b".to_owned(), member: MemberId::new("b", 2), delta: true };
    assert_eq!(judge(&hello(), &facts()), Ok(expected.clone()));
    let before_qemu_runs = LocalFacts { ram_blocks: None, ..facts() };
    assert_eq!(judge(&hello(), &before_qemu_runs), Ok(expected));
    for (wants_delta, delta) in [(true, false), (false, true), (false, false)] {
        let welcome = judge(&Hello { wants_delta, ..hello() }, &LocalFacts { delta, ..facts() }).unwrap();
        assert!(!welcome.delta);
    }
}

#[test]
fn what_differs_is_said_with_both_values_and_a_hint() {
    let cases = [
        (
            Hello { host: "b".to_owned(), ..hello() },
            facts(),
            "b cannot stand by for pbx, because pbx runs on b",
        ),
        (hello(), LocalFacts { vms: vec!["pbx".to_owned()], ..facts() }, "pbx is on b already"),
        (
            hello(),
            LocalFacts { highest_term: Term(5), ..facts() },
            "b has seen term 5 of pbx, and was asked in term 4",
        ),
        (
            hello(),
            LocalFacts { qemu_version: "8.0.0".to_owned(), ..facts() },
            "QEMU is \"7.2.22 (Debian)\" on a and \"8.0.0\" on b",
        ),
        (
            Hello { machine: "pc-i440fx-9.0".to_owned(), ..hello() },
            facts(),
            "QEMU on b has no machine type \"pc-i440fx-9.0\"",
        ),
        (
            Hello { accelerator: "kvm".to_owned(), ..hello() },
            facts(),
            "pbx runs with kvm, which does not work on b",
        ),
        (
            Hello { memory_bytes: 4097, ..hello() },
            facts(),
            "pbx has 4097 bytes of memory, which is no whole number of pages",
        ),
        (
            Hello { memory_bytes: 0, ..hello() },
            facts(),
            "pbx has 0 bytes of memory, which is no whole number of pages",
        ),
        (
            hello(),
            LocalFacts { available_bytes: (512 << 20) - 1, ..facts() },
            "pbx needs 512 MiB on b, and 511 MiB are available",
        ),
        (
            hello(),
            LocalFacts { images: BTreeMap::new(), ..facts() },
            "b has no file /var/lib/stealtime/vmlinuz",
        ),
        (
            hello(),
            LocalFacts { images: BTreeMap::from([(KERNEL.to_owned(), "00ab".to_owned())]), ..facts() },
            "/var/lib/stealtime/vmlinuz has the SHA-256 00aa on a and 00ab on b",
        ),
        (
            hello(),
            LocalFacts { ram_blocks: Some(vec![block("pc.ram", 256 << 20)]), ..facts() },
            "the memory block pc.bios has 262144 bytes on a and no byte on b",
        ),
        (
            Hello { ram_blocks: vec![block("pc.ram", 256 << 20)], ..hello() },
            facts(),
            "the memory block pc.bios has no byte on a and 262144 bytes on b",
        ),
    ];
    for (hello, facts, said) in cases {
        let refusal = judge(&hello, &facts).unwrap_err();
        assert_eq!(refusal.to_string(), said);
        assert!(!refusal.hint().is_empty());
        // The other host's user reads the same.
        let json = serde_json::to_string(&refusal).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&json).unwrap(), refusal);
        Message::Refuse { term: Term(4), refusal }.encode().unwrap();
    }
}
