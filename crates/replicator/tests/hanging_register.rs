//! A register in a folder whose file system gives nothing back: here a version is a pipe that nobody writes to.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stealtime_shipping::Refusal;

use crate::host_daemon::{Daemon, PATIENCE, hello};

/// Whoever reads the register from now on waits for ever.
fn have_it_hang(daemon: &Daemon) {
    let newest = daemon.path("register").join(format!("{}.00000000000000000002.json", daemon.vm));
    assert!(Command::new("mkfifo").arg(newest).status().unwrap().success());
}

fn in_time(program: &mut Child) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = program.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    program.kill().unwrap();
    panic!("it did not end");
}

/// What a member of the machine is told on the host of the daemon.
fn spec(daemon: &Daemon) -> Value {
    let mut spec = daemon.assignment();
    spec.as_object_mut().unwrap().remove("metrics_port");
    for (field, value) in [
        ("qemu", json!(daemon.path("qemu"))),
        ("host", json!("b")),
        ("network", json!({"tap": daemon.tap(), "bridge": null})),
        ("register", json!({"file": daemon.path("register")})),
        ("identity", Value::Null),
        ("folder", json!(daemon.member())),
        ("longest_hold_ns", json!(1_000_000_000)),
        ("metrics", Value::Null),
    ] {
        spec[field] = value;
    }
    spec
}

#[test]
fn whoever_asks_a_register_that_hangs_is_told_so_and_where_it_is() {
    let daemon = Daemon::start(None);
    have_it_hang(&daemon);
    let folder = daemon.path("register").display().to_string();
    fs::write(daemon.path("spec.json"), spec(&daemon).to_string()).unwrap();
    for command in ["recover", "active"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_stealtime-replicator"))
            .args([command, "--spec"])
            .arg(daemon.path("spec.json"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(daemon.path("said")).unwrap())
            .spawn()
            .unwrap();
        let succeeded = in_time(&mut program);
        let said = fs::read_to_string(daemon.path("said")).unwrap();
        assert!(!succeeded && said.contains(&folder), "{command}: {said}");
        assert!(said.contains("did not answer: nothing came back") || said.contains("has not answered for"), "{said}");
    }
}

#[test]
fn a_host_whose_register_hangs_refuses_in_time_and_says_so() {
    let daemon = Daemon::start(None);
    have_it_hang(&daemon);
    let refusal = daemon.ask(hello(daemon.assignment()), None);
    let Refusal::NoRegister { host, reason } = &refusal else { panic!("{refusal:?}") };
    assert_eq!(host, "b");
    assert!(reason.contains(&daemon.path("register").display().to_string()), "{reason}");
    assert!(reason.ends_with("did not answer: nothing came back within 5 s"), "{reason}");
}
