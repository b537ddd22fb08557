//! A host and a hostile peer: it refuses by name, runs nothing and writes nothing.

use std::fs::{self, File};
use std::net::TcpListener;

use serde_json::{Value, json};
use stealtime_shipping::{Hello, Inquire, Message, Refusal};
use stealtime_succession::{FileRegister, MemberId, Record, Register, Term};

use crate::authority::Authority;
use crate::host_daemon::{Daemon, hello, send, write_program};

/// Give the answers to hellos of which each differs from a good one in one place, and see that nothing else
/// happened.
fn refusals(daemon: &Daemon, hellos: Vec<Hello>) -> Vec<Refusal> {
    let before = daemon.files();
    let refusals = hellos.into_iter().map(|hello| daemon.ask(hello, None)).collect();
    assert_eq!(daemon.files(), before, "{}", daemon.log());
    refusals
}

fn changed(daemon: &Daemon, pointer: &str, value: Value) -> Hello {
    let mut assignment = daemon.assignment();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    assignment.pointer_mut(parent).unwrap()[key] = value;
    hello(assignment)
}

#[test]
fn a_machine_that_is_as_it_should_be_is_started() {
    // Without this the tests below could not fail: what they refuse would have come this far.
    let mut daemon = Daemon::start(None);
    let refusal = daemon.ask(hello(daemon.assignment()), None);
    assert!(refusal.to_string().contains("b cannot stand by"), "{refusal}");
    daemon.await_that("QEMU was started", |daemon| daemon.path("started").exists());
    assert!(daemon.member().join("lock").exists());
}

#[test]
fn a_peer_has_no_word_in_what_is_the_hosts_own() {
    let daemon = Daemon::start(None);
    let evil = daemon.path("evil");
    write_program(&evil, &format!("#!/bin/sh\ntouch {}\n", daemon.path("executed").display()));
    let elsewhere = json!(daemon.path("elsewhere"));
    let own = [
        ("/machine/program", json!(evil)),
        ("/qemu", json!(evil)),
        ("/program", json!(evil)),
        ("/folder", elsewhere.clone()),
        ("/host", json!("a")),
        ("/network", json!({"tap": "tap0", "bridge": "br0"})),
        ("/register", json!({"file": elsewhere})),
        ("/identity", Value::Null),
        ("/images", json!(["/"])),
        ("/metrics", json!("0.0.0.0:9464")),
        ("/allow_faults", json!(true)),
    ];
    let names = own.clone().map(|(pointer, _)| pointer.rsplit_once('/').unwrap().1);
    let hellos = own.into_iter().map(|(pointer, value)| changed(&daemon, pointer, value)).collect();
    for (name, refusal) in names.into_iter().zip(refusals(&daemon, hellos)) {
        assert!(refusal.to_string().contains(&format!("unknown field `{name}`")), "{name}: {refusal}");
    }
}

#[test]
fn values_that_would_be_options_paths_or_all_memory_are_refused_by_name() {
    let daemon = Daemon::start(None);
    let cases = [
        ("/machine/name", json!("../../elsewhere"), "\"../../elsewhere\" is no name of a virtual machine"),
        ("/machine/name", json!("/tmp/elsewhere"), "\"/tmp/elsewhere\" is no name of a virtual machine"),
        ("/machine/name", json!(""), "\"\" is no name of a virtual machine"),
        ("/machine/machine", json!("pc-i440fx-7.2,dumpdtb=/x"), "\"pc-i440fx-7.2,dumpdtb=/x\""),
        ("/machine/machine", json!("pc-i440fx-9.9"), "no machine type \"pc-i440fx-9.9\""),
        ("/machine/cpu", json!("max,x=y"), "the machine's cpu is \"max,x=y\""),
        ("/machine/mac", json!("52:54:00:00:00:01,romfile=/x"), "the machine's mac is"),
        ("/machine/devices", json!(["virtio-rng-pci,romfile=/etc/shadow"]), "romfile"),
        ("/machine/devices", json!(["vfio-pci,host=01:00.0"]), "`vfio-pci`"),
        ("/machine/kernel_arguments", json!("quiet\n"), "the machine's kernel_arguments"),
        ("/machine/memory_bytes", json!(u64::MAX - 4095), "bytes of memory"),
        ("/machine/memory_bytes", json!(1_u64 << 40), "MiB are available"),
        ("/machine/memory_bytes", json!(0), "0 bytes of memory"),
        ("/machine/vcpus", json!(u32::MAX), "4294967295 vCPUs"),
        ("/machine/accelerator", json!("xen"), "xen"),
        ("/epochs_in_flight", json!(u64::MAX), "18446744073709551615 epochs_in_flight"),
        ("/hold_bytes", json!(u64::MAX), "18446744073709551615 hold_bytes"),
        ("/log_bytes", json!(u64::MAX), "18446744073709551615 log_bytes"),
        ("/qemu_deadline_ns", json!(0), "0 ms of qemu_deadline"),
        ("/interval", json!({"fixed_ns": 0}), "0 ms of the interval"),
        ("/interval", json!({"fixed_ns": u64::MAX}), "18446744073709 ms of the interval"),
        ("/timing/register_deadline_ns", json!(u64::MAX), "ms of register_deadline"),
        ("/standby_hosts/0/endpoint", json!("unix:relative"), "\"unix:relative\" is no endpoint"),
        ("/standby_hosts/0/name", json!("../a"), "\"../a\" is no name of a host"),
        ("/version", json!(1), "version 1"),
    ];
    let hellos = cases.iter().map(|(pointer, value, _)| changed(&daemon, pointer, value.clone())).collect();
    for ((pointer, _, said), refusal) in cases.iter().zip(refusals(&daemon, hellos)) {
        assert!(refusal.to_string().contains(said), "{pointer}: {refusal}");
    }
}

#[test]
fn a_guest_is_not_booted_from_what_it_should_not_read() {
    let daemon = Daemon::start(None);
    // Whoever opens it waits for ever.
    let pipe = daemon.path("images/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink(daemon.path("secret"), daemon.path("images/link")).unwrap();
    let hellos = ["secret", "images/../secret", "images/link", "images/pipe", "nothing"]
        .map(|name| changed(&daemon, "/machine/initramfs/path", json!(daemon.path(name))));
    for refusal in refusals(&daemon, hellos.into()) {
        // The same words whatever is there, and whatever it holds.
        assert!(matches!(&refusal, Refusal::ImageMissing { host, .. } if host == "b"), "{refusal}");
    }
    let guess = changed(&daemon, "/machine/initramfs/sha256", json!("00"));
    for refusal in refusals(&daemon, vec![guess]) {
        assert!(matches!(&refusal, Refusal::ImageDiffers { .. }), "{refusal}");
        assert!(!refusal.to_string().contains("e3b0c442"), "{refusal}");
    }
}

#[test]
fn a_member_of_another_host_or_of_an_earlier_term_is_refused() {
    let daemon = Daemon::start(None);
    let mut register = FileRegister::open(&daemon.path("register")).unwrap();
    let held = register.read(&daemon.vm).unwrap().map(|held| held.version);
    register.swap(&daemon.vm, held, &Record::alone(Term(5), MemberId::new("a", 9))).unwrap();
    let good = || hello(daemon.assignment());
    let hellos = vec![good(), Hello { member: MemberId::new("c", 1), ..good() }];
    let earlier = format!("b has seen term 5 of {}, and was asked in term 4", daemon.vm);
    for (refusal, said) in refusals(&daemon, hellos).into_iter().zip([&*earlier, "is no member of a"]) {
        assert!(refusal.to_string().contains(said), "{refusal}");
    }
}

#[test]
fn who_speaks_for_a_host_shows_its_certificate() {
    let authority = Authority::new("stealtime");
    let (ours, theirs) = (authority.host(&["b", "127.0.0.1"]), authority.host(&["a"]));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let daemon = Daemon::start(Some((&format!("tcp:127.0.0.1:{port}"), &ours)));
    let before = daemon.files();
    let good = hello(daemon.assignment());
    let other = Hello { host: "c".to_owned(), member: MemberId::new("c", 1), ..good.clone() };
    let refusal = daemon.ask(other, Some(&theirs)).to_string();
    assert!(refusal.contains("the certificate that c shows is not for c"), "{refusal}");
    let (host, member) = ("c".to_owned(), MemberId::new("b", 7));
    let question = Inquire { term: Term(4), host, vm: daemon.vm.clone(), member, wants_living: true, offer: None };
    match send(&daemon.endpoint, &Message::Inquire(question), Some(&theirs)) {
        Ok(Message::Refuse { refusal, .. }) => {
            assert!(refusal.to_string().contains("the certificate that c shows is not for c"), "{refusal}");
        }
        other => panic!("no refusal: {other:?}"),
    }
    let half = Hello { member: MemberId::new("c", 1), ..good };
    let refusal = daemon.ask(half, Some(&theirs)).to_string();
    assert!(refusal.contains("is no member of a"), "{refusal}");
    assert_eq!(daemon.files(), before);
}

#[test]
fn who_comes_over_tcp_sends_nobody_to_a_socket_file_of_this_host() {
    let authority = Authority::new("stealtime");
    let (ours, theirs) = (authority.host(&["b", "127.0.0.1"]), authority.host(&["a"]));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let tcp = Daemon::start(Some((&format!("tcp:127.0.0.1:{port}"), &ours)));
    let before = tcp.files();
    let file = |daemon: &Daemon| changed(daemon, "/standby_hosts/0/endpoint", json!("unix:/run/docker.sock"));
    let refusal = tcp.ask(file(&tcp), Some(&theirs)).to_string();
    let said = "the standby host a is at unix:/run/docker.sock, and socket files of b are not for other machines";
    assert!(refusal.contains(said), "{refusal}");
    assert_eq!(tcp.files(), before);
    // Who may open the socket file of a host may open others.
    let local = Daemon::start(None);
    let refusal = local.ask(file(&local), None).to_string();
    assert!(refusal.contains("b cannot stand by"), "{refusal}");
}

#[test]
fn a_host_says_whether_a_member_of_its_own_has_ended() {
    let daemon = Daemon::start(None);
    let is_over = |vm: &str, member: MemberId| {
        let (host, vm) = ("a".to_owned(), vm.to_owned());
        let question = Inquire { term: Term(4), host, vm, member, wants_living: false, offer: None };
        match send(&daemon.endpoint, &Message::Inquire(question), None) {
            Ok(Message::Told(told)) => told.is_over,
            other => panic!("no answer: {other:?}\n{}", daemon.log()),
        }
    };
    let ours = || MemberId::new("b", 7);
    assert!(is_over(&daemon.vm, ours()), "nobody lives there");
    assert!(!is_over(&daemon.vm, MemberId::new("c", 7)), "that is not for this host to say");
    assert!(!is_over("../phone", ours()) && !is_over("", ours()));
    let folder = daemon.member();
    fs::create_dir(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    assert!(is_over(&daemon.vm, ours()), "the lock is nobody's");
    lock.lock().unwrap();
    assert!(!is_over(&daemon.vm, ours()));
}
