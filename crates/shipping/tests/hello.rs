//! Which machines a host takes, and what it says of those that it does not.

use std::collections::BTreeMap;

use stealtime_shipping::{Hello, Image, LocalFacts, Message, RamBlock, Refusal, RegisterLook, Wanted, Welcome, judge};
use stealtime_succession::{MemberId, Record, Term};

const KERNEL: &str = "/var/lib/stealtime/vmlinuz";

fn block(name: &str, bytes: u64) -> RamBlock {
    RamBlock { name: name.to_owned(), bytes }
}

fn hello() -> Hello {
    Hello {
        term: Term(4),
        host: "a".to_owned(),
        member: MemberId::new("a", 1),
        renewals: 9,
        qemu_version: "7.2.22 (Debian)".to_owned(),
        firmware: None,
        ram_blocks: vec![block("pc.ram", 256 << 20), block("pc.bios", 256 << 10)],
        wants_delta: true,
        specification: serde_json::Value::Null,
    }
}

/// What the active member has written into its register.
fn held() -> Record {
    Record { renewals: 9, ..Record::alone(Term(4), MemberId::new("a", 1)) }
}

fn register(found: Result<Option<Record>, String>) -> RegisterLook {
    RegisterLook { name: "in the folder /register".to_owned(), found, is_here: false }
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
        register: register(Ok(Some(held()))),
        ram_blocks: Some(vec![block("pc.bios", 256 << 10), block("pc.ram", 256 << 20)]),
        delta: true,
    }
}

#[test]
fn a_host_that_fits_takes_the_machine() {
    let expected = Welcome {
        term: Term(4),
        host: "b".to_owned(),
        member: MemberId::new("b", 2),
        delta: true,
        qemu_version: Some("7.2.22 (Debian)".to_owned()),
    };
    assert_eq!(judge(&hello(), &wanted(), &facts()), Ok(expected.clone()));
    let before_qemu_runs = LocalFacts { ram_blocks: None, ..facts() };
    assert_eq!(judge(&hello(), &wanted(), &before_qemu_runs), Ok(expected));
    for (wants_delta, delta) in [(true, false), (false, true), (false, false)] {
        let welcome = judge(&Hello { wants_delta, ..hello() }, &wanted(), &LocalFacts { delta, ..facts() }).unwrap();
        assert!(!welcome.delta);
    }
}

#[test]
fn qemu_may_be_another_one_of_the_same_release() {
    let judged = |theirs: &str, ours: &str| {
        let hello = Hello { qemu_version: theirs.to_owned(), ..hello() };
        judge(&hello, &wanted(), &LocalFacts { qemu_version: ours.to_owned(), ..facts() }).map_err(Box::new)
    };
    for (theirs, ours) in [
        ("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", "7.2.19 (Debian 1:7.2+dfsg-7+deb12u17)"),
        ("7.2.0", "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"),
        ("9.2", "9.2.1"),
    ] {
        assert_eq!(judged(theirs, ours).unwrap().qemu_version.as_deref(), Some(ours));
        assert!(judged(ours, theirs).is_ok());
    }
    for (theirs, ours) in [("7.2.22", "7.1.22"), ("7.2.22", "8.2.22"), ("7.2", "7.20"), ("7", "8"), ("", "7.2")] {
        let refusal = judged(theirs, ours).unwrap_err();
        assert!(matches!(*refusal, Refusal::QemuVersion { .. }), "{theirs} to {ours}: {refusal}");
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
            LocalFacts { register: register(Ok(Some(Record { term: Term(5), ..held() }))), ..facts() },
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

#[test]
fn a_register_that_does_not_hold_what_was_written_last_is_another_one() {
    let record = |term: u64, host: &str, life: u64, renewals: u64| {
        Some(Record { renewals, ..Record::alone(Term(term), MemberId::new(host, life)) })
    };
    let vacant = Record { holder: None, ..held() };
    for found in [
        None,
        Some(vacant.clone()),
        // It was stopped there once, and nobody runs it.
        Some(Record { term: Term(7), ..vacant }),
        // A copy of the register, made before the last renewal.
        record(4, "a", 1, 8),
        record(4, "a", 2, 9),
        record(3, "a", 1, 9),
        // It was forgotten there: no member of it is on that host.
        record(7, "b", 3, 0),
    ] {
        let facts = LocalFacts { register: register(Ok(found.clone())), ..facts() };
        let refusal = judge(&hello(), &wanted(), &facts).unwrap_err();
        assert!(matches!(refusal, Refusal::OtherRegister { .. }), "{found:?}: {refusal}");
        assert!(refusal.to_string().contains("b looks into another register than a"), "{refusal}");
        assert!(refusal.hint().contains("[register]"), "{}", refusal.hint());
    }
    for found in [Some(held()), record(4, "a", 1, 10)] {
        let facts = LocalFacts { register: register(Ok(found)), ..facts() };
        judge(&hello(), &wanted(), &facts).unwrap();
    }
}

#[test]
fn who_runs_the_machine_in_a_later_term_is_named() {
    let later = |host: &str| Ok(Some(Record::alone(Term(7), MemberId::new(host, 3))));
    for (host, is_here) in [("c", false), ("b", true)] {
        let facts = LocalFacts { register: RegisterLook { is_here, ..register(later(host)) }, ..facts() };
        let refusal = judge(&hello(), &wanted(), &facts).unwrap_err();
        let Refusal::OldTerm { known, holder, .. } = &refusal else { panic!("{refusal}") };
        assert_eq!((*known, holder.as_str()), (Term(7), format!("{host}@0000000000000003").as_str()));
    }
}

#[test]
fn a_host_whose_register_gives_no_answer_could_take_nothing_over() {
    let facts = LocalFacts { register: register(Err("it did not answer".to_owned())), ..facts() };
    let refusal = judge(&hello(), &wanted(), &facts).unwrap_err();
    assert_eq!(refusal.to_string(), "b could take nothing over: it did not answer");
}
