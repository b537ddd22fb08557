//! No bound is ever below a simulated response, and fixed points are those of a search that tries every window.

use proptest::prelude::*;
use stealtime_schedulability::{
    Accounting, Dedicated, Demand, Interrupts, Observed, Overhead, Overheads, Periodic, Response, Solver, Supply, Task,
    Workload, charge_earliest_deadline, charge_fixed_priority, demand_verdict,
};

use crate::rigs::{Machine, Order, small_overheads, small_set, sporadic};

const UNTIL: u64 = 400;
const HORIZON: u64 = 4_000;

/// Whether every busy window ends in the time that is simulated: it is no longer than sum(C) / (1 - U).
fn is_short(tasks: &[Task]) -> bool {
    tasks.iter().map(|task| task.cost_ns as f64 / task.period_ns as f64).sum::<f64>() < 0.97
}

fn solve(workload: &Workload, supply: &dyn Supply) -> Vec<Response> {
    let mut found = Vec::new();
    Solver::default().responses(workload, supply, &mut found);
    found
}

fn charged(tasks: &[Task], overheads: &Overheads, accounting: Accounting) -> Workload {
    charge_fixed_priority(tasks, overheads, Interrupts::Here, accounting).unwrap()
}

/// The bound by its definition, one window after the other: job after job of a busy window.
fn by_definition(workload: &Workload, index: usize, supply: &dyn Supply) -> Option<u64> {
    const LONGEST: u64 = 3_000;
    let task = workload.tasks[index];
    let arrivals = |window: u64, jitter: u64, period: u64| (window + jitter).div_ceil(period);
    let mut longest = 0;
    for job in 1.. {
        let demand = |window: u64| {
            let mut sum = workload.per_window_ns + task.blocking_ns + job * task.cost_ns;
            sum += workload.per_arrival_ns * arrivals(window, task.jitter_ns, task.period_ns);
            for one in &workload.interrupts {
                sum += arrivals(window, one.jitter_ns, one.period_ns) * one.cost_ns;
            }
            for one in &workload.tasks[..index] {
                sum += arrivals(window, one.jitter_ns, one.period_ns) * (one.cost_ns + workload.per_arrival_ns);
            }
            sum
        };
        let window = (1..LONGEST).find(|&window| supply.service_in(window).unwrap() >= demand(window))?;
        longest = longest.max(window + task.jitter_ns - (job - 1) * task.period_ns);
        if window + task.jitter_ns <= job * task.period_ns {
            break;
        }
    }
    Some(longest)
}

#[test]
fn the_search_for_a_window_misses_none_of_all_pairs_of_small_tasks() {
    let each =
        |cost_ns: u64, period_ns: u64, deadline_ns: u64| Task { deadline_ns, ..Task::implicit(cost_ns, period_ns) };
    let mut all = Vec::new();
    for period in 1..=6 {
        for cost in 1..=period.min(3) {
            all.extend((cost..=period + 2).map(|deadline| each(cost, period, deadline)));
        }
    }
    let demand = |task: &Task, window: u64| {
        window.checked_sub(task.deadline_ns).map_or(0, |left| (left / task.period_ns + 1) * task.cost_ns)
    };
    let mut exceeded_later = 0;
    for first in &all {
        for second in &all {
            let excess = |&window: &u64| demand(first, window) + demand(second, window) > window;
            // Ten hyperperiods, after which also a thirtieth too much shows.
            let exceeded = (1..=400).find(excess);
            let verdict = demand_verdict(&[*first, *second], &Dedicated).unwrap();
            assert_eq!(exceeded.is_some(), verdict != Demand::Met, "{first:?} {second:?} {verdict:?}");
            exceeded_later +=
                u32::from(exceeded.is_some_and(|window| window > first.deadline_ns.max(second.deadline_ns)));
        }
    }
    assert!(exceeded_later > 100, "{exceeded_later}");
}

proptest! {
    #[test]
    fn fixed_points_are_those_of_an_exhaustive_search(
        mut tasks in small_set(5, 6),
        overheads in small_overheads(),
        blocking in prop::collection::vec(0..=3_u64, 5),
        stretch in any::<bool>(),
        budget in 1..=7_u64,
    ) {
        for (task, blocking_ns) in tasks.iter_mut().zip(blocking) {
            task.blocking_ns = blocking_ns;
        }
        let accounting = if stretch { Accounting::Stretch } else { Accounting::Job };
        let workload = charged(&tasks, &overheads, accounting);
        let reservation = Periodic::new(7, budget).unwrap();
        for supply in [&Dedicated as &dyn Supply, &reservation] {
            for (index, response) in solve(&workload, supply).into_iter().enumerate() {
                // The exhaustive search tries windows up to a length.
                if let Some(expected) = by_definition(&workload, index, supply) {
                    prop_assert_eq!(response, Response::Bounded(expected), "task {}", index);
                }
            }
        }
    }

    #[test]
    fn the_verdict_is_that_of_the_responses(tasks in small_set(6, 4), overheads in small_overheads()) {
        let workload = charged(&tasks, &overheads, Accounting::Job);
        let responses = solve(&workload, &Dedicated);
        let meets: Vec<Option<bool>> =
            responses.iter().zip(&workload.tasks).map(|(one, task)| one.meets(task.deadline_ns)).collect();
        let expected = if meets.contains(&Some(false)) { Some(false) } else { meets.into_iter().collect::<Option<Vec<_>>>().map(|_| true) };
        prop_assert_eq!(Solver::default().meets_all(&workload, &Dedicated).ok(), expected);
    }

    #[test]
    fn no_simulated_response_exceeds_its_bound(
        tasks in small_set(4, 5),
        overheads in small_overheads(),
        seed in any::<u64>(),
        lazy in 0..=6_u64,
    ) {
        let machine = Machine { order: Order::FixedPriority, overheads, serves: &|_| true };
        let jobs = sporadic(&tasks, overheads.event_latency_ns, UNTIL, seed, lazy);
        let simulated = machine.run(&jobs, tasks.len(), HORIZON);
        for accounting in [Accounting::Job, Accounting::Stretch] {
            let bounds = solve(&charged(&tasks, &overheads, accounting), &Dedicated);
            let all_bounded = bounds.iter().all(|bound| matches!(bound, Response::Bounded(_)));
            prop_assert!(simulated.is_some() || !all_bounded, "jobs are left although all are bounded");
            let Some((longest, _)) = &simulated else { continue };
            for (bound, &seen) in bounds.iter().zip(longest) {
                if let Response::Bounded(bound) = *bound {
                    prop_assert!(seen <= bound, "{accounting:?}: {seen} > {bound}");
                }
            }
        }
    }

    #[test]
    fn without_overheads_and_jitter_the_bound_is_reached(tasks in small_set(5, 0)) {
        prop_assume!(is_short(&tasks));
        let bounds = solve(&Workload::without_overheads(&tasks), &Dedicated);
        let Some(bounds) = bounds.into_iter().map(|one| if let Response::Bounded(ns) = one { Some(ns) } else { None })
            .collect::<Option<Vec<u64>>>() else { return Ok(()) };
        let machine = Machine { order: Order::FixedPriority, overheads: Overheads::default(), serves: &|_| true };
        let jobs = sporadic(&tasks, 0, 3 * UNTIL, 1, 0);
        let (longest, _) = machine.run(&jobs, tasks.len(), 4 * HORIZON).unwrap();
        prop_assert_eq!(longest, bounds);
    }

    #[test]
    fn no_response_under_a_reservation_exceeds_its_bound(
        tasks in small_set(3, 3),
        overheads in small_overheads(),
        (period, budget) in (3..=9_u64).prop_flat_map(|period| (Just(period), 1..=period)),
        late in prop::collection::vec(any::<u64>(), 16),
        seed in any::<u64>(),
    ) {
        let supply = Periodic::new(period, budget).unwrap();
        // Early at first, late in all later periods, or anywhere.
        let begin = |number: u64| match late[0] % 3 {
            0 => 0,
            1 => if number < 2 { 0 } else { period - budget },
            _ => late[(number % 16) as usize] % (period - budget + 1),
        };
        let serves = |now: u64| {
            let (number, within) = (now / period, now % period);
            (begin(number)..begin(number) + budget).contains(&within)
        };
        let machine = Machine { order: Order::FixedPriority, overheads, serves: &serves };
        let jobs = sporadic(&tasks, overheads.event_latency_ns, UNTIL, seed, 2);
        let Some((longest, _)) = machine.run(&jobs, tasks.len(), HORIZON) else { return Ok(()) };
        for (bound, seen) in solve(&charged(&tasks, &overheads, Accounting::Job), &supply).iter().zip(longest) {
            if let Response::Bounded(bound) = *bound {
                prop_assert!(seen <= bound, "{seen} > {bound}");
            }
        }
    }

    #[test]
    fn without_overheads_the_demand_test_is_exact(tasks in small_set(4, 0)) {
        prop_assume!(is_short(&tasks));
        let machine = Machine { order: Order::EarliestDeadline, overheads: Overheads::default(), serves: &|_| true };
        let jobs = sporadic(&tasks, 0, 3 * UNTIL, 1, 0);
        let missed = machine.run(&jobs, tasks.len(), 4 * HORIZON).is_none_or(|(_, missed)| missed);
        match demand_verdict(&tasks, &Dedicated).unwrap() {
            Demand::Met => prop_assert!(!missed),
            Demand::Overloaded => {}
            Demand::Exceeded { window_ns, demand_ns, service_ns } => {
                prop_assert!(missed);
                prop_assert!(demand_ns > service_ns && service_ns == window_ns);
            }
        }
    }

    #[test]
    fn the_search_for_a_window_misses_none(tasks in small_set(4, 6), budget in 1..=7_u64) {
        let reservation = Periodic::new(7, budget).unwrap();
        for supply in [&Dedicated as &dyn Supply, &reservation] {
            let demand = |window: u64| -> u64 {
                let one = |task: &Task| {
                    (window + task.jitter_ns).checked_sub(task.deadline_ns).map_or(0, |left| left / task.period_ns + 1)
                };
                tasks.iter().map(|task| one(task) * task.cost_ns).sum()
            };
            let exceeded = (0..3_000).any(|window| demand(window) > supply.service_in(window).unwrap());
            // A full CPU with jitter has an endless busy period.
            let Ok(verdict) = demand_verdict(&tasks, supply) else { continue };
            match verdict {
                // A busy period that ends before the first excess hides it: no job can be in its way.
                Demand::Met => prop_assert!(!exceeded || !supply.is_dedicated()),
                Demand::Overloaded => {}
                Demand::Exceeded { .. } => prop_assert!(exceeded),
            }
        }
    }

    #[test]
    fn what_the_demand_test_accepts_misses_no_deadline(
        tasks in small_set(4, 4),
        overheads in small_overheads(),
        seed in any::<u64>(),
        lazy in 0..=6_u64,
    ) {
        // Short periods leave no room for overheads of a unit each.
        let longer = |task: &Task| Task { period_ns: 4 * task.period_ns, deadline_ns: 4 * task.deadline_ns, ..*task };
        let tasks: Vec<Task> = tasks.iter().map(longer).collect();
        let charged = charge_earliest_deadline(&tasks, &overheads, Interrupts::Here).unwrap();
        prop_assume!(demand_verdict(&charged, &Dedicated) == Ok(Demand::Met));
        let machine = Machine { order: Order::EarliestDeadline, overheads, serves: &|_| true };
        let jobs = sporadic(&tasks, overheads.event_latency_ns, UNTIL, seed, lazy);
        let (longest, missed) = machine.run(&jobs, tasks.len(), HORIZON).unwrap();
        prop_assert!(!missed, "{longest:?}");
    }

    #[test]
    fn bounds_grow_with_every_overhead(
        tasks in small_set(5, 4),
        overheads in small_overheads(),
        which in 0..Overhead::ALL.len(),
        more in 1..=3_u64,
        elsewhere in any::<bool>(),
        stretch in any::<bool>(),
    ) {
        let overhead = Overhead::ALL[which];
        let larger = overheads.with(overhead, overheads.get(overhead) + more);
        let interrupts = if elsewhere { Interrupts::OnAnotherCpu } else { Interrupts::Here };
        let accounting = if stretch { Accounting::Stretch } else { Accounting::Job };
        let solved = |overheads: &Overheads| {
            solve(&charge_fixed_priority(&tasks, overheads, interrupts, accounting).unwrap(), &Dedicated)
        };
        for (before, after) in solved(&overheads).into_iter().zip(solved(&larger)) {
            match (before, after) {
                (Response::Bounded(before), Response::Bounded(after)) => prop_assert!(after >= before),
                (Response::AtLeast(..), after) => prop_assert!(matches!(after, Response::AtLeast(..))),
                (Response::Bounded(_), Response::AtLeast(..)) => {}
            }
        }
        let accepted = |overheads: &Overheads| {
            let workload = charge_earliest_deadline(&tasks, overheads, interrupts).unwrap();
            demand_verdict(&workload, &Dedicated).map(|verdict| verdict == Demand::Met)
        };
        prop_assert!(accepted(&overheads) != Ok(false) || accepted(&larger) != Ok(true));
    }

    #[test]
    fn what_was_observed_bounds_what_was_observed(
        tasks in small_set(3, 0),
        gaps in prop::collection::vec((1..=9_u64, 1..=3_u64), 1..40),
    ) {
        // A CPU that is away in the gaps; the jobs of one busy window against the bound from the same gaps.
        let mut at = 0;
        let gaps: Vec<(u64, u64)> = gaps.iter().map(|&(before, length)| {
            let start = at + before;
            at = start + length;
            (start, length)
        }).collect();
        let serves = |now: u64| !gaps.iter().any(|&(start, length)| (start..start + length).contains(&now));
        let observed = Observed::new(at + 5, &gaps).unwrap();
        let machine = Machine { order: Order::FixedPriority, overheads: Overheads::default(), serves: &serves };
        let jobs = sporadic(&tasks, 0, at / 2, 1, 3);
        let Some((longest, _)) = machine.run(&jobs, tasks.len(), at + 5) else { return Ok(()) };
        for (bound, seen) in solve(&Workload::without_overheads(&tasks), &observed).iter().zip(longest) {
            if let Response::Bounded(bound) = *bound {
                prop_assert!(seen <= bound, "{seen} > {bound}");
            }
        }
    }
}
