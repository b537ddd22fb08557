//! What stands behind a verdict under EDF: the deciding window and Spuri's responses, against trying everything.

use proptest::prelude::*;
use stealtime_schedulability::{
    BlockedQuestion, BlockingLevel, Dedicated, Demand, Error, Interrupts, Overheads, Policy, Question, Task,
    charge_earliest_deadline, deciding_window, demand_verdict, edf_responses,
};

use crate::rigs::{Job, Machine, Order, small_overheads, small_set, sporadic};

const UNTIL: u64 = 400;
const HORIZON: u64 = 4_000;

fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.cost_ns as f64 / task.period_ns as f64).sum()
}

fn machine(overheads: Overheads) -> Machine<'static> {
    Machine { order: Order::EarliestDeadline, overheads, serves: &|_| true }
}

/// Jobs of a task from a first arrival on, released at once.
fn regular(task: &Task, index: usize, first: u64) -> impl Iterator<Item = Job> {
    let (period, deadline, cost) = (task.period_ns, task.deadline_ns, task.cost_ns);
    (0..).map(move |number| first + number * period).take_while(|&arrival| arrival < UNTIL).map(move |arrival| Job {
        task: index,
        arrival,
        interrupt: arrival,
        deadline: arrival + deadline,
        cost,
    })
}

/// Spuri's own scenario tried out: the last task, which loses every tie, begins anywhere in its period.
fn longest_of_the_last(tasks: &[Task]) -> u64 {
    let last = tasks.len() - 1;
    let of = |first: u64| {
        let others = tasks[..last].iter().enumerate().flat_map(|(index, task)| regular(task, index, 0));
        let jobs: Vec<Job> = others.chain(regular(&tasks[last], last, first)).collect();
        machine(Overheads::default()).run(&jobs, tasks.len(), HORIZON).unwrap().0[last]
    };
    (0..tasks[last].period_ns).map(of).max().unwrap()
}

#[test]
fn what_blocks_for_ages_ends_without_a_bound_and_not_without_memory() {
    let tasks = [Task::implicit(1_000, 1_000_000)];
    let question = Question {
        tasks: &tasks,
        levels: &[],
        overheads: Overheads::default(),
        interference: &[],
        interrupts: Interrupts::Here,
        policy: Policy::EarliestDeadlineFirst,
        supply: &Dedicated,
    };
    let levels = [BlockingLevel { from_ns: 0, blocking_ns: 1 << 57 }];
    let responses = BlockedQuestion { question, levels: &levels }.responses().unwrap();
    assert!(matches!(responses[..], [Err(Error::NotConverged { .. })]), "{responses:?}");
}

#[test]
fn a_response_under_edf_that_no_synchronous_start_shows() {
    // Released with the other the second ends at 5; one later its deadline is that of the other's second job, which
    // may go first, and it ends at 7.
    let tasks = [Task::implicit(2, 4), Task::implicit(3, 7)];
    assert_eq!(longest_of_the_last(&tasks), 6);
    assert_eq!(edf_responses(&tasks, &Dedicated)[1], Ok(6));
}

#[test]
fn an_overload_has_no_deciding_window() {
    let tasks = [Task::implicit(3, 4), Task::implicit(3, 4)];
    let question = Question {
        interference: &[],
        tasks: &tasks,
        levels: &[],
        overheads: Overheads::default(),
        interrupts: Interrupts::Here,
        policy: Policy::EarliestDeadlineFirst,
        supply: &Dedicated,
    };
    let details = question.demand_details(&Demand::Overloaded).unwrap();
    assert_eq!((details.deciding, details.responses), (Ok(None), vec![Err(Error::Overloaded); 2]));
}

proptest! {
    #[test]
    fn without_jitter_the_longest_response_is_reached(tasks in small_set(4, 0)) {
        prop_assume!(utilization(&tasks) < 0.9);
        let bound = *edf_responses(&tasks, &Dedicated).last().unwrap();
        prop_assert_eq!(bound, Ok(longest_of_the_last(&tasks)));
    }

    #[test]
    fn no_simulated_response_exceeds_its_bound(
        tasks in small_set(4, 6),
        seed in any::<u64>(),
        lazy in 0..=6_u64,
    ) {
        prop_assume!(utilization(&tasks) < 0.97);
        let jobs = sporadic(&tasks, 0, UNTIL, seed, lazy);
        let (longest, _) = machine(Overheads::default()).run(&jobs, tasks.len(), HORIZON).unwrap();
        for (bound, seen) in edf_responses(&tasks, &Dedicated).into_iter().zip(longest) {
            prop_assert!(seen <= bound.unwrap(), "{seen} > {bound:?}");
        }
    }

    #[test]
    fn no_simulated_response_with_overheads_exceeds_its_bound(
        tasks in small_set(3, 4),
        overheads in small_overheads(),
        seed in any::<u64>(),
        lazy in 0..=6_u64,
    ) {
        let tasks: Vec<Task> = tasks
            .iter()
            .map(|task| Task { period_ns: 4 * task.period_ns, deadline_ns: 4 * task.deadline_ns, ..*task })
            .collect();
        let question = Question { interference: &[],
            tasks: &tasks,
            levels: &[],
            overheads,
            interrupts: Interrupts::Here,
            policy: Policy::EarliestDeadlineFirst,
            supply: &Dedicated,
        };
        let charged = charge_earliest_deadline(&tasks, &overheads, Interrupts::Here).unwrap();
        prop_assume!(utilization(&charged.tasks) + 0.3 < 0.97);
        let verdict = demand_verdict(&charged, &Dedicated).unwrap();
        let bounds = question.demand_details(&verdict).unwrap().responses;
        let jobs = sporadic(&tasks, overheads.event_latency_ns, UNTIL, seed, lazy);
        let (longest, _) = machine(overheads).run(&jobs, tasks.len(), HORIZON).unwrap();
        for (bound, seen) in bounds.into_iter().zip(longest) {
            prop_assert!(seen <= bound.unwrap(), "{seen} > {bound:?}");
        }
    }

    #[test]
    fn responses_and_the_demand_test_agree(tasks in small_set(4, 6)) {
        prop_assume!(utilization(&tasks) < 0.97);
        let meets = edf_responses(&tasks, &Dedicated).into_iter().zip(&tasks).all(|(bound, task)| bound.unwrap() <= task.deadline_ns);
        prop_assert_eq!(demand_verdict(&tasks, &Dedicated).unwrap() == Demand::Met, meets);
    }

    #[test]
    fn the_deciding_window_is_that_of_an_exhaustive_search(tasks in small_set(4, 6)) {
        prop_assume!(utilization(&tasks) < 0.97);
        let verdict = demand_verdict(&tasks, &Dedicated).unwrap();
        let found = deciding_window(&tasks, &Dedicated, &verdict).unwrap().unwrap();
        let demand = |window: u64| -> u64 {
            let one = |task: &Task| {
                (window + task.jitter_ns).checked_sub(task.deadline_ns).map_or(0, |left| left / task.period_ns + 1)
            };
            tasks.iter().map(|task| one(task) * task.cost_ns).sum()
        };
        prop_assert_eq!((found.demand_ns, found.service_ns), (demand(found.window_ns), found.window_ns));
        let first = (0..3_000).find(|&window| demand(window) > window);
        if verdict == Demand::Met {
            // Only where a deadline is: before the first one the slack is what is left of nothing.
            let least = (0..3_000).filter(|&window| demand(window) > 0).map(|window| window - demand(window)).min();
            prop_assert_eq!(Some(found.service_ns - found.demand_ns), least);
        } else {
            prop_assert_eq!(Some(found.window_ns), first);
        }
    }
}
