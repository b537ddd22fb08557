//! Made-up histories in which something takes the CPU that is in no sample, or only in part.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "chains.rs has use for all of it")]
mod history;

use history::{CALLBACK, History, Moments};
use stealtime_overheads::SampleKind;
use stealtime_wire::EventKind;

const TASK: i32 = 50;
const RIVAL: i32 = 60;

/// The row of an interrupt, softirq or vector.
fn row(time: u64, kind: EventKind, value: i64, name: u32) -> history::Row {
    (time, 0, kind, 0, value, 0, 0, name)
}

fn takings_of(history: &History) -> Vec<(&'static str, u32, u64, u64)> {
    history.measure().takings.iter().map(|it| (it.class.name(), it.name, it.start, it.net)).collect()
}

#[test]
fn what_is_in_no_sample_is_told_with_its_net_time() {
    let mut history = History::new();
    history.release_and_run(TASK, Moments::COARSE);
    assert_eq!(takings_of(&history), [], "the release is in a sample");
    // A device's interrupt with another CPU's request on top, then two softirqs.
    for one in [
        row(2_000, EventKind::InterruptEntry, 7, 3),
        row(2_010, EventKind::VectorEntry, 253, 4),
        row(2_040, EventKind::VectorExit, 253, 4),
        row(2_100, EventKind::InterruptExit, 7, 3),
        row(2_110, EventKind::SoftirqEntry, 4, 5),
        row(2_310, EventKind::SoftirqExit, 4, 5),
    ] {
        history.insert(one);
    }
    history.tick(3_000, 3_010, 3_040, 3_060);
    let found = takings_of(&history);
    assert_eq!(found, [("interrupt", 4, 2_010, 30), ("device interrupt", 3, 2_000, 70), ("softirq", 5, 2_110, 200)]);
}

#[test]
fn only_threads_that_a_job_waits_for_are_others_that_take_the_cpu() {
    let mut history = History::new();
    history.release_and_run(TASK, Moments::COARSE);
    history.switch(5_000, RIVAL, 49);
    history.insert(row(5_100, EventKind::InterruptEntry, 7, 3));
    history.insert(row(5_150, EventKind::InterruptExit, 7, 3));
    history.switch(6_000, RIVAL + 1, 50);
    history.switch(8_000, TASK, 49);
    history.switch(9_000, 0, 120);
    let found = takings_of(&history);
    assert_eq!(found, [("device interrupt", 3, 5_100, 50), ("real-time thread", u32::MAX, 5_000, 950)]);
}

#[test]
fn a_release_is_charged_the_whole_interrupt_that_also_wakes_others() {
    let mut history = History::new();
    let moments = Moments::COARSE;
    history.vector_entry(moments.interrupt);
    history.callback(moments.callback, moments.callback_end, TASK, CALLBACK);
    history.callback(1_205, 1_210, RIVAL, CALLBACK);
    history.callback(1_215, 1_220, RIVAL + 1, CALLBACK);
    history.vector_exit(moments.interrupt_end);
    history.switch(moments.switch, TASK, 49);
    history.job(TASK, 1_000, moments.start, moments.start + 100);
    // A timer of somebody else alone is in no sample that is charged.
    history.vector_entry(7_000);
    history.callback(7_010, 7_020, RIVAL, CALLBACK);
    history.vector_exit(7_050);
    let found = history.measure();
    let interrupts: Vec<_> = found.samples.iter().filter(|it| it.kind == SampleKind::Interrupt).collect();
    assert_eq!(
        interrupts.iter().map(|it| (it.expiries, it.releases, it.ticks)).collect::<Vec<_>>(),
        [(3, 1, 0), (1, 0, 0)]
    );
    assert_eq!(takings_of(&history), [("timer interrupt of others", u32::MAX, 7_000, 50)]);
}
