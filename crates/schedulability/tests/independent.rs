//! The independent simulator decides: no set that the analysis accepts misses a deadline in it, no bound is exceeded,
//! and each analysis with one fault is found out.

use proptest::prelude::*;
use stealtime_schedulability::{
    Accounting, BlockedQuestion, BlockingLevel, Demand, Error, Policy, Question, Response, Solver, demand_verdict,
    edf_responses,
};
use stealtime_simulator::{Drawn, Pattern, Random, Scale, play};

use crate::rigs::judging::{Case, Fault};

/// As many sets as a ring has time for; `benchmarks/schedulability_simulation.py` judges 100,000 and more.
const SETS: u64 = 5_000;

/// Each seed with its set, once under fixed priorities and once under EDF.
fn cases(sets: u64) -> impl Iterator<Item = (Case, Random)> {
    (0..sets).flat_map(|seed| {
        let mut random = Random::new(seed);
        let case = Case::draw(&mut random, Scale::ALL[(seed % 4) as usize]);
        [false, true].map(|by_deadline| (Case { by_deadline, ..case.clone() }, random.clone()))
    })
}

#[test]
fn no_accepted_set_misses_and_no_bound_is_exceeded() {
    let mut accepted = [0_u64; 2];
    for (case, mut random) in cases(SETS) {
        let ruling = case.analyse();
        let shown = case.show(&ruling, &mut random);
        accepted[usize::from(case.by_deadline)] += u64::from(ruling.accepted == Some(true));
        assert!(shown.contradictions.is_empty(), "{:#?}\n{case:#?}\n{ruling:#?}", shown.contradictions);
    }
    // Neither all nor none, or little was judged.
    assert!(accepted.iter().all(|count| (SETS / 5..SETS * 4 / 5).contains(count)), "{accepted:?}");
}

#[test]
fn no_set_that_is_accepted_with_blocking_under_edf_misses() {
    let (mut accepted, mut refused_and_missed) = (0, 0);
    for (case, mut random) in cases(SETS / 2).filter(|(case, _)| case.by_deadline && case.drawn.kernel.blocking > 0) {
        let Drawn { specs, kernel, reservation } = &case.drawn;
        let (tasks, supply) = (case.tasks(), case.supply());
        let question = Question {
            tasks: &tasks,
            levels: &[],
            overheads: case.overheads(),
            interrupts: case.interrupts(),
            policy: Policy::EarliestDeadlineFirst,
            supply: &*supply,
        };
        let late = kernel.latency + if kernel.elsewhere { kernel.release + kernel.request } else { 0 };
        let begins = specs.iter().map(|one| one.deadline.saturating_sub(one.jitter + late));
        let levels = [BlockingLevel { from_ns: begins.min().unwrap_or(0), blocking_ns: kernel.blocking }];
        let is_accepted = BlockedQuestion { question, levels: &levels }.is_schedulable();
        let mut missed = false;
        for pattern in Pattern::ALL {
            missed |= play(specs, kernel, *reservation, true, pattern, &mut random).missed.is_some();
        }
        assert!(is_accepted != Ok(true) || !missed, "{case:#?}");
        accepted += u64::from(is_accepted == Ok(true));
        refused_and_missed += u64::from(is_accepted == Ok(false) && missed && question.is_schedulable() == Ok(true));
    }
    assert!(accepted > SETS / 50 && refused_and_missed > 0, "{accepted} {refused_and_missed}");
}

#[test]
fn an_analysis_with_a_fault_is_found_out() {
    for fault in Fault::ALL {
        let contradicted = |(case, mut random): (Case, Random)| {
            let ruling = case.analyse_with(fault);
            !case.show(&ruling, &mut random).contradictions.is_empty()
        };
        assert!(cases(SETS / 5).any(contradicted), "{fault:?} contradicts nothing that is simulated");
    }
}

#[test]
fn interrupts_as_demand_accept_what_a_slow_down_refuses() {
    let accepted = |analyse: &dyn Fn(&Case) -> Option<bool>| {
        let cases = (0..100).map(|seed| Case::ordinary(&mut Random::new(seed), 95));
        cases.filter(|case| analyse(case) == Some(true)).count()
    };
    assert_eq!(accepted(&|case| case.analyse().accepted), 100);
    let slowed = accepted(&|case| case.analyse_with(Fault::SlowedDown).accepted);
    assert!(slowed < 20, "{slowed}");
}

proptest! {
    #[test]
    fn for_one_task_both_policies_agree(seed in any::<u64>(), scale in prop::sample::select(&Scale::ALL[..])) {
        let mut random = Random::new(seed);
        let mut case = Case::draw(&mut random, scale);
        case.drawn.specs.truncate(1);
        case.drawn.kernel.blocking = 0;
        case.accounting = Accounting::Job;
        let (workload, supply) = (case.workload(), case.supply());
        let mut fixed = Vec::new();
        Solver::default().responses(&workload, &*supply, &mut fixed);
        let verdict = demand_verdict(&workload, &*supply);
        match fixed[0] {
            Response::Bounded(bound) => {
                prop_assert_eq!(edf_responses(&workload, &*supply), vec![Ok(bound)]);
                prop_assert_eq!(verdict == Ok(Demand::Met), bound <= workload.tasks[0].deadline_ns);
            }
            Response::AtLeast(_, Error::Overloaded) => prop_assert_eq!(verdict, Ok(Demand::Overloaded)),
            Response::AtLeast(..) => {}
        }
    }
}
