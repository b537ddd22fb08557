//! RT throttling on made-up files of the kernel.

use std::{process, thread};

use super::left::left_lifted_in;
use super::*;

const NO_NOTES: &str = "skipped: the kernel keeps no notes for this user";

struct Fabricated(Files);

impl Fabricated {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("stealtime-throttling-{}-{name}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = Files {
            runtime: folder.join("runtime"),
            period: folder.join("period"),
            marks: folder.join("marks"),
            notes: Notes::of_kind(&format!("stealtime-test-{}-{name}:", process::id())),
            processes: Processes::default(),
        };
        fs::write(&files.runtime, "950000\n").unwrap();
        fs::write(&files.period, "1000000\n").unwrap();
        Self(files)
    }

    fn runtime(&self) -> i64 {
        read_number(&self.0.runtime).unwrap()
    }
}

impl Drop for Fabricated {
    fn drop(&mut self) {
        fs::remove_dir_all(self.0.runtime.parent().unwrap()).unwrap();
    }
}

#[test]
fn the_limit_is_read_with_its_stall() {
    let machine = Fabricated::new("read");
    let limit = Limit::read_from(&machine.0).unwrap();
    assert_eq!(limit.stall_us(), Some(50_000));
    fs::write(&machine.0.runtime, "-1\n").unwrap();
    assert_eq!(Limit::read_from(&machine.0).unwrap().stall_us(), None);
}

#[test]
fn lifting_is_undone_at_the_end_of_the_scope() {
    let machine = Fabricated::new("scope");
    let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
    assert_eq!(machine.runtime(), NO_LIMIT);
    drop(lifted);
    assert_eq!(machine.runtime(), 950_000);
    assert!(marks(&machine.0).unwrap().is_empty());
}

/// Lifts on another thread, as another holder would.
fn lift_elsewhere(machine: &Fabricated) -> Lifted {
    thread::scope(|scope| scope.spawn(|| Lifted::lift_in(machine.0.clone())).join().unwrap()).unwrap()
}

#[test]
fn the_last_of_two_holders_puts_back_the_first_value() {
    let machine = Fabricated::new("two");
    let first = Lifted::lift_in(machine.0.clone()).unwrap();
    let second = lift_elsewhere(&machine);
    drop(first);
    assert_eq!(machine.runtime(), NO_LIMIT);
    drop(second);
    assert_eq!(machine.runtime(), 950_000);
}

#[test]
fn holders_that_come_and_go_at_the_same_time_lose_no_value() {
    let machine = Fabricated::new("race");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
                    assert_eq!(machine.runtime(), NO_LIMIT, "it is lifted while one holds it");
                    drop(lifted);
                }
            });
        }
    });
    assert_eq!(machine.runtime(), 950_000);
    assert!(marks(&machine.0).unwrap().is_empty());
}

#[test]
fn what_somebody_else_has_lifted_is_left_to_them() {
    let machine = Fabricated::new("theirs");
    fs::write(&machine.0.runtime, "-1\n").unwrap();
    let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
    // Such as another run with a /run of its own, in a container: it puts back what it knows.
    fs::write(&machine.0.runtime, "950000\n").unwrap();
    drop(lifted);
    assert_eq!(machine.runtime(), 950_000);
}

#[test]
fn what_somebody_else_has_set_meanwhile_is_left_as_it_is() {
    let machine = Fabricated::new("meanwhile");
    let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
    fs::write(&machine.0.runtime, "980000\n").unwrap();
    let later = lift_elsewhere(&machine);
    drop(lifted);
    assert_eq!(machine.runtime(), NO_LIMIT);
    drop(later);
    assert_eq!(machine.runtime(), 980_000);
}

fn leave_mark(machine: &Fabricated, name: &str, original: &str) {
    fs::create_dir_all(&machine.0.marks).unwrap();
    fs::write(&machine.0.runtime, "-1").unwrap();
    fs::write(machine.0.marks.join(name), original).unwrap();
}

#[test]
fn what_a_killed_process_left_is_put_back_at_the_next_start() {
    let machine = Fabricated::new("killed");
    let own = Owner::this_process().unwrap();
    // Process ids end at 2^22 (PID_MAX_LIMIT), so this one never lives.
    leave_mark(&machine, &format!("{}-1", Owner { process: 4_194_305, ..own }), "900000");
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), Some(900_000));
    assert_eq!(machine.runtime(), 900_000);
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None);
}

#[test]
fn a_killed_process_whose_id_came_again_does_not_hold_it() {
    let machine = Fabricated::new("again");
    let own = Owner::this_process().unwrap();
    leave_mark(&machine, &format!("{}-1", Owner { start_ticks: own.start_ticks - 2, ..own }), "900000");
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), Some(900_000));
}

#[test]
fn who_lifts_after_a_killed_process_puts_back_what_that_one_found() {
    let machine = Fabricated::new("after");
    let own = Owner::this_process().unwrap();
    leave_mark(&machine, &format!("{}-1", Owner { process: 4_194_305, ..own }), "900000");
    drop(Lifted::lift_in(machine.0.clone()).unwrap());
    assert_eq!(machine.runtime(), 900_000);
    assert!(marks(&machine.0).unwrap().is_empty());
}

#[test]
fn a_mark_that_was_not_finished_is_cleared() {
    let machine = Fabricated::new("unfinished");
    leave_mark(&machine, ".half", "9");
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None);
    assert!(paths(&machine.0).unwrap().is_empty());
}

/// Or the whole rest is left out: the kernel keeps no notes for this user.
fn forget_files(machine: &Fabricated) -> bool {
    fs::remove_dir_all(&machine.0.marks).unwrap();
    let is_noted = !machine.0.notes.list().is_empty();
    if !is_noted {
        eprintln!("{NO_NOTES}");
    }
    is_noted
}

#[test]
fn what_was_lifted_with_a_run_of_its_own_is_known_outside() {
    let machine = Fabricated::new("container");
    let inside = Lifted::lift_in(machine.0.clone()).unwrap();
    if !forget_files(&machine) {
        return;
    }
    let outside = lift_elsewhere(&machine);
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None, "both live");
    drop(inside);
    assert_eq!(machine.runtime(), NO_LIMIT, "one still measures");
    drop(outside);
    assert_eq!(machine.runtime(), 950_000);
    assert!(machine.0.notes.list().is_empty());
}

#[test]
fn what_died_with_its_run_is_put_back_from_outside() {
    let machine = Fabricated::new("ended");
    fs::write(&machine.0.runtime, "-1").unwrap();
    let own = Owner::this_process().unwrap();
    let dead = format!("{}-1", Owner { process: 4_194_305, ..own });
    if machine.0.notes.leave(&note(&dead, 900_000)).is_err() {
        eprintln!("{NO_NOTES}");
        return;
    }
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), Some(900_000));
    assert_eq!(machine.runtime(), 900_000);
    assert!(machine.0.notes.list().is_empty());
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None);
}

#[test]
fn a_living_holder_is_left_alone() {
    let machine = Fabricated::new("living");
    let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None);
    assert_eq!(machine.runtime(), NO_LIMIT);
    drop(lifted);
}

#[test]
fn what_nobody_can_judge_stays_lifted_and_is_told_with_how_to_put_it_back() {
    let mut machine = Fabricated::new("unjudged");
    let own = Owner::this_process().unwrap();
    let other = Owner { pid_namespace: own.pid_namespace ^ 1, process: 4711, ..own };
    leave_mark(&machine, &format!("{other}-1"), "900000");
    // As in a PID namespace beside theirs.
    machine.0.processes = Processes::below("/nowhere");
    assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None);
    drop(Lifted::lift_in(machine.0.clone()).unwrap());
    assert_eq!(machine.runtime(), NO_LIMIT, "it may still be held");
    let left = left_lifted_in(&machine.0).unwrap();
    let who = format!("process 4711 of the PID namespace {} has done that", other.pid_namespace);
    assert!(left.to_string().contains(&who), "{left}");
    assert!(left.hint().contains("`stealtime-agent restore`") && left.hint().contains("write 900000 to"));
    assert_eq!(left.finding().code, "rt_throttling_left");
    fs::write(&machine.0.runtime, "900000").unwrap();
    assert_eq!(left_lifted_in(&machine.0), None, "somebody has put it back");
}

#[test]
fn a_holder_that_is_known_to_live_is_nothing_to_tell_of() {
    let machine = Fabricated::new("known");
    let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
    assert_eq!(left_lifted_in(&machine.0), None);
    drop(lifted);
    fs::write(&machine.0.runtime, "-1").unwrap();
    assert_eq!(left_lifted_in(&machine.0), None, "of a limit that others have lifted nothing is known");
}
