//! What is told of a machine after its register was emptied, with a real daemon on the other host.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::host_daemon::{Daemon, PATIENCE};

/// What `stealtime-replicator recover` tells on the host `a`, whose register is empty.
fn recover(daemon: &Daemon) -> Value {
    let mut spec = daemon.assignment();
    let own = json!({
        "qemu": "/no/qemu",
        "host": "a",
        "standby_hosts": [{"name": "b", "endpoint": daemon.endpoint.to_string()}],
        "network": {"tap": daemon.tap(), "bridge": null},
        "register": {"file": daemon.path("empty")},
        "identity": null,
        "folder": daemon.path("of-a").join(&daemon.vm),
        "metrics": null,
    });
    spec.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
    spec.as_object_mut().unwrap().remove("metrics_port");
    let file = daemon.path("spec.json");
    fs::write(&file, spec.to_string()).unwrap();
    fs::create_dir_all(daemon.path("empty")).unwrap();
    let program = env!("CARGO_BIN_EXE_stealtime-replicator");
    let done = Command::new(program).args(["recover", "--spec"]).arg(file).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

fn verdict(told: &Value) -> &str {
    assert_eq!((&told["term"], &told["members"]), (&json!(null), &json!([])), "the register has nothing: {told}");
    told["verdict"].as_str().unwrap()
}

#[test]
fn a_standby_that_an_emptied_register_does_not_name_is_found_and_a_host_that_is_silent_proves_nothing() {
    let mut daemon = Daemon::start(None);
    let told = recover(&daemon);
    assert_eq!(verdict(&told), "vacant");
    let hosts: Vec<_> = told["hosts"].as_array().unwrap().iter().map(|one| (&one["host"], &one["state"])).collect();
    assert_eq!(json!(hosts), json!([["a", "over"], ["b", "over"]]));

    let folder = daemon.member();
    fs::create_dir(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let told = recover(&daemon);
    assert_eq!((verdict(&told), &told["hosts"][1]["member"]), ("lives", &json!(null)), "it does not say who it is");

    let listener = UnixListener::bind(folder.join("control.sock")).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut asking, _) = listener.accept().unwrap();
        let mut line = [0; 64];
        let read = asking.read(&mut line).unwrap();
        assert!(String::from_utf8_lossy(&line[..read]).contains("status"));
        let status = json!({"member": "b@0000000000000007", "term": 9, "role": "standby"});
        asking.write_all(format!("{status}\n").as_bytes()).unwrap();
    });
    let told = recover(&daemon);
    answering.join().unwrap();
    let lives = json!({
        "host": "b", "state": "lives", "member": "b@0000000000000007", "term": 9, "role": "standby", "reason": null,
    });
    assert_eq!((verdict(&told), &told["hosts"][1]), ("lives", &lives));

    daemon.end();
    // The process that received for it ends by itself.
    let began = Instant::now();
    while UnixStream::connect(daemon.path("host.sock")).is_ok() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    let told = recover(&daemon);
    assert_eq!((verdict(&told), &told["hosts"][1]["state"]), ("unknown", &json!("unknown")));
    assert!(told["hosts"][1]["reason"].as_str().unwrap().contains("cannot connect to"), "{told}");
}
