//! Windows of a table, blocking under EDF and the room of single tasks, each against every case that there is.

use proptest::prelude::*;
use stealtime_schedulability::{
    Accounting, BlockedQuestion, BlockingLevel, Dedicated, Interrupts, Overheads, Policy, Question, Supply, Task,
    Windows, sensitivity,
};

use crate::rigs::{small_overheads, small_set};

fn windows() -> impl Strategy<Value = (u64, Vec<(u64, u64)>)> {
    prop::collection::vec((0..=4_u64, 1..=4_u64), 1..=5).prop_flat_map(|pieces| {
        let mut at = 0;
        let table: Vec<(u64, u64)> = pieces
            .into_iter()
            .map(|(gap, length)| {
                let begin = at + gap;
                at = begin + length;
                (begin, length)
            })
            .collect();
        (0..=5_u64).prop_map(move |rest| (at + rest, table.clone()))
    })
}

fn question_of(tasks: &[Task], overheads: Overheads, policy: Policy) -> Question<'_> {
    Question {
        tasks,
        levels: &[],
        overheads,
        interference: &[],
        interrupts: Interrupts::Here,
        policy,
        supply: &Dedicated,
    }
}

proptest! {
    #[test]
    fn the_bound_of_a_table_is_its_least_service_at_any_phase((frame, table) in windows()) {
        let supply = Windows::new(frame, &table).unwrap();
        let serves = |at: u64| table.iter().any(|&(begin, length)| (begin..begin + length).contains(&(at % frame)));
        let least = |window: u64| {
            (0..frame).map(|phase| (phase..phase + window).filter(|&at| serves(at)).count() as u64).min().unwrap()
        };
        for window in 0..3 * frame + 2 {
            prop_assert_eq!(supply.service_in(window).unwrap(), least(window), "window {}", window);
        }
        for service in 1..=2 * supply.service_in(3 * frame).unwrap() / 3 {
            let shortest = (0..=4 * frame).find(|&window| least(window) >= service).unwrap();
            prop_assert_eq!(supply.window_for(service).unwrap(), shortest, "service {}", service);
        }
    }

    #[test]
    fn a_task_may_become_what_its_room_says_and_no_more(tasks in small_set(3, 2), index in 0..3_usize, edf in any::<bool>()) {
        let index = index % tasks.len();
        let policy = if edf { Policy::EarliestDeadlineFirst } else { Policy::FixedPriority(Accounting::Job) };
        let overheads = Overheads::default();
        let fits = |changed: Task| {
            let mut tasks = tasks.clone();
            tasks[index] = changed;
            question_of(&tasks, overheads, policy).is_schedulable()
        };
        let question = question_of(&tasks, overheads, policy);
        let Ok(room) = sensitivity(&BlockedQuestion { question, levels: &[] }, index) else { return Ok(()) };
        let own = tasks[index];
        let with_cost = |cost_ns: u64| fits(Task { cost_ns, ..own });
        match room.longest_cost_ns {
            Some(longest) => {
                prop_assert_eq!(with_cost(longest), Ok(true));
                prop_assert!(longest == own.period_ns || with_cost(longest + 1) != Ok(true));
            }
            None => prop_assert!(with_cost(1) != Ok(true)),
        }
        let with_period = |period_ns: u64| Task {
            period_ns, deadline_ns: if own.deadline_ns == own.period_ns { period_ns } else { own.deadline_ns }, ..own
        };
        match room.shortest_period_ns {
            Some(shortest) => {
                prop_assert_eq!(fits(with_period(shortest)), Ok(true));
                prop_assert!(shortest == own.cost_ns || fits(with_period(shortest - 1)) != Ok(true));
            }
            None => prop_assert!(fits(with_period(1_000_000)) != Ok(true)),
        }
    }
}

proptest! {
    // A window with one interrupt more decides seldom.
    #![proptest_config(ProptestConfig::with_cases(8_000))]

    #[test]
    fn blocking_is_looked_for_in_every_window_of_its_levels(
        tasks in small_set(4, 3),
        overheads in small_overheads(),
        lengths in prop::collection::vec((1..=30_u64, 0..=6_u64), 1..4),
    ) {
        let mut from_ns = 0;
        let mut levels = Vec::new();
        for &(length, blocking_ns) in &lengths {
            levels.push(BlockingLevel { from_ns, blocking_ns });
            from_ns += length;
        }
        levels.push(BlockingLevel { from_ns, blocking_ns: 0 });
        let question = Question { interference: &[],
            tasks: &tasks, levels: &[], overheads, interrupts: Interrupts::Here, policy: Policy::EarliestDeadlineFirst,
            supply: &Dedicated,
        };
        let late = |task: &Task| task.jitter_ns + overheads.event_latency_ns;
        let per_job = 2 * (overheads.scheduling_ns + overheads.context_switch_ns) + overheads.cache_preemption_ns;
        let demand = |window: u64| {
            let jobs: u64 = tasks.iter().map(|task| {
                (window + late(task)).checked_sub(task.deadline_ns).map_or(0, |left| left / task.period_ns + 1)
                    * (task.cost_ns + per_job)
            }).sum();
            let releases: u64 = tasks.iter().map(|task| (window + late(task)).div_ceil(task.period_ns)).sum();
            jobs + releases * overheads.release_ns
                + (window + overheads.event_latency_ns).div_ceil(overheads.tick_period_ns) * overheads.tick_ns
        };
        let due = tasks.iter().map(|task| task.deadline_ns.saturating_sub(late(task))).min().unwrap();
        let blocked = |window: u64| levels.iter().rev().find(|level| level.from_ns <= window).unwrap().blocking_ns;
        let first = (due..from_ns).find(|&window| blocked(window) > 0 && demand(window) + blocked(window) > window);
        let found = BlockedQuestion { question, levels: &levels }.exceeded().unwrap();
        prop_assert_eq!(found.map(|one| one.window_ns), first);
    }
}

#[test]
fn a_table_that_cannot_be_is_refused() {
    for (frame, table) in [
        (10, vec![]),
        (10, vec![(0, 0)]),
        (10, vec![(8, 3)]),
        (10, vec![(0, 4), (3, 2)]),
        (10, vec![(5, 2), (0, 2)]),
        (1 << 60, vec![(0, 1)]),
    ] {
        assert!(Windows::new(frame, &table).is_err(), "{frame} {table:?}");
    }
}
