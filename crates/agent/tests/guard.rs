//! `guard`: its command must not outlive the parent of `guard`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_stealtime-agent");

/// A process whose only argument of that kind is this number of seconds, unique to a test.
fn sleeper_is_alive(seconds: &str) -> bool {
    fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command == format!("sleep\0{seconds}\0").into_bytes()
    })
}

fn wait_until(condition: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

fn dies_with_its_grandparent(options: &str, seconds: &str) {
    let script = format!("{AGENT} guard {options} -- sh -c 'sleep {seconds} & wait' & wait");
    let mut control = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
    assert!(wait_until(|| sleeper_is_alive(seconds)), "the guarded command did not start");
    control.kill().unwrap();
    control.wait().unwrap();
    assert!(wait_until(|| !sleeper_is_alive(seconds)), "sleep {seconds} outlived its control plane");
}

#[test]
fn a_guarded_family_dies_with_its_control_plane() {
    if !namespaces_are_possible() {
        eprintln!("skipped: neither root nor user namespaces here");
        return;
    }
    dies_with_its_grandparent("--pid-namespace", "98731.5");
}

fn namespaces_are_possible() -> bool {
    Command::new(AGENT).args(["guard", "--pid-namespace", "--", "true"]).status().is_ok_and(|status| status.success())
}

#[test]
fn a_guarded_process_dies_with_its_control_plane() {
    let script = format!("{AGENT} guard -- sleep 98732.5 & wait");
    let mut control = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
    assert!(wait_until(|| sleeper_is_alive("98732.5")), "the guarded command did not start");
    control.kill().unwrap();
    control.wait().unwrap();
    assert!(wait_until(|| !sleeper_is_alive("98732.5")), "sleep outlived its control plane");
}

#[test]
fn the_exit_code_is_the_commands() {
    let code = |options: &[&str], script: &str| {
        let status = Command::new(AGENT).arg("guard").args(options).args(["--", "sh", "-c", script]).status();
        status.unwrap().code()
    };
    assert_eq!(code(&[], "exit 7"), Some(7));
    if namespaces_are_possible() {
        assert_eq!(code(&["--pid-namespace"], "exit 7"), Some(7));
        assert_eq!(code(&["--pid-namespace"], "kill -KILL $$"), Some(128 + 9));
    }
}

#[test]
fn a_missing_command_is_named() {
    let output = Command::new(AGENT).args(["guard", "--", "/no/such/command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/command"));
}

/// A cgroup of our own, in a hierarchy of either version that this user may change; removed at the end.
struct OwnCgroup(PathBuf);

impl OwnCgroup {
    fn new() -> Option<Self> {
        let name = format!("stealtime-test-{}", std::process::id());
        let hierarchies = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu"];
        let is_one = |folder: &&str| Path::new(folder).join("cgroup.procs").exists();
        let folder = hierarchies.into_iter().find(is_one)?;
        let path = Path::new(folder).join(name);
        fs::create_dir(&path).ok().map(|()| Self(path))
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        assert!(wait_until(|| fs::remove_dir(&self.0).is_ok()), "{} stays", self.0.display());
    }
}

#[test]
fn a_guarded_command_and_its_children_are_born_in_their_cgroup() {
    let Some(group) = OwnCgroup::new() else {
        eprintln!("skipped: no cgroup can be made here");
        return;
    };
    let name = group.0.file_name().unwrap().to_str().unwrap();
    let mut options = vec![vec![]];
    if namespaces_are_possible() {
        options.push(vec!["--pid-namespace"]);
    }
    for options in options {
        let output = Command::new(AGENT)
            .arg("guard")
            .arg("--cgroup")
            .arg(&group.0)
            .args(&options)
            .args(["--", "sh", "-c", "cat /proc/self/cgroup; true"])
            .output()
            .unwrap();
        let groups = String::from_utf8_lossy(&output.stdout);
        assert!(groups.lines().any(|line| line.ends_with(&format!("/{name}"))), "{options:?}: {groups}");
    }
}

#[test]
fn a_folder_that_is_no_cgroup_is_refused_and_left_as_it_is() {
    let folder = std::env::temp_dir().join(format!("stealtime-no-cgroup-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let output = Command::new(AGENT).arg("guard").arg("--cgroup").arg(&folder).args(["--", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let left = fs::read_dir(&folder).unwrap().count();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains(folder.to_str().unwrap()) && said.contains("hint: make the group first"), "{said}");
    assert_eq!(left, 0);
}
