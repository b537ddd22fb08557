//! Loads through the public interface of the crate.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;
use std::thread;
use std::time::Duration;

use stealtime_probe::clock::{TscRate, read_clocks};
use stealtime_probe::load::{LoadError, LoadRecording, RunningLoad};
use stealtime_probe::processor_sets::granted_cpus;
use stealtime_probe::scheduling;
use stealtime_wire::{FindingLevel, Load, LoadRequest, WorkUnit};

fn rate() -> TscRate {
    let start = read_clocks();
    thread::sleep(Duration::from_millis(20));
    TscRate::since(&start)
}

fn request(kind: Load) -> LoadRequest {
    LoadRequest { kind, cpus: Vec::new(), priority: 0, threads: 1, on_ns: None, off_ns: None }
}

fn run(request: &LoadRequest, duration: Duration) -> LoadRecording {
    let load = RunningLoad::start(request, &rate()).unwrap();
    thread::sleep(duration);
    load.stop().unwrap()
}

#[test]
fn every_row_lies_between_start_and_end_and_the_work_adds_up() {
    for (kind, unit) in [(Load::Cpu {}, WorkUnit::Loops), (Load::Memory { block_bytes: 1 << 20 }, WorkUnit::Bytes)] {
        let two = LoadRequest { threads: 2, ..request(kind) };
        let LoadRecording { rows, outcome } = run(&two, Duration::from_millis(60));
        assert_eq!(outcome.unit, unit);
        assert_eq!(outcome.thread_ids.len(), 2);
        for &thread in &outcome.thread_ids {
            let own: Vec<_> = rows.iter().filter(|row| row.thread == thread).collect();
            assert!(!own.is_empty(), "thread {thread} did nothing: {outcome:?}");
            assert!(own.windows(2).all(|pair| pair[0].start + pair[0].duration <= pair[1].start), "{own:?}");
        }
        assert!(rows.iter().all(|row| {
            row.work > 0 && row.start > outcome.start.tsc && row.start + row.duration < outcome.end.tsc
        }));
        assert_eq!(rows.iter().map(|row| row.work).sum::<u64>(), outcome.work);
        let on_cycles: u64 = rows.iter().map(|row| row.duration).sum();
        assert!((on_cycles as f64 * 1e9 / outcome.tsc_hz - outcome.on_ns as f64).abs() < 2.0, "{outcome:?}");
        assert!((outcome.rate_per_s * outcome.on_ns as f64 * 1e-9 / outcome.work as f64 - 1.0).abs() < 1e-6);
    }
}

#[test]
fn phases_follow_each_other_at_absolute_times() {
    let pulsed = LoadRequest { on_ns: Some(5_000_000), off_ns: Some(20_000_000), ..request(Load::Cpu {}) };
    let LoadRecording { rows, outcome } = run(&pulsed, Duration::from_millis(250));
    assert!(rows.len() > 1, "{outcome:?}");
    let period = 25e-3 * outcome.tsc_hz;
    let phases: Vec<f64> = rows.iter().map(|row| (row.start - rows[0].start) as f64 / period).collect();
    // However late a busy machine lets a phase begin, it begins inside its own fifth of the period.
    assert!(phases.iter().all(|phase| (phase - phase.round()).abs() < 0.201), "{phases:?}");
    assert!(phases.windows(2).all(|pair| pair[1].round() > pair[0].round()), "{phases:?}");
}

#[test]
fn a_load_stops_at_once_even_in_a_long_pause() {
    let long = LoadRequest { on_ns: Some(10_000_000), off_ns: Some(3_600_000_000_000), ..request(Load::Cpu {}) };
    let LoadRecording { rows, outcome } = run(&long, Duration::from_millis(30));
    // A machine that is busy enough lets a whole phase pass; then it is told.
    let missed = outcome.findings.iter().any(|finding| finding.code == "load_phases_missed");
    assert_eq!(rows.len(), usize::from(!missed), "{outcome:?}");
}

#[test]
fn what_cannot_be_is_refused_with_its_value() {
    let cpu = || request(Load::Cpu {});
    let refusals = [
        (LoadRequest { threads: 0, ..cpu() }, "threads = 0"),
        (LoadRequest { priority: 100, ..cpu() }, "priority = 100"),
        (LoadRequest { on_ns: Some(1_000_000), ..cpu() }, "on for Some(1000000)"),
        (LoadRequest { on_ns: Some(1), off_ns: Some(1_000_000), ..cpu() }, "on_ns = 1 "),
        (LoadRequest { on_ns: Some(1_000_000), off_ns: Some(u64::MAX), ..cpu() }, "off_ns = 18446744073709551615"),
        (request(Load::Memory { block_bytes: 1 }), "block_bytes = 1 "),
        (request(Load::Memory { block_bytes: u64::MAX / 4 }), "no memory for 1 threads"),
        (LoadRequest { cpus: vec![1000], ..cpu() }, "[1000]"),
        (LoadRequest { priority: 1, cpus: granted_cpus().unwrap(), threads: 100, ..cpu() }, "no CPU to answer"),
    ];
    for (request, expected) in refusals {
        let error = RunningLoad::start(&request, &rate()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = RunningLoad::start(&LoadRequest { cpus: vec![1000], ..cpu() }, &rate()).unwrap_err();
    assert!(matches!(error, LoadError::Cpus { .. }) && error.hint().is_some());
}

/// On a thread of its own, confined to one CPU as by `taskset`.
fn confined_to<T: Send>(cpu: u32, what: impl FnOnce() -> T + Send) -> T {
    let confined = || {
        scheduling::place_on(&[cpu]).unwrap();
        what()
    };
    thread::scope(|scope| scope.spawn(confined).join().unwrap())
}

#[test]
fn a_real_time_load_may_have_the_only_cpu_that_the_agent_was_started_on() {
    let granted = granted_cpus().unwrap();
    let Some((&cpu, others)) = granted.split_last().filter(|(_, others)| !others.is_empty()) else {
        eprintln!("skipped: one CPU");
        return;
    };
    let findings = confined_to(cpu, || {
        let load = LoadRequest { priority: 1, cpus: vec![cpu], ..request(Load::Cpu {}) };
        let running = RunningLoad::start(&load, &rate()).unwrap();
        assert_eq!(scheduling::allowed_cpus().unwrap(), others, "who is to stop it goes out of its way");
        thread::sleep(Duration::from_millis(20));
        let findings = running.stop().unwrap().outcome.findings;
        assert_eq!(scheduling::allowed_cpus().unwrap(), [cpu], "and comes back");
        findings
    });
    assert!(findings.iter().any(|finding| finding.code == "answers_elsewhere"), "{findings:?}");
}

#[test]
fn a_load_whose_thread_is_put_on_another_cpu_is_invalid_and_says_when() {
    let granted = granted_cpus().unwrap();
    let (&first, &last) = (granted.first().unwrap(), granted.last().unwrap());
    if first == last {
        eprintln!("skipped: one CPU");
        return;
    }
    let load = LoadRequest { cpus: vec![last], ..request(Load::Cpu {}) };
    let phases = LoadRequest { on_ns: Some(5_000_000), off_ns: Some(5_000_000), ..load };
    let running = RunningLoad::start(&phases, &rate()).unwrap();
    thread::sleep(Duration::from_millis(30));
    let moved = ["-pc", &first.to_string(), &running.thread_ids()[0].to_string()].map(str::to_owned);
    assert!(Command::new("taskset").args(moved).output().unwrap().status.success());
    thread::sleep(Duration::from_millis(60));
    let outcome = running.stop().unwrap().outcome;
    let found = outcome.findings.iter().find(|finding| finding.code == "cpu_changed").unwrap();
    let told = format!("to run on CPU {last}, and was put on CPU {first} instead between ");
    assert!(found.text.contains(&told), "{}", found.text);
    assert_eq!(found.level, FindingLevel::Invalidates);
}
