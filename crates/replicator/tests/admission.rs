//! A host and a machine that it does not take: nothing of it is left there, as `stealtime protect status` would tell of
//! it for ever.

use std::fs::{self, File};

use serde_json::json;
use stealtime_shipping::{Hello, Refusal};

use crate::host_daemon::{Daemon, hello};

/// A member that lives on the host, as long as this is there, and is copied.
fn copied(daemon: &Daemon, vm: &str, promised_bytes: u64) -> File {
    let folder = daemon.path("members").join(vm);
    fs::create_dir_all(&folder).unwrap();
    let promise = json!({"bytes": promised_bytes, "copies": true});
    fs::write(folder.join("promise.json"), promise.to_string()).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

#[test]
fn a_machine_that_is_sent_away_leaves_nothing_but_its_place() {
    let daemon = Daemon::start(None);
    let _one = copied(&daemon, "one", 1);
    let two = copied(&daemon, "two", 1);
    let refusal = daemon.ask(hello(daemon.assignment()), None);
    assert!(matches!(refusal, Refusal::Busy { .. }), "{refusal}");
    assert!(daemon.path("members/.waiting").join(format!("{}.json", daemon.vm)).exists());
    assert!(!daemon.member().exists());
    drop(two);
    let _three = copied(&daemon, "three", 1 << 50);
    let refusal = daemon.ask(hello(daemon.assignment()), None);
    assert!(matches!(refusal, Refusal::Memory { available_bytes: 0, .. }), "{refusal}");
    assert!(!daemon.member().exists());
    assert!(!daemon.path("started").exists(), "a QEMU was started");
}

#[test]
fn a_machine_that_is_refused_only_when_its_qemu_answers_leaves_nothing_either() {
    let daemon = Daemon::start(None);
    daemon.have_qemu_answer();
    let of_other_release = || Hello { qemu_version: "8.2.0".to_owned(), ..hello(daemon.assignment()) };
    let refusal = daemon.ask(of_other_release(), None);
    assert!(matches!(refusal, Refusal::QemuVersion { .. }), "{refusal}");
    let left: Vec<_> = fs::read_dir(daemon.path("members")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".admission.lock"]);
    // What an earlier life has left there is not its own to take away.
    let log = daemon.member().join("events.jsonl");
    fs::create_dir(log.parent().unwrap()).unwrap();
    fs::write(&log, "").unwrap();
    daemon.ask(of_other_release(), None);
    assert!(log.exists());
}

#[test]
fn a_host_that_is_to_go_down_takes_no_machine_until_it_is_back() {
    let mut daemon = Daemon::start(None);
    let mark = daemon.path("members/.leaving");
    fs::write(&mark, fs::read("/proc/sys/kernel/random/boot_id").unwrap()).unwrap();
    let refusal = daemon.ask(hello(daemon.assignment()), None);
    assert_eq!(refusal, Refusal::Leaving { host: "b".to_owned() });
    assert!(!daemon.member().exists());
    assert!(!daemon.path("started").exists(), "a QEMU was started");
    // A daemon that is started anew has not come back, unless its host was booted meanwhile.
    daemon.start_anew();
    assert_eq!(daemon.ask(hello(daemon.assignment()), None), Refusal::Leaving { host: "b".to_owned() });
    fs::write(&mark, "the boot before").unwrap();
    daemon.start_anew();
    daemon.await_that("the mark is gone", |_| !mark.exists());
    // It would be let in but for others: with a TAP of the same name as in other tests.
    let _copied = [copied(&daemon, "one", 1), copied(&daemon, "two", 1)];
    let refusal = daemon.ask(hello(daemon.assignment()), None);
    assert!(matches!(refusal, Refusal::Busy { .. }), "{refusal}");
}
