//! On fabricated `/proc` trees, since other namespaces need root; the real ones are looked into by
//! `tests/guest`.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

/// Ids end at 2^22 (`PID_MAX_LIMIT`), so that none of these lives.
const NOBODY: u32 = 4_194_305;
const INNER: u64 = 4_026_532_999;

struct Fabricated {
    folder: tempfile::TempDir,
}

impl Fabricated {
    /// The `/proc` of a namespace, and in which one this process is.
    fn new(shown: u64, this: u64, this_ids: &str) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap() };
        made.add("2", shown, "2", 5, 'S');
        if shown == INITIAL_PID_NAMESPACE {
            let kernel_thread = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0";
            fs::write(made.folder.path().join("2/stat"), kernel_thread).unwrap();
        }
        made.add("self", this, this_ids, 700, 'R');
        made
    }

    fn add(&self, entry: &str, namespace: u64, ids: &str, start_ticks: u64, state: char) {
        let folder = self.folder.path().join(entry);
        fs::create_dir_all(folder.join("ns")).unwrap();
        let zeros = "0 ".repeat(18);
        fs::write(folder.join("stat"), format!("7 (a) b) {state} {zeros}{start_ticks} 0 0\n")).unwrap();
        fs::write(folder.join("status"), format!("Name:\ta\nNSpid:\t{ids}\nThreads:\t1\n")).unwrap();
        symlink(format!("pid:[{namespace}]"), folder.join("ns/pid")).unwrap();
    }

    fn fate(&self, pid_namespace: u64, process: u32, start_ticks: u64) -> Fate {
        Processes::below(self.folder.path()).fate(&Owner { pid_namespace, process, start_ticks })
    }
}

#[test]
fn a_mark_is_read_as_it_was_written_and_nothing_else_is_one() {
    let owner = Owner { pid_namespace: INNER, process: 71, start_ticks: 4242 };
    assert_eq!(owner.to_string(), "4026532999:71:4242");
    assert_eq!(owner.to_string().parse(), Ok(owner));
    for text in ["", "71:4242", "1:2:3:4", "1:2:3.5", "01:2:3", "a:2:3", "1:4294967296:3", "71:1795371234.12"] {
        assert_eq!(text.parse::<Owner>(), Err(NoMark), "{text}");
    }
}

#[test]
fn this_process_is_alive_and_an_earlier_one_with_its_id_is_gone() {
    let this = Owner::this_process().unwrap();
    assert_eq!(this.process, std::process::id());
    assert_eq!(Processes::default().fate(&this), Fate::Alive);
    let earlier = Owner { start_ticks: this.start_ticks - 2, ..this };
    assert_eq!(Processes::default().fate(&earlier), Fate::Gone);
    assert_eq!(Processes::default().fate(&Owner { process: NOBODY, ..this }), Fate::Gone);
}

#[test]
fn a_process_that_has_ended_and_was_not_waited_for_is_gone() {
    let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let processes = Processes::default();
    let owner = processes.owner_with_id(child.id()).unwrap();
    assert_eq!(processes.fate(&owner), Fate::Alive);
    drop(child.stdin.take());
    while processes.fate(&owner) == Fate::Alive {
        std::thread::yield_now();
    }
    assert_eq!(processes.fate(&owner), Fate::Gone);
    assert!(processes.owner_with_id(child.id()).is_err());
    child.wait().unwrap();
}

#[test]
fn what_a_process_of_another_namespace_made_is_left_alone_where_that_one_is_not_seen() {
    let inside = Fabricated::new(INNER, INNER, "9");
    assert_eq!(inside.fate(INITIAL_PID_NAMESPACE, NOBODY, 8), Fate::NotOursToJudge);
    assert_eq!(inside.fate(INNER + 1, NOBODY, 8), Fate::NotOursToJudge);
    assert_eq!(inside.fate(INNER, NOBODY, 8), Fate::Gone);
}

#[test]
fn who_sees_all_namespaces_knows_the_owner_by_its_id_in_its_own() {
    let outside = Fabricated::new(INITIAL_PID_NAMESPACE, INITIAL_PID_NAMESPACE, "900");
    outside.add("950", INNER, "950 12", 4242, 'S');
    outside.add("951", INNER, "951 13", 4243, 'Z');
    assert_eq!(outside.fate(INNER, 12, 4242), Fate::Alive);
    assert_eq!(outside.fate(INNER, 950, 4242), Fate::Gone, "950 is its id here, not there");
    assert_eq!(outside.fate(INNER, 12, 4240), Fate::Gone);
    assert_eq!(outside.fate(INNER, 13, 4243), Fate::Gone, "it has ended");
    assert_eq!(outside.fate(INNER + 1, 12, 4242), Fate::Gone, "that namespace has no process");
    // The namespace of others' processes is not told to everybody, their ids are.
    fs::remove_file(outside.folder.path().join("2/ns/pid")).unwrap();
    fs::create_dir(outside.folder.path().join("2/ns/pid")).unwrap();
    assert_eq!(outside.fate(INNER, 12, 4240), Fate::Gone);
    fs::remove_dir_all(outside.folder.path().join("2")).unwrap();
    assert_eq!(outside.fate(INNER, 12, 4240), Fate::NotOursToJudge, "others' processes are hidden");
}

#[test]
fn a_process_that_must_not_be_looked_at_could_be_the_owner() {
    let outside = Fabricated::new(INITIAL_PID_NAMESPACE, INITIAL_PID_NAMESPACE, "900");
    fs::create_dir(outside.folder.path().join("950")).unwrap();
    assert_eq!(outside.fate(INNER, 12, 4242), Fate::Gone, "it ended meanwhile");
    // A folder where a file should be is neither missing nor readable, to root too.
    fs::create_dir(outside.folder.path().join("950/stat")).unwrap();
    assert_eq!(outside.fate(INNER, 12, 4242), Fate::NotOursToJudge);
}

#[test]
fn in_a_namespace_without_a_proc_of_its_own_ids_are_not_taken_for_each_other() {
    // `unshare --pid --fork`: /proc is still that of the namespace around, which need not be the initial one.
    let around = Fabricated::new(INNER, INNER + 1, "900 12");
    around.add("12", INNER, "12", 4242, 'S');
    assert_eq!(around.fate(INNER + 1, 12, 4242), Fate::NotOursToJudge);
    let initial = Fabricated::new(INITIAL_PID_NAMESPACE, INNER, "900 12");
    initial.add("12", INITIAL_PID_NAMESPACE, "12", 4242, 'S');
    assert_eq!(initial.fate(INNER, 12, 4242), Fate::Gone);
    assert_eq!(initial.fate(INITIAL_PID_NAMESPACE, 12, 4242), Fate::Alive, "one outside");
    initial.add("901", INNER, "901 12", 4242, 'S');
    assert_eq!(initial.fate(INNER, 12, 4242), Fate::Alive);
}

#[test]
fn without_proc_nothing_is_judged() {
    let nowhere = Processes::below("/nowhere/at/all");
    let owner = Owner { pid_namespace: INNER, process: NOBODY, start_ticks: 1 };
    assert_eq!(nowhere.fate(&owner), Fate::NotOursToJudge);
}
