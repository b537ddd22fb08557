//! A real daemon of a host, with a QEMU that only notes how it was called, and a peer that says hello to it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stealtime_shipping::{Endpoint, Hello, Identity, LinkError, Message, Refusal, connect};
use stealtime_succession::{FileRegister, MemberId, Record, Register, Term};
use tempfile::TempDir;

/// Long, as other tests may keep the processors busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The host that the daemon is.
pub const HOST: &str = "b";

/// Says what a QEMU says that is asked; started with a machine, it leaves a file and ends.
const QEMU: &str = r#"#!/bin/sh
case "$1" in
    -machine) echo "Supported machines are:"; echo "pc-i440fx-7.2 a machine";;
    -L) echo "FOLDER/firmware";;
    --version) echo "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"; echo "Copyright";;
    *) echo "$@" >>FOLDER/started;;
esac
"#;

/// Stands by like a QEMU of release 7.2.
const ANSWERING_QEMU: &str = r#"#!/usr/bin/python3
import json, re, socket, sys

if sys.argv[1] in ("-machine", "-L"):
    sys.exit(print({"-machine": "Supported machines are:\npc-i440fx-7.2 a machine", "-L": "FOLDER/firmware"}[sys.argv[1]]))
words = " ".join(sys.argv)
monitor = socket.socket(fileno=int(re.search(r"id=qmp,fd=(\d+)", words)[1]))
size = int(re.search(r"-m size=(\d+)B", words)[1])

def say(**thing):
    monitor.sendall(json.dumps(thing).encode() + b"\n")

say(QMP={"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": []})
for line in monitor.makefile():
    command = json.loads(line)
    answers = {
        "human-monitor-command": f"pc.ram 4 KiB 0x0 0x{size:x} 0x{size:x}\n",
        "qom-list": [],
        "query-block": [],
        "query-status": {"status": "running", "running": True},
    }
    say(**{"return": answers.get(command["execute"], {}), "id": command["id"]})
"#;

pub struct Daemon {
    child: Child,
    pub folder: TempDir,
    pub endpoint: Endpoint,
    /// The machine that [`Daemon::assignment`] describes. Each has its own name, as the TAP that is called after it can
    /// be there only once.
    pub vm: String,
}

impl Daemon {
    /// Start one that listens on a socket file, or over TCP with an identity.
    pub fn start(tcp: Option<(&str, &Identity)>) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let vm = format!("phone{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().unwrap();
        // A QEMU has a user of its own, and this one leaves a file.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["members", "images", "firmware", "register"] {
            fs::create_dir(path(name)).unwrap();
        }
        for name in ["images/kernel", "images/initramfs", "firmware/bios-256k.bin", "secret"] {
            fs::write(path(name), "").unwrap();
        }
        // What the member that says hello has written there.
        let mut register = FileRegister::open(&path("register")).unwrap();
        register.swap(&vm, None, &Record::alone(Term(4), MemberId::new("a", 1))).unwrap();
        write_program(&path("qemu"), &QEMU.replace("FOLDER", &folder.path().display().to_string()));
        let listen =
            tcp.map_or_else(|| format!("unix:{}", path("host.sock").display()), |(listen, _)| listen.to_owned());
        let config = json!({
            "name": HOST,
            "listen": listen,
            "bridge": null,
            "register": {"file": path("register")},
            "identity": tcp.map(|(_, identity)| identity),
            "folder": path("members"),
            "qemu": path("qemu"),
            "images": [path("images")],
            "allow_faults": false,
        });
        fs::write(path("host.json"), config.to_string()).unwrap();
        let child = start(folder.path());
        let mut daemon = Self { child, folder, endpoint: listen.parse().unwrap(), vm };
        daemon.await_that("it listens", |daemon| daemon.log().contains("standby for others"));
        daemon
    }

    /// End it, and start it once more.
    pub fn start_anew(&mut self) {
        self.end();
        self.child = start(self.folder.path());
        self.await_that("it listens", |daemon| daemon.log().contains("standby for others"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The TAP of its machine.
    pub fn tap(&self) -> String {
        format!("tap-{}", self.vm)
    }

    /// What its host keeps of its machine.
    pub fn member(&self) -> PathBuf {
        self.path("members").join(&self.vm)
    }

    /// From now on its QEMU answers, so that it stands by.
    pub fn have_qemu_answer(&self) {
        write_program(&self.path("qemu"), &ANSWERING_QEMU.replace("FOLDER", &self.folder.path().display().to_string()));
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("host.log")).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn await_that(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < PATIENCE, "not so: {what}; {ended:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// All files, with what the QEMU was started with.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    folders.push(path.clone());
                }
                found.insert(path);
            }
        }
        found
    }

    /// A machine that this host would take.
    pub fn assignment(&self) -> Value {
        // Of no content.
        let sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let image = |name: &str| json!({"path": self.path("images").join(name), "sha256": sha256});
        json!({
            "version": 2,
            "machine": {
                "name": self.vm,
                "accelerator": "tcg",
                "machine": "pc-i440fx-7.2",
                "cpu": "max",
                "vcpus": 1,
                "memory_bytes": 1 << 20,
                "kernel": image("kernel"),
                "initramfs": image("initramfs"),
                "kernel_arguments": "quiet",
                "mac": "52:54:00:00:00:01",
                "virtio": "legacy",
                "devices": ["virtio-rng-pci"],
            },
            "standby_hosts": [{"name": "a", "endpoint": "tcp:127.0.0.1:7460"}],
            "mode": "net",
            "interval": {"fixed_ns": 100_000_000},
            "bypass": [],
            "tracker": null,
            "device_state": "xen-save",
            "timing": {
                "heartbeat_interval_ns": 25_000_000,
                "active_deadline_ns": 120_000_000,
                "standby_timeout_ns": 200_000_000,
                "register_deadline_ns": 2_000_000_000_u64,
            },
            "epochs_in_flight": 4,
            "longest_first_pause_ns": 1_000_000_000,
            "qemu_deadline_ns": 5_000_000_000_u64,
            "log_bytes": 16 << 20,
            "metrics_port": null,
            "hold_bytes": 64 << 20,
        })
    }

    /// Say hello as `identity` and give the answer.
    pub fn ask(&self, hello: Hello, identity: Option<&Identity>) -> Refusal {
        match ask(&self.endpoint, hello, identity) {
            Ok(Message::Refuse { refusal, .. }) => refusal,
            other => panic!("no refusal: {other:?}\n{}", self.log()),
        }
    }

    /// Ask it to end, as Ctrl-C (`INT`) and systemd (`TERM`) do; give its exit code.
    pub fn ask_to_end(&mut self, signal: &str) -> Option<i32> {
        let told = Command::new("kill").args(["-s", signal, &self.pid().to_string()]).status().unwrap();
        assert!(told.success());
        self.child.wait().unwrap().code()
    }

    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(folder: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_stealtime-replicator"))
        .args(["host", "--config"])
        .arg(folder.join("host.json"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("host.log")).unwrap())
        .spawn()
        .unwrap()
}

/// Say hello and give what comes.
pub fn ask(endpoint: &Endpoint, hello: Hello, identity: Option<&Identity>) -> Result<Message, LinkError> {
    send(endpoint, &Message::Hello(Box::new(hello)), identity)
}

/// Say this first and give what comes.
pub fn send(endpoint: &Endpoint, message: &Message, identity: Option<&Identity>) -> Result<Message, LinkError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, mut receiver) = connect(endpoint, identity).await?.split();
        sender.send(message).await?;
        tokio::time::timeout(PATIENCE, receiver.receive()).await.expect("an answer")
    })
}

pub fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success());
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// The hello of a member on the host `a`.
pub fn hello(specification: Value) -> Hello {
    Hello {
        term: Term(4),
        host: "a".to_owned(),
        member: MemberId::new("a", 1),
        renewals: 0,
        qemu_version: "7.2.22".to_owned(),
        firmware: None,
        ram_blocks: Vec::new(),
        wants_delta: true,
        specification,
    }
}

pub fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
