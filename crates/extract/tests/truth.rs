//! Traces whose truth is known, as they were made up from it.

mod made_up;

use made_up::{IDLE, PREEMPTED, RATE, THREAD, WAITS, WORK, Work, World};
use proptest::prelude::*;
use stealtime_extract::{Kind, Taken};

const PERIOD: u64 = 1_000_000;
const START: u64 = 5_000_000;
const OTHER: i32 = 9;

/// Releases that a program sets on a grid, woken some time after.
fn programmed(count: u64, period: u64, late: impl Fn(u64) -> u64) -> World {
    let mut world = World::default();
    for job in 0..count {
        let release = START + job * period;
        world.job(release + late(job), WORK, Some(release + period));
    }
    world
}

#[test]
fn a_period_a_cost_and_lateness_come_out_as_they_were_put_in() {
    let task = programmed(100, PERIOD, |job| 1_000 + (job * 7_919) % 50_000).task();
    assert_eq!(task.arrivals.kind, Kind::Programmed);
    assert_eq!((task.arrivals.period_ns, task.arrivals.spread_ns, task.arrivals.missed), (Some(PERIOD), 0, 0));
    // The first was not woken by a timer that was seen to be set, and the last was not over.
    assert_eq!((task.jobs.len(), task.counted), (98, 98));
    assert_eq!((task.own.most_ns, task.own.first_half_ns, task.own.second_half_ns), (100_000, 100_000, 100_000));
    assert_eq!(task.ran.most_ns, 103_000, "with the way out and in");
    let latest = (1..99).map(|job| 1_000 + (job * 7_919) % 50_000).max();
    assert_eq!(task.lateness_most_ns, latest);
    assert_eq!(task.response_most_ns, latest.unwrap() + WORK.whole());
    assert_eq!((task.suspending, task.holed, task.merged, task.unseen), (0, 0, 0, 0));
}

#[test]
fn the_longest_job_is_the_worst_and_is_told_where_it_was() {
    let mut world = World::default();
    for job in 0..60 {
        let own = if job == 50 { 300_000 } else { 100_000 };
        let release = START + job * PERIOD;
        world.job(release, Work { own, ..WORK }, Some(release + PERIOD));
    }
    let task = world.task();
    assert_eq!((task.own.first_half_ns, task.own.second_half_ns, task.own.most_ns), (100_000, 300_000, 300_000));
}

#[test]
fn interrupts_over_a_job_are_not_its_own_time() {
    let mut world = programmed(50, PERIOD, |_| 0);
    world.interrupt(START + 10 * PERIOD + 50_000, START + 10 * PERIOD + 90_000, THREAD);
    let task = world.task();
    assert_eq!(task.own.most_ns, 100_000);
    assert!(task.jobs.iter().any(|job| (job.own, job.interrupts) == (60_000 * RATE, 40_000 * RATE)));
    assert_eq!(task.interrupts_most_ns, 40_000);
}

#[test]
fn who_preempts_a_job_is_not_its_own_time() {
    let mut world = World::default();
    for job in 0..50 {
        let woken = START + job * PERIOD;
        world.wake(woken, IDLE, THREAD);
        world.switch(woken + 3_000, IDLE, PREEMPTED, THREAD);
        world.call(woken + 5_000, THREAD, false);
        world.switch(woken + 40_000, THREAD, PREEMPTED, OTHER);
        world.switch(woken + 240_000, OTHER, WAITS, THREAD);
        world.call(woken + 305_000, THREAD, true);
        world.set_timer(woken + 305_500, THREAD, (woken + PERIOD).cast_signed());
        world.switch(woken + 306_000, THREAD, WAITS, IDLE);
    }
    let task = world.task();
    assert_eq!((task.own.most_ns, task.ran.most_ns), (100_000, 103_000));
    assert!(task.jobs.iter().all(|job| (job.preemptions, job.activations) == (1, 1)));
    assert_eq!(task.response_most_ns, 306_000);
}

#[test]
fn a_sleep_inside_a_job_is_a_wait_and_no_arrival() {
    let mut world = World::default();
    for job in 0..50 {
        let release = START + job * PERIOD;
        // It sleeps relatively: until when depends on when it got there.
        let late = job * 37 % 11 * 1_000;
        let resumed = release + late + WORK.whole() + 200_000;
        world.job(release + late, WORK, Some(resumed));
        world.job(resumed, WORK, Some(release + PERIOD));
    }
    let task = world.task();
    assert_eq!((task.arrivals.kind, task.arrivals.period_ns), (Kind::Programmed, Some(PERIOD)));
    assert_eq!(task.own.most_ns, 200_000);
    assert_eq!((task.suspended_most_ns, task.suspending), (200_000, task.counted));
    assert!(task.jobs.iter().all(|job| job.activations == 2));
}

#[test]
fn a_wait_for_another_thread_inside_a_job_is_no_arrival() {
    let mut world = World::default();
    for job in 0..50 {
        let release = START + job * PERIOD;
        world.job(release, WORK, None);
        let resumed = release + WORK.whole() + 70_000 + job * 100;
        world.wake(resumed, OTHER, THREAD);
        world.rest_of_job(resumed, WORK, Some(release + PERIOD));
    }
    let task = world.task();
    assert_eq!((task.arrivals.kind, task.arrivals.period_ns), (Kind::Programmed, Some(PERIOD)));
    assert_eq!((task.own.most_ns, task.suspending), (200_000, task.counted));
}

#[test]
fn a_switch_that_the_kernel_does_not_tell_changes_nothing_where_calls_are_told() {
    let mut world = World::default();
    for job in 0..50 {
        let woken = START + job * PERIOD;
        world.wake(woken, IDLE, THREAD);
        world.untold_job(woken, WORK, Some(woken + PERIOD));
    }
    let task = world.task();
    assert_eq!((task.own.most_ns, task.counted, task.unseen), (100_000, 48, 48));
}

#[test]
fn jobs_around_a_hole_in_the_trace_are_counted_apart() {
    let mut world = programmed(50, PERIOD, |_| 0);
    world.lose(START + 20 * PERIOD + 50_000);
    // In a wait: the next may have begun unseen.
    world.lose(START + 30 * PERIOD + 500_000);
    let task = world.task();
    assert_eq!((task.holed, task.counted), (2, 46));
    assert_eq!((task.arrivals.period_ns, task.own.most_ns), (Some(PERIOD), 100_000));
}

#[test]
fn what_the_host_took_is_taken_out_and_such_jobs_are_left_out() {
    let mut world = programmed(50, PERIOD, |_| 0);
    let begin = START + 10 * PERIOD + 50_000;
    world.taken = vec![Taken::new(vec![(begin * RATE, (begin + 30_000) * RATE)], 1_000 * RATE)];
    let task = world.task();
    assert_eq!((task.touched, task.counted, task.counts_touched), (1, 47, false));
    assert_eq!((task.taken_most_ns, task.touched_most_ns, task.own.most_ns), (28_000, 72_000, 100_000));
}

#[test]
fn where_the_host_touches_nearly_all_jobs_they_count() {
    let mut world = programmed(50, PERIOD, |_| 0);
    let begins = (0..45).map(|job| START + job * PERIOD + 50_000);
    let stretches = begins.map(|begin| (begin * RATE, (begin + 30_000) * RATE)).collect();
    world.taken = vec![Taken::new(stretches, 1_000 * RATE)];
    let task = world.task();
    assert!(task.counts_touched);
    assert_eq!((task.touched, task.counted), (44, 48));
}

#[test]
fn a_job_that_runs_into_the_next_period_is_not_taken_for_one() {
    let mut world = World::default();
    for job in 0..50_u64 {
        let release = START + job * PERIOD;
        match job {
            20 => world.job(release, Work { own: 1_200_000, ..WORK }, Some(release + 2 * PERIOD)),
            21 => {}
            _ => world.job(release, WORK, Some(release + PERIOD)),
        }
    }
    let task = world.task();
    assert_eq!((task.merged, task.arrivals.missed), (1, 1));
    assert_eq!((task.own.most_ns, task.arrivals.period_ns), (100_000, Some(PERIOD)));
}

#[test]
fn a_program_that_falls_behind_keeps_its_period() {
    let mut world = World::default();
    let mut slot = 0;
    for random in numbers(5).take(300) {
        // It does not wait for what has passed: three jobs of four are part of the one before.
        let jobs = 1 + ns(random * 6.0);
        let release = START + slot * PERIOD;
        world.job(release, Work { own: jobs * 900_000, ..WORK }, Some(release + jobs * PERIOD));
        slot += jobs;
    }
    let task = world.task();
    assert_eq!((task.arrivals.kind, task.arrivals.period_ns), (Kind::Programmed, Some(PERIOD)));
    assert_eq!(task.own.most_ns, 900_000);
    assert!(task.merged > 200 && task.counted > 20, "{} {}", task.merged, task.counted);
}

#[test]
fn a_program_that_sets_its_timers_anew_after_it_was_late_keeps_its_period() {
    let mut world = World::default();
    let mut release = START;
    for job in 0..100_u64 {
        let is_late = job % 25 == 24;
        let work = Work { own: if is_late { 1_234_567 + job } else { 100_000 }, ..WORK };
        let next = if is_late { release + work.whole() + PERIOD } else { release + PERIOD };
        world.job(release, work, Some(next));
        release = next;
    }
    let task = world.task();
    assert_eq!((task.arrivals.kind, task.arrivals.period_ns), (Kind::Programmed, Some(PERIOD)));
    assert_eq!((task.arrivals.restarts, task.merged, task.own.most_ns), (3, 3, 100_000));
}

#[test]
fn relative_sleeps_that_hardly_differ_are_no_grid() {
    let mut world = World::default();
    let mut release = START;
    for random in numbers(3).take(400) {
        let own = 100_000 + ns(random * 400.0);
        let next = release + WORK.dispatch + WORK.way_out + own + PERIOD;
        world.job(release, Work { own, ..WORK }, Some(next));
        release = next;
    }
    assert_eq!(world.task().arrivals.kind, Kind::Sporadic);
}

#[test]
fn bursts_are_sporadic_and_covered() {
    let mut world = World::default();
    for burst in 0..40 {
        for within in 0..3 {
            world.wake(START + burst * 10 * PERIOD + within * 200_000, OTHER, THREAD);
            world.rest_of_job(START + burst * 10 * PERIOD + within * 200_000, WORK, None);
        }
    }
    let task = world.task();
    assert_eq!(task.arrivals.kind, Kind::Sporadic);
    let found = task.arrivals.sporadic.unwrap();
    assert_eq!(found.least_distance_ns, 200_000);
    assert_eq!(found.curve[2].within_ns, 10 * PERIOD);
    assert_eq!(task.own.most_ns, 100_000);
}

/// Wake-ups by another thread at these times.
fn woken_at(times: &[u64]) -> World {
    let mut world = World::default();
    for &time in times {
        world.wake(time, OTHER, THREAD);
        world.rest_of_job(time, Work { own: 10_000, ..WORK }, None);
    }
    world
}

#[test]
fn a_single_arrival_is_too_few() {
    let task = woken_at(&[START]).task();
    assert_eq!((task.arrivals.kind, task.counted), (Kind::TooFew, 0));
}

fn numbers(seed: u64) -> impl Iterator<Item = f64> {
    // An xorshift generator (Marsaglia 2003): the same numbers on every machine.
    let mut state = seed * 2 + 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    })
    .skip(20)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of some seconds")]
fn ns(value: f64) -> u64 {
    value as u64
}

/// The periods of engine and chassis controllers (Kramer, Ziegenbein and Hamann, WATERS 2015), in us.
const AUTOMOTIVE: [u64; 9] = [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000];

#[test]
fn every_automotive_period_is_found_whoever_sets_the_pace() {
    for (period_us, seed) in AUTOMOTIVE.into_iter().zip(1..) {
        let period = period_us * 1000;
        let lateness: Vec<u64> = numbers(seed).take(80).map(|random| ns(random * period as f64 / 10.0)).collect();
        let task = programmed(80, period, |job| lateness[usize::try_from(job).unwrap()]).task();
        assert_eq!((task.arrivals.kind, task.arrivals.period_ns), (Kind::Programmed, Some(period)));
        let times: Vec<u64> = (0..80).zip(&lateness).map(|(job, late)| START + job * period + late).collect();
        let task = woken_at(&times).task();
        assert_eq!(task.arrivals.kind, Kind::Observed, "{period_us} us");
        let off = task.arrivals.period_ns.unwrap().abs_diff(period);
        assert!(off <= task.arrivals.period_error_ns, "{period_us} us is off by {off}");
        assert!(task.arrivals.period_error_ns <= period / 500);
    }
}

/// From a random number to how far apart the next arrival is.
type Distance = fn(f64) -> f64;

/// Arrivals that nobody could call periodic.
fn aperiodic() -> [(&'static str, Distance); 5] {
    [
        ("memoryless", |random| -(1.0 - random).ln()),
        ("uniform", |random| 0.2 + 1.6 * random),
        ("nearly regular, but each from the one before", |random| 0.9 + 0.2 * random),
        ("a relative sleep and a job of varying length", |random| 0.995 + 0.01 * random),
        ("one of two distances", |random| if random < 0.5 { 0.3 } else { 1.7 }),
    ]
}

#[test]
fn aperiodic_arrivals_are_never_called_periodic() {
    for (what, distance) in aperiodic() {
        for seed in 1..=100 {
            for count in [62, 100, 400] {
                let mut time = START as f64;
                let times: Vec<u64> = numbers(seed * 3 + count)
                    .take(usize::try_from(count).unwrap())
                    .map(|random| {
                        time += (distance(random) * PERIOD as f64).max(150_000.0);
                        ns(time)
                    })
                    .collect();
                let kind = woken_at(&times).task().arrivals.kind;
                assert_eq!(kind, Kind::Sporadic, "{what}, {count} arrivals, seed {seed}");
            }
        }
    }
}

#[test]
fn relative_sleeps_are_no_grid_though_a_timer_ends_them() {
    for seed in 1..=50 {
        let mut world = World::default();
        let mut release = START;
        for random in numbers(seed).take(200) {
            let own = 90_000 + ns(random * 20_000.0);
            let next = release + WORK.dispatch + WORK.way_out + own + PERIOD;
            world.job(release, Work { own, ..WORK }, Some(next));
            release = next;
        }
        assert_eq!(world.task().arrivals.kind, Kind::Sporadic, "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever jobs do: what is found is what was put in, job by job.
    #[test]
    fn every_job_is_found_with_its_own_cost(costs in proptest::collection::vec((1_000_u64..600_000, 0_u64..100_000), 8..60)) {
        let mut world = World::default();
        for (&(own, late), release) in costs.iter().zip((0..).map(|job| START + job * PERIOD)) {
            world.job(release + late, Work { own, ..WORK }, Some(release + PERIOD));
        }
        let task = world.task();
        prop_assert_eq!(task.arrivals.period_ns, Some(PERIOD));
        let found: Vec<u64> = task.jobs.iter().map(|job| job.own / RATE).collect();
        let put_in: Vec<u64> = costs[1..costs.len() - 1].iter().map(|&(own, _)| own).collect();
        prop_assert_eq!(found, put_in);
    }
}
