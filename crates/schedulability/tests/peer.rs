//! The same bounds by another implementation: the crate `response-time-analysis` of B. Brandenburg, which follows
//! proofs in Coq.

use proptest::prelude::*;
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::fixed_point::SearchFailure;
use response_time_analysis::supply::{self as peer_supply, SupplyBound};
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;
use response_time_analysis::{edf, fixed_priority};
use stealtime_schedulability::{
    Constrained, Dedicated, Demand, Response, Solver, Supply, Task, Workload, demand_verdict,
};

use crate::rigs::small_set;

/// More than 100,000, below which the peer checks each fixed point by brute force in debug builds.
const LIMIT: u64 = 1_000_000;

fn curves(tasks: &[Task]) -> Vec<RBF<Sporadic, Scalar>> {
    let curve = |task: &Task| {
        let arrivals = Sporadic::new(Duration::from(task.period_ns), Duration::from(task.jitter_ns));
        RBF::new(arrivals, Scalar::new(Service::from(task.cost_ns)))
    };
    tasks.iter().map(curve).collect()
}

proptest! {
    #[test]
    fn fixed_priority_bounds_are_the_peers(tasks in small_set(6, 6)) {
        let curves = curves(&tasks);
        for (index, task) in tasks.iter().enumerate() {
            // The peer's bound counts from the release, ours from the arrival: equal for a task without jitter.
            let mut upto = tasks[..=index].to_vec();
            upto[index].jitter_ns = 0;
            let own = RBF::new(
                Sporadic::new_zero_jitter(Duration::from(task.period_ns)),
                Scalar::new(Service::from(task.cost_ns)),
            );
            let peer = fixed_priority::fully_preemptive::dedicated_uniproc_rta(
                &own, &curves[..index], Duration::from(LIMIT),
            );
            let mut found = Vec::new();
            Solver::default().responses(&Workload::without_overheads(&upto), &Dedicated, &mut found);
            match (peer, &found[index]) {
                (Ok(bound), Response::Bounded(ours)) => prop_assert_eq!(u64::from(bound), *ours),
                (Err(SearchFailure::DivergenceLimitExceeded { .. }), Response::AtLeast(..)) => {}
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn edf_sets_are_accepted_where_the_peer_bounds_every_response(tasks in small_set(5, 0)) {
        let curves = curves(&tasks);
        let each: Vec<_> = curves.iter().zip(&tasks).map(|(rbf, task)| {
            edf::fully_preemptive::Task { rbf, deadline: Duration::from(task.deadline_ns) }
        }).collect();
        let meets = |index: usize| {
            let others: Vec<_> = tasks.iter().zip(&curves).enumerate().filter(|(other, _)| *other != index)
                .map(|(_, (task, rbf))| edf::fully_preemptive::Task { rbf, deadline: Duration::from(task.deadline_ns) })
                .collect();
            edf::fully_preemptive::dedicated_uniproc_rta(&each[index], &others, Duration::from(LIMIT))
                .is_ok_and(|bound| u64::from(bound) <= tasks[index].deadline_ns)
        };
        let peer = (0..tasks.len()).all(meets);
        prop_assert_eq!(demand_verdict(&tasks, &Dedicated).unwrap() == Demand::Met, peer);
    }

    #[test]
    fn reservations_are_the_peers(
        (period, budget, deadline) in (1..=40_u64).prop_flat_map(|period| (Just(period), 1..=period))
            .prop_flat_map(|(period, budget)| (Just(period), Just(budget), budget..=period)),
        time in 0..=400_u64,
    ) {
        let ours = Constrained::new(period, budget, deadline).unwrap();
        let peer =
            peer_supply::Constrained::new(Service::from(budget), Duration::from(deadline), Duration::from(period));
        prop_assert_eq!(ours.service_in(time).unwrap(), u64::from(peer.provided_service(Duration::from(time))));
        prop_assert_eq!(ours.window_for(time).unwrap(), u64::from(peer.service_time(Service::from(time))));
    }
}
