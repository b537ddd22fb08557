//! `contend` does the same work in whatever order, and what it counts is what happened.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use stealtime_probe::clock::{Settling, TscRate};
use stealtime_probe::{Recording, Rows, RunningTrial, Trial, TrialError, run_trial, scheduling};
use stealtime_wire::{Contend, Probe, TrialRequest};

const SMALL: Contend = Contend {
    tasks: 4,
    iterations: 3,
    collection_bytes: 64 << 10,
    searches: 20,
    io_mean_ns: 0,
    io_spread_percent: 0,
    lock_percent: 0,
    lock_searches: 2,
    seed: 7,
    each_iteration: true,
};

fn run(contend: Contend, duration_ns: u64) -> Result<Recording, TrialError> {
    let request = TrialRequest::plain(Probe::Contend(contend), scheduling::allowed_cpus().unwrap(), 0, duration_ns);
    let rate = TscRate::since(&Settling::begin().wait());
    run_trial(&Trial { request: &request, rate: &rate, running: &RunningTrial::new() })
}

fn done(contend: Contend) -> Recording {
    let recording = run(contend, 600_000_000_000).unwrap();
    assert!(recording.outcome.findings.iter().all(|finding| finding.code != "unfinished"));
    recording
}

fn count(recording: &Recording, name: &str) -> u64 {
    recording.outcome.counters[name]
}

#[test]
fn the_checksum_is_that_of_the_work_however_many_tasks_do_it() {
    for lock_percent in [0, 50] {
        let work = Contend { lock_percent, ..SMALL };
        let checksum = count(&done(work.clone()), "checksum");
        for (tasks, iterations) in [(1, 12), (12, 1), (2, 6)] {
            assert_eq!(count(&done(Contend { tasks, iterations, ..work.clone() }), "checksum"), checksum);
        }
        assert_eq!(count(&done(Contend { each_iteration: false, ..work.clone() }), "checksum"), checksum);
        assert_ne!(count(&done(Contend { seed: 8, ..work.clone() }), "checksum"), checksum);
        assert_ne!(count(&done(Contend { searches: 21, ..work.clone() }), "checksum"), checksum);
    }
}

#[test]
fn every_iteration_has_its_row_and_the_rows_add_up_to_the_whole() {
    let recording = done(Contend { io_mean_ns: 100_000, lock_percent: 50, ..SMALL });
    let Rows::Iterations(rows, _) = &recording.rows else { panic!("{:?}", recording.rows) };
    let numbers: Vec<(u32, u32)> = rows.iter().map(|row| (row.task, row.iteration)).collect();
    let expected: Vec<(u32, u32)> = (0..4).flat_map(|task| (0..3).map(move |one| (task, one))).collect();
    assert_eq!(numbers, expected);
    // Room for more would not have been counted before the trial.
    assert_eq!(rows.capacity(), rows.len());
    for (name, sum) in [
        ("lock_wait_ns", rows.iter().map(|row| row.lock_wait_ns).sum::<u64>()),
        ("io_ns", rows.iter().map(|row| row.io_ns).sum()),
        ("fill_cpu_ns", rows.iter().map(|row| row.fill_cpu_ns).sum()),
        ("fault_cpu_ns", rows.iter().map(|row| row.fault_cpu_ns).sum()),
        ("minor_faults", rows.iter().map(|row| row.minor_faults).sum()),
    ] {
        assert_eq!(count(&recording, name), sum, "{name}");
    }
    for row in rows {
        assert!(row.start_ns + row.duration_ns <= count(&recording, "elapsed_ns"), "{row:?}");
        assert!(row.io_ns + row.lock_wait_ns <= row.duration_ns && row.fill_cpu_ns <= row.cpu_ns, "{row:?}");
        assert!(0 < row.fault_cpu_ns && row.fault_cpu_ns <= row.fill_cpu_ns, "{row:?}");
        // 16 pages of 4 KiB, unless the kernel gave a larger one.
        assert!(row.minor_faults >= 1, "{row:?}");
    }
    assert!(count(&recording, "io_ns") >= count(&recording, "io_asked_ns"));
    assert!(count(&recording, "cpu_ns") >= rows.iter().map(|row| row.cpu_ns).sum());
}

#[test]
fn nobody_waits_for_a_lock_that_nobody_takes() {
    let free = done(Contend { searches: 200, ..SMALL });
    assert_eq!(count(&free, "lock_wait_ns"), 0);
    let alone = done(Contend { searches: 200, lock_percent: 100, tasks: 1, ..SMALL });
    assert_eq!(count(&alone, "lock_wait_ns"), 0);
    let bound = done(Contend { searches: 300, lock_percent: 100, lock_searches: 100, ..SMALL });
    assert!(count(&bound, "lock_wait_ns") > 0);
}

#[test]
fn work_that_is_not_done_in_its_time_is_no_result() {
    let recording = run(Contend { iterations: 1_000_000, ..SMALL }, 20_000_000).unwrap();
    assert!(!recording.outcome.is_valid());
    let finding = recording.outcome.findings.iter().find(|finding| finding.code == "unfinished").unwrap();
    assert!(finding.text.contains("of 4000000 iterations"), "{}", finding.text);
}

#[test]
fn parameters_without_a_meaning_are_refused() {
    let refused = |contend| run(contend, 1_000_000).err().unwrap().to_string();
    assert!(refused(Contend { tasks: 0, ..SMALL }).contains("tasks = 0"));
    assert!(refused(Contend { collection_bytes: 8, ..SMALL }).contains("collection_bytes = 8"));
    assert!(refused(Contend { lock_percent: 101, ..SMALL }).contains("0 to 100"));
    assert!(refused(Contend { lock_searches: 0, ..SMALL }).contains("lock_searches"));
    let too_large = refused(Contend { collection_bytes: 1 << 40, ..SMALL });
    assert!(too_large.contains("4 tasks") && too_large.contains("bytes may still be used by"), "{too_large}");
}
