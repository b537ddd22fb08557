//! Made-up histories of one CPU, of which each boundary is known.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod history;

use history::{CALLBACK, History, Moments, TICK, TIMER};
use proptest::prelude::*;
use stealtime_overheads::{Flags, Found, JobDiscard, PairDiscard, Part, SampleKind, Stretches};
use stealtime_wire::EventKind;

const TASK: i32 = 50;
const RIVAL: i32 = 60;

fn parts_of(found: &Found, job: usize) -> Vec<(&'static str, u64)> {
    let parts = Part::ALL.into_iter().zip(&found.chains.parts);
    parts.filter(|(_, column)| column[job] > 0).map(|(part, column)| (part.name(), column[job])).collect()
}

fn only_discard(found: &Found) -> JobDiscard {
    assert_eq!(found.chains.discard.len(), 1);
    assert_eq!(parts_of(found, 0), [], "no chain, no parts");
    found.chains.discard[0]
}

/// The parts of a chain, of which the one that ends with each moment.
fn chain_of(moments: Moments) -> Vec<(&'static str, u64)> {
    let mut history = History::new();
    history.release_and_run(TASK, moments);
    let found = history.measure();
    assert_eq!(found.chains.discard, [JobDiscard::None]);
    assert!(found.chains.flags[0].has(Flags::DIRECT));
    assert_eq!(found.chains.flags[0].has(Flags::FINE), moments.entry.is_some());
    parts_of(&found, 0)
}

#[test]
fn a_boundary_that_moves_is_found_in_its_part_and_in_no_other() {
    for fine in [false, true] {
        let moments = if fine { Moments::FINE } else { Moments::COARSE };
        let base = chain_of(moments);
        let expected: &[(&str, u64)] = if fine {
            &[
                ("event_latency", 150),
                ("release", 50),
                ("interrupt_rest", 60),
                ("interrupt_exit", 40),
                ("scheduling", 100),
                ("context_switch", 45),
                ("return", 55),
            ]
        } else {
            &[("event_latency", 150), ("release", 50), ("interrupt_rest", 60), ("dispatch", 140), ("arrival", 100)]
        };
        assert_eq!(base, expected);
        for (number, (name, length)) in expected.iter().enumerate() {
            // Everything from that part's end on comes 1000 later.
            let mut longer = expected.to_vec();
            longer[number] = (name, length + 1000);
            let end: u64 = expected[..=number].iter().map(|(_, length)| length).sum();
            assert_eq!(chain_of(moments.delayed(1000 + end, 1000)), longer, "{name}");
        }
    }
}

#[test]
fn samples_are_the_pairs_of_their_own_cpu() {
    let mut history = History::new();
    history.release_and_run(TASK, Moments::FINE);
    history.tick(5000, 5010, 5070, 5090);
    history.rows.push((5200, 0, EventKind::ScheduleEntry, TASK, 0, 0, 0, 0));
    history.rows.push((5230, 0, EventKind::ScheduleExit, TASK, 0, 0, 0, 0));
    let found = history.measure();
    let samples: Vec<_> = found.samples.iter().map(|it| (it.kind, it.start, it.duration, it.thread)).collect();
    assert_eq!(
        samples,
        [
            (SampleKind::Release, 1150, 50, TASK),
            (SampleKind::Interrupt, 1100, 160, 0),
            (SampleKind::Scheduling, 1300, 100, TASK),
            (SampleKind::Dispatch, 1260, 140, TASK),
            (SampleKind::ContextSwitch, 1400, 45, TASK),
            (SampleKind::Tick, 5010, 60, TASK),
            (SampleKind::Interrupt, 5000, 90, TASK),
            (SampleKind::SchedulingInVain, 5200, 30, TASK),
        ]
    );
    assert!(found.samples.iter().all(|it| !it.flags.has(Flags::INTERRUPTED | Flags::TAKEN | Flags::LOST_NEAR)));
    let real_time = |it: &&stealtime_overheads::Sample| it.flags.has(Flags::REAL_TIME);
    // The interrupt came while the idle thread ran.
    assert_eq!(found.samples.iter().filter(real_time).count(), 7);
    // The very first switch of the history has no exit.
    assert_eq!(found.discards.pairs, [0, 1, 0, 0]);
    assert_eq!(found.discards.jobs[JobDiscard::None as usize], 1);
}

#[test]
fn one_burst_is_a_release_for_each_callback_and_one_interrupt() {
    let mut history = History::new();
    history.vector_entry(1100);
    for (number, thread) in (0..3).zip([51, 52, 53]) {
        history.callback(1150 + 100 * number, 1190 + 100 * number, thread, CALLBACK);
    }
    history.vector_exit(1450);
    for (number, thread) in (0..3).zip([51, 52, 53]) {
        history.switch(1500 + 200 * number, thread, 49 - i16::try_from(thread).unwrap() + 50);
        history.job(thread, 1000, 1520 + 200 * number, 1680 + 200 * number);
    }
    let found = history.measure();
    let kinds = |kind| found.samples.iter().filter(move |it| it.kind == kind).collect::<Vec<_>>();
    assert_eq!(kinds(SampleKind::Release).iter().map(|it| it.duration).collect::<Vec<_>>(), [40, 40, 40]);
    let interrupts = kinds(SampleKind::Interrupt);
    assert_eq!(interrupts.iter().map(|it| (it.duration, it.expiries, it.releases)).collect::<Vec<_>>(), [(350, 3, 3)]);
    assert_eq!(found.chains.interrupt, [350, 350, 350]);
    assert_eq!(
        parts_of(&found, 1),
        [
            ("event_latency", 250),
            ("release", 40),
            ("interrupt_rest", 160),
            ("dispatch", 50),
            ("preemption", 200),
            ("arrival", 20)
        ]
    );
    let direct: Vec<bool> = found.chains.flags.iter().map(|flags| flags.has(Flags::DIRECT)).collect();
    assert_eq!(direct, [true, false, false]);
    // The other two had to wait for a thread, which is no dispatching.
    assert_eq!(kinds(SampleKind::Dispatch).len(), 1);
}

#[test]
fn who_runs_instead_decides_what_the_wait_is() {
    // A more urgent thread is on the CPU, leaves for an ordinary one, and only then comes the task.
    let mut history = History::new();
    history.switch(900, RIVAL, 10);
    history.vector_entry(1100);
    history.callback(1150, 1200, TASK, CALLBACK);
    history.vector_exit(1260);
    history.switch(2000, 70, 120);
    history.switch(2300, TASK, 49);
    history.job(TASK, 1000, 2310, 2400);
    let found = history.measure();
    assert_eq!(
        parts_of(&found, 0),
        [
            ("event_latency", 150),
            ("release", 50),
            ("interrupt_rest", 60),
            ("preemption", 740),
            ("arrival", 10),
            ("remainder", 300)
        ]
    );
    assert!(!found.chains.flags[0].has(Flags::DIRECT));
    assert!(found.samples.iter().all(|it| it.kind != SampleKind::Dispatch));
}

#[test]
fn a_switch_that_the_kernel_left_out_is_told_apart_from_nothing_around_it() {
    for entry in [Some(1300), None] {
        let mut history = History::new();
        history.release_and_run(TASK, Moments { entry, ..Moments::FINE });
        history.rows.retain(|row| row.2 != EventKind::Switch || row.5 != TASK);
        let found = history.measure();
        assert_eq!(found.chains.discard, [JobDiscard::None]);
        assert_eq!(
            parts_of(&found, 0),
            [("event_latency", 150), ("release", 50), ("interrupt_rest", 60), ("unseen_switch", 185), ("return", 55)]
        );
        assert!(found.chains.flags[0].has(Flags::FINE));
        assert!(!found.chains.flags[0].has(Flags::DIRECT), "a sample of dispatch needs the switch");
    }
    // Behind a more urgent thread: what that one took is still its own.
    let mut history = History::new();
    history.switch(900, RIVAL, 10);
    history.vector_entry(1100);
    history.callback(1150, 1200, TASK, CALLBACK);
    history.vector_exit(1260);
    history.switch(2000, 0, 120);
    history.rows.push((2300, 0, EventKind::ScheduleExit, TASK, 0, 0, 0, u32::MAX));
    history.job(TASK, 1000, 2310, 2400);
    assert_eq!(parts_of(&history.measure(), 0)[3..], [("preemption", 740), ("unseen_switch", 300), ("return", 10)]);
}

#[test]
fn an_interrupt_is_told_of_the_part_that_it_came_in() {
    let within = [
        (1050, Part::EventLatency),
        (1160, Part::Release),
        (1220, Part::InterruptRest),
        (1280, Part::InterruptExit),
        (1350, Part::Scheduling),
        (1420, Part::ContextSwitch),
        (1470, Part::Return),
    ];
    for (time, part) in within {
        let mut history = History::new();
        history.release_and_run(TASK, Moments::FINE);
        history.insert((time, 0, EventKind::InterruptEntry, 0, 24, 0, 0, 0));
        history.insert((time + 5, 0, EventKind::InterruptExit, 0, 24, 0, 0, 0));
        let found = history.measure();
        assert_eq!(found.chains.discard, [JobDiscard::None], "{part:?}");
        assert_eq!(found.chains.interrupted, [1 << part as u16], "{part:?}");
        assert!(found.chains.flags[0].has(Flags::INTERRUPTED));
        let hit: Vec<_> =
            found.samples.iter().filter(|it| it.flags.has(Flags::INTERRUPTED)).map(|it| it.kind).collect();
        let expected: &[SampleKind] = match part {
            Part::Release => &[SampleKind::Release, SampleKind::Interrupt],
            Part::InterruptRest => &[SampleKind::Interrupt],
            Part::InterruptExit => &[SampleKind::Dispatch],
            Part::Scheduling => &[SampleKind::Scheduling, SampleKind::Dispatch],
            Part::ContextSwitch => &[SampleKind::ContextSwitch],
            _ => &[],
        };
        assert_eq!(hit, expected, "{part:?}");
    }
}

#[test]
fn what_the_host_took_is_told_of_the_part_that_it_came_in() {
    let mut history = History::new();
    history.release_and_run(TASK, Moments::FINE);
    let found = history.measure_with(&Stretches::new(vec![(1320, 1330), (1430, 1460)]));
    let bits = [Part::Scheduling, Part::ContextSwitch, Part::Return].map(|part| 1 << part as u16);
    assert_eq!(found.chains.taken, [bits.iter().sum::<u16>()]);
    let hit: Vec<_> = found.samples.iter().filter(|it| it.flags.has(Flags::TAKEN)).map(|it| it.kind).collect();
    assert_eq!(hit, [SampleKind::Scheduling, SampleKind::Dispatch, SampleKind::ContextSwitch]);
}

#[test]
fn a_hole_ends_pairs_and_chains_on_its_cpu_and_marks_them_on_others() {
    for time in [1010, 1120, 1170, 1230, 1350, 1450] {
        let mut history = History::new();
        history.release_and_run(TASK, Moments::COARSE);
        history.insert((time, 0, EventKind::Lost, 0, 7, 0, 0, 0));
        let found = history.measure();
        assert_eq!(only_discard(&found), JobDiscard::Hole, "at {time}");
    }
    let mut history = History::new();
    history.release_and_run(TASK, Moments::COARSE);
    history.insert((1170, 0, EventKind::Lost, 0, 7, 0, 0, 0));
    let pairs = history.measure().discards.pairs;
    // The interrupt and the callback lost their beginnings; their ends have none.
    assert_eq!((pairs[PairDiscard::Hole as usize], pairs[PairDiscard::NotBegun as usize]), (2, 2));
    let mut elsewhere = History::new();
    elsewhere.release_and_run(TASK, Moments::COARSE);
    elsewhere.insert((1170, 1, EventKind::Lost, 0, 7, 0, 0, 0));
    let found = elsewhere.measure();
    assert_eq!(found.chains.discard, [JobDiscard::None]);
    assert!(found.chains.flags[0].has(Flags::LOST_NEAR));
}

#[test]
fn a_request_counts_from_the_wake_up_on_another_cpu_to_the_handler() {
    let requests = |history: &History| {
        let samples = history.measure().samples.into_iter().filter(|one| one.kind == SampleKind::Request);
        samples.map(|one| (one.cpu, one.thread, one.start, one.duration, one.flags)).collect::<Vec<_>>()
    };
    let asked = || {
        let mut history = History::new();
        history.request(2_000, 2_300, TASK, 49);
        history
    };
    assert_eq!(requests(&asked()), [(0, TASK, 2_000, 300, Flags::REAL_TIME)]);
    // One request serves a second wake-up.
    let mut twice = asked();
    twice.insert((2_100, 1, EventKind::Waking, 0, 0, TASK + 1, 49, u32::MAX));
    assert_eq!(requests(&twice).len(), 1);
    // An interrupt comes first.
    let mut late = asked();
    late.insert((2_200, 0, EventKind::VectorEntry, 0, 236, 0, 0, u32::MAX));
    assert_eq!(requests(&late), [(0, TASK, 2_000, 300, Flags::REAL_TIME | Flags::INTERRUPTED)]);
    // The idle CPU looked by itself; one as urgent runs; it is not known what happened; an ordinary thread.
    let without = |row| {
        let mut history = asked();
        history.insert(row);
        requests(&history)
    };
    assert_eq!(without((2_150, 0, EventKind::Switch, 0, 0, TASK, 49, u32::MAX)), []);
    assert_eq!(without((1_500, 0, EventKind::Switch, 0, 0, TASK + 1, 49, u32::MAX)), []);
    assert_eq!(without((2_150, 0, EventKind::Lost, 0, 7, 0, 0, 0)), []);
    let mut ordinary = History::new();
    ordinary.request(2_000, 2_300, TASK, 120);
    assert_eq!(requests(&ordinary), []);
}

#[test]
fn the_order_of_rows_of_different_cpus_changes_nothing() {
    let mut history = History::new();
    history.release_and_run(TASK, Moments::FINE);
    history.release_on(1, RIVAL, Moments::COARSE);
    let together = history.measure();
    history.rows.sort_by_key(|row| (row.1, row.0));
    let apart = history.measure();
    assert_eq!(parts_of(&apart, 0), parts_of(&together, 0));
    assert_eq!(parts_of(&apart, 1), parts_of(&together, 1));
    assert_eq!(apart.samples, together.samples);
    assert_eq!(apart.samples.iter().filter(|it| it.cpu == 1).count(), 3);
}

#[test]
fn a_trace_that_goes_back_on_one_cpu_is_refused() {
    let mut history = History::new();
    history.release_and_run(TASK, Moments::COARSE);
    history.rows.swap(1, 2);
    assert!(history.try_measure(&Stretches::default()).unwrap_err().to_string().contains("on CPU 0"));
}

#[test]
fn each_job_without_a_chain_says_why() {
    let run = |change: &dyn Fn(&mut History)| {
        let mut history = History::new();
        history.release_and_run(TASK, Moments::COARSE);
        change(&mut history);
        only_discard(&history.measure())
    };
    assert_eq!(run(&|it| it.covered = (1001, 9000)), JobDiscard::OutsideTrace);
    assert_eq!(run(&|it| it.covered = (0, 1499)), JobDiscard::OutsideTrace);
    assert_eq!(run(&|it| it.jobs[0].0 = 99), JobDiscard::NoTimer);
    assert_eq!(run(&|it| it.jobs[0].1 = 1501), JobDiscard::StartedEarly);
    assert_eq!(run(&|it| it.jobs[0].1 = 1170), JobDiscard::ReleasedEarly);
    assert_eq!(run(&|it| it.jobs[0].2 = 1399), JobDiscard::NotRunning);
    assert_eq!(run(&|it| it.rows[0].5 = TASK), JobDiscard::NeverLeft);
    let first_switch = |history: &mut History| {
        history.rows.remove(0);
    };
    assert_eq!(run(&first_switch), JobDiscard::RunnerUnknown);
    assert_eq!(
        run(&|it| it.rows.iter_mut().filter(|row| row.2 == EventKind::Waking).for_each(|row| row.4 = 1)),
        JobDiscard::ReleasedElsewhere
    );
    let ambiguous = |history: &mut History| {
        history.insert((1210, 0, EventKind::TimerEntry, 0, TIMER + 1, 0, 0, CALLBACK));
        history.insert((1215, 0, EventKind::Waking, 0, 0, TASK, 49, u32::MAX));
        history.insert((1220, 0, EventKind::TimerExit, 0, TIMER + 1, 0, 0, 0));
    };
    assert_eq!(run(&ambiguous), JobDiscard::Ambiguous);
    let mut history = History::new();
    history.release_and_run(TASK, Moments::COARSE);
    history.job(TASK, 1550, 1700, 1800);
    let found = history.measure();
    assert_eq!(found.chains.discard, [JobDiscard::None, JobDiscard::Backlogged]);
    let counted = found.discards.jobs;
    assert_eq!((counted[JobDiscard::Backlogged as usize], counted.iter().sum::<u64>()), (1, 2));
}

#[test]
fn what_an_interrupt_inside_of_a_callback_wakes_is_not_the_callbacks() {
    let mut history = History::new();
    history.rows.push((1150, 0, EventKind::TimerEntry, 0, TIMER, 0, 0, CALLBACK));
    history.rows.push((1160, 0, EventKind::InterruptEntry, 0, 24, 0, 0, 0));
    history.rows.push((1165, 0, EventKind::Waking, 0, 0, TASK, 49, u32::MAX));
    history.rows.push((1170, 0, EventKind::InterruptExit, 0, 24, 0, 0, 0));
    history.rows.push((1180, 0, EventKind::TimerExit, 0, TIMER, 0, 0, 0));
    history.switch(1300, TASK, 49);
    history.job(TASK, 1000, 1400, 1500);
    assert_eq!(only_discard(&history.measure()), JobDiscard::NoTimer);
}

#[test]
fn a_tick_that_wakes_somebody_is_no_release() {
    let mut history = History::new();
    history.vector_entry(1100);
    history.callback(1150, 1200, 70, TICK);
    history.vector_exit(1260);
    let samples = history.measure().samples;
    assert_eq!(samples.iter().map(|it| it.kind).collect::<Vec<_>>(), [SampleKind::Tick, SampleKind::Interrupt]);
    assert_eq!((samples[1].expiries, samples[1].releases), (1, 0));
}

proptest! {
    #[test]
    fn parts_are_those_that_were_made(
        lengths in prop::collection::vec((1_u64..500, 1_u64..500, 1_u64..500, 1_u64..500, 0_u64..2000, 1_u64..500), 1..12),
        fine in any::<bool>(),
    ) {
        let mut history = History::new();
        let mut at = 1000;
        let mut expected = Vec::new();
        for (latency, release, rest, dispatch, preemption, arrival) in lengths {
            let (entry, exit) = (at + latency, at + latency + release);
            let end = exit + rest;
            let chosen = end + dispatch;
            history.vector_entry(at);
            history.callback(entry, exit, TASK, CALLBACK);
            history.vector_exit(end);
            if fine {
                history.rows.push((end + dispatch / 2, 0, EventKind::ScheduleEntry, 0, 0, 0, 0, 0));
            }
            if preemption > 0 {
                history.switch(chosen, RIVAL, 10);
            }
            let switched = chosen + preemption;
            history.switch(switched, TASK, 49);
            let start = switched + arrival;
            history.job(TASK, at, start, start + 10);
            history.switch(start + 20, 0, 120);
            let (exit_part, chosen_part) = (dispatch / 2, dispatch - dispatch / 2);
            let mut parts = vec![("event_latency", latency), ("release", release), ("interrupt_rest", rest)];
            if fine {
                parts.extend([("interrupt_exit", exit_part), ("scheduling", chosen_part)]);
            } else {
                parts.push(("dispatch", dispatch));
            }
            parts.extend([("preemption", preemption), ("arrival", arrival)]);
            expected.push(parts.into_iter().filter(|(_, length)| *length > 0).collect::<Vec<_>>());
            at = start + 100;
        }
        let found = history.measure();
        for (job, parts) in expected.iter().enumerate() {
            prop_assert_eq!(&parts_of(&found, job), parts, "job {}", job);
        }
    }

    #[test]
    fn whatever_the_rows_say_parts_add_up_and_every_job_is_counted(
        rows in prop::collection::vec((0_u64..30, 0_u16..2, 0_u8..19, 48_i32..53, 0_i64..3, 48_i32..53, 40_i16..130, 0_u32..3), 0..200),
        jobs in prop::collection::vec((48_i32..53, 0_u64..1500, 0_u64..300, 0_u64..100), 0..20),
        taken in prop::collection::vec((0_u64..3000, 0_u64..100), 0..5),
    ) {
        let mut history = History::new();
        history.rows.clear();
        let mut time = 0;
        for (pause, cpu, kind, thread, value, other, priority, name) in rows {
            time += pause;
            history.rows.push((time, cpu, EventKind::from_code(kind).unwrap(), thread, value, other, priority, name));
        }
        for &(thread, release, latency, work) in &jobs {
            history.job(thread, release, release + latency, release + latency + work);
        }
        let taken = Stretches::new(taken.into_iter().map(|(start, length)| (start, start + length)).collect());
        let found = history.measure_with(&taken);
        prop_assert_eq!(found.chains.discard.len(), jobs.len());
        prop_assert_eq!(found.discards.jobs.iter().sum::<u64>(), jobs.len() as u64);
        for (job, &(_, _, latency, _)) in jobs.iter().enumerate() {
            let sum: u64 = found.chains.parts.iter().map(|column| column[job]).sum();
            let expected = if found.chains.discard[job] == JobDiscard::None { latency } else { 0 };
            prop_assert_eq!(sum, expected);
        }
    }
}
