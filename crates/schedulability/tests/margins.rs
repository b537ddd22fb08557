//! Margins are the edge itself: one step further and a deadline is missed.

use proptest::prelude::*;
use stealtime_schedulability::{
    Accounting, Dedicated, Error, Influence, Interrupts, Margin, Overhead, Overheads, Periodic, Policy, Question, Task,
    influences, largest_scale, smallest_budget,
};

use crate::rigs::{small_overheads, small_set};

const JOB: Policy = Policy::FixedPriority(Accounting::Job);

fn question(tasks: &[Task], overheads: Overheads, policy: Policy) -> Question<'_> {
    Question {
        interference: &[],
        tasks,
        levels: &[],
        overheads,
        interrupts: Interrupts::Here,
        policy,
        supply: &Dedicated,
    }
}

/// A thousand units a unit, so that a millionth is less than a unit.
fn large(tasks: &[Task]) -> Vec<Task> {
    let larger = |task: &Task| Task {
        cost_ns: task.cost_ns * 1_000_000,
        period_ns: task.period_ns * 1_000_000,
        deadline_ns: task.deadline_ns * 1_000_000,
        jitter_ns: task.jitter_ns * 1_000_000,
        blocking_ns: 0,
    };
    tasks.iter().map(larger).collect()
}

#[test]
fn a_set_of_half_utilization_and_harmonic_periods_may_double() {
    let tasks = [Task::implicit(1_000_000, 4_000_000), Task::implicit(2_000_000, 8_000_000)];
    for policy in [JOB, Policy::EarliestDeadlineFirst] {
        let found = largest_scale(&question(&tasks, Overheads::default(), policy)).unwrap();
        assert_eq!(found, Margin::Factor(2_000_000));
    }
}

#[test]
fn the_overhead_that_costs_most_is_found() {
    let tasks = [Task::implicit(1_000_000, 10_000_000), Task::implicit(2_000_000, 20_000_000)];
    let overheads =
        Overheads { context_switch_ns: 400_000, scheduling_ns: 1_000, event_latency_ns: 10, ..Overheads::default() };
    let found = influences(&question(&tasks, overheads, JOB)).unwrap();
    for one in &found {
        let without = overheads.with(one.overhead, 0);
        assert_eq!(Ok(one.margin_without), largest_scale(&question(&tasks, without, JOB)));
    }
    let factors = |one: &Influence| if let Margin::Factor(millionths) = one.margin_without { millionths } else { 0 };
    let (largest, others): (Vec<Influence>, Vec<Influence>) =
        found.iter().partition(|one| one.overhead == Overhead::ContextSwitch);
    assert!(others.iter().all(|one| factors(one) < factors(&largest[0])), "{found:?}");
    // Those that are 0 are left out.
    assert_eq!(found.len(), 3);
}

#[test]
fn overheads_alone_can_be_too_much() {
    let tasks = [Task::implicit(1, 10)];
    let overheads = Overheads { event_latency_ns: 10, ..Overheads::default() };
    for policy in [JOB, Policy::EarliestDeadlineFirst] {
        assert_eq!(largest_scale(&question(&tasks, overheads, policy)), Ok(Margin::None));
    }
}

#[test]
fn budgets_of_no_period_are_refused() {
    let tasks = [Task::implicit(1, 10)];
    assert!(matches!(smallest_budget(&question(&tasks, Overheads::default(), JOB), 0), Err(Error::Supply(_))));
}

proptest! {
    #[test]
    fn the_margin_is_the_edge(tasks in small_set(5, 3), overheads in small_overheads(), edf in any::<bool>()) {
        let policy = if edf { Policy::EarliestDeadlineFirst } else { JOB };
        let tasks = large(&tasks);
        let asked = question(&tasks, overheads, policy);
        let Ok(margin) = largest_scale(&asked) else {
            // Interrupts alone can fill a CPU to the brim: not judged with the least costs.
            let least: Vec<Task> = tasks.iter().map(|task| Task { cost_ns: 1, ..*task }).collect();
            let known = Question { tasks: &least, ..asked }.is_schedulable();
            prop_assert!(known.is_err());
            return Ok(());
        };
        let fits = |millionths: u64| {
            let scale = |task: &Task| Task { cost_ns: (task.cost_ns * millionths).div_ceil(1_000_000).max(1), ..*task };
            let tasks: Vec<Task> = tasks.iter().map(scale).collect();
            Question { tasks: &tasks, ..asked }.is_schedulable().unwrap_or(false)
        };
        match margin {
            Margin::Factor(millionths) => {
                prop_assert!(fits(millionths));
                prop_assert!(!fits(millionths + 1));
                prop_assert!(asked.is_schedulable().map_or(true, |yes| yes == (millionths >= 1_000_000)));
            }
            Margin::AtLeast(millionths) => {
                prop_assert!(fits(millionths));
                prop_assert!(!fits(millionths + 1));
            }
            Margin::None => prop_assert!(!fits(0)),
        }
    }

    #[test]
    fn the_smallest_budget_is_the_edge(tasks in small_set(4, 2), period in 1..=12_u64, edf in any::<bool>()) {
        let policy = if edf { Policy::EarliestDeadlineFirst } else { JOB };
        let asked = question(&tasks, Overheads::default(), policy);
        let fits = |budget: u64| {
            let supply = Periodic::new(period, budget).unwrap();
            Question { supply: &supply, ..asked }.is_schedulable()
        };
        let Ok(found) = smallest_budget(&asked, period) else { return Ok(()) };
        match found {
            Some(budget) => {
                prop_assert!(fits(budget).unwrap());
                // With less it is not, or it is not known.
                prop_assert!(budget == 1 || fits(budget - 1) != Ok(true));
            }
            None => prop_assert!(fits(period) != Ok(true)),
        }
    }
}

proptest! {
    // Each takes a margin for each overhead.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_overhead_costs_less_than_nothing(tasks in small_set(4, 2), overheads in small_overheads()) {
        let tasks = large(&tasks);
        let asked = question(&tasks, overheads, JOB);
        let (Ok(margin), Ok(found)) = (largest_scale(&asked), influences(&asked)) else { return Ok(()) };
        let factor = |margin: Margin| match margin {
            Margin::Factor(millionths) | Margin::AtLeast(millionths) => millionths,
            Margin::None => 0,
        };
        for one in found {
            // Of a lower bound it is not known how much more there is.
            prop_assert!(matches!(one.margin_without, Margin::AtLeast(_)) || factor(one.margin_without) >= factor(margin), "{one:?} {margin:?}");
        }
    }
}
