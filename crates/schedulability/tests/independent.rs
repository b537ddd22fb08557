//! The independent simulator decides: no set that the analysis accepts misses a deadline in it, no bound is exceeded,
//! and each analysis with one fault is found out.

use proptest::prelude::*;
use stealtime_schedulability::{
    Accounting, BlockedQuestion, BlockingLevel, Demand, Error, Interference, Policy, Question, Response, Solver, Task,
    Verdict, demand_verdict, edf_responses,
};
use stealtime_simulator::{Drawn, Interferer, Pattern, Random, Scale, interferers, play, play_beside};

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
fn no_set_that_is_accepted_with_blocking_under_edf_misses_and_no_bound_is_exceeded() {
    let (mut accepted, mut refused_and_missed) = (0, 0);
    let (mut bounds, mut beyond_those_without) = (0, 0);
    for (case, mut random) in cases(SETS / 2).filter(|(case, _)| case.by_deadline && case.drawn.kernel.blocking > 0) {
        let Drawn { specs, kernel, reservation } = &case.drawn;
        let (tasks, supply) = (case.tasks(), case.supply());
        let question = Question {
            interference: &[],
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
        let responses = BlockedQuestion { question, levels: &levels }.responses().unwrap_or_default();
        let is_bounded = responses.iter().all(Result::is_ok);
        let without = if is_bounded { edf_responses(&case.workload(), &*supply) } else { Vec::new() };
        let mut missed = false;
        for pattern in Pattern::ALL {
            let outcome = play(specs, kernel, *reservation, true, pattern, &mut random);
            missed |= outcome.missed.is_some();
            for ((bound, without), &seen) in responses.iter().zip(&without).zip(&outcome.longest) {
                if let Ok(bound) = *bound {
                    assert!(seen <= bound, "{seen} > {bound}: {pattern:?} {case:#?}");
                    bounds += 1;
                    beyond_those_without += u64::from(without.is_ok_and(|without| seen > without));
                }
            }
        }
        let in_time = |(bound, task): (&Result<u64, Error>, &Task)| bound.is_ok_and(|bound| bound <= task.deadline_ns);
        if is_accepted == Ok(true) && !responses.is_empty() {
            // What blocks beyond the longest busy period does, and is in the bounds, makes nothing late.
            assert!(responses.iter().zip(&tasks).all(in_time), "{responses:?} {case:#?}");
        }
        assert!(is_accepted != Ok(true) || !missed, "{case:#?}");
        accepted += u64::from(is_accepted == Ok(true));
        refused_and_missed += u64::from(is_accepted == Ok(false) && missed && question.is_schedulable() == Ok(true));
    }
    assert!(accepted > SETS / 50 && refused_and_missed > 0, "{accepted} {refused_and_missed}");
    assert!(bounds > SETS && beyond_those_without > 0, "{bounds} {beyond_those_without}");
}

/// What others take, in the questions of both policies, by job and by stretch, with and without blocking.
#[test]
fn no_set_that_is_accepted_beside_interference_misses_and_no_bound_is_exceeded() {
    let (mut accepted, mut bounds, mut beyond_those_without) = ([0, 0], 0, 0);
    for (case, mut random) in cases(SETS / 2) {
        let Drawn { specs, kernel, reservation } = &case.drawn;
        let beside = interferers(&mut random, &case.drawn);
        let one = |one: &Interferer| Interference { cost_ns: one.cost, period_ns: one.period, jitter_ns: one.jitter };
        let interference: Vec<Interference> = beside.iter().map(one).collect();
        let (tasks, levels, supply) = (case.tasks(), case.levels(), case.supply());
        let fixed = Policy::FixedPriority(case.accounting);
        let question = Question {
            tasks: &tasks,
            levels: if case.by_deadline { &[] } else { &levels },
            overheads: case.overheads(),
            interference: &interference,
            interrupts: case.interrupts(),
            policy: if case.by_deadline { Policy::EarliestDeadlineFirst } else { fixed },
            supply: &*supply,
        };
        let alone = Question { interference: &[], ..question };
        // Whatever the deadlines, the blocking of the simulator's background counts in all windows.
        let blocking = [BlockingLevel { from_ns: 0, blocking_ns: kernel.blocking }];
        let answered = |question: Question<'_>| {
            if case.by_deadline {
                let blocked = BlockedQuestion { question, levels: &blocking };
                return (blocked.is_schedulable(), blocked.responses().unwrap_or_default());
            }
            let bounds = match question.answer() {
                Ok(Verdict::Responses(bounds)) => bounds,
                _ => Vec::new(),
            };
            let known = |one: Response| if let Response::Bounded(ns) = one { Ok(ns) } else { Err(Error::Overloaded) };
            (question.is_schedulable(), bounds.into_iter().map(known).collect())
        };
        let (is_accepted, responses) = answered(question);
        let (_, without) = answered(alone);
        for pattern in Pattern::ALL {
            let outcome = play_beside(&beside, specs, kernel, *reservation, (case.by_deadline, pattern), &mut random);
            assert!(is_accepted != Ok(true) || outcome.missed.is_none(), "{pattern:?} {beside:?} {case:#?}");
            for ((bound, without), &seen) in responses.iter().zip(&without).zip(&outcome.longest) {
                if let Ok(bound) = *bound {
                    assert!(seen <= bound, "{seen} > {bound}: {pattern:?} {beside:?} {case:#?}");
                    bounds += 1;
                    beyond_those_without += u64::from(without.is_ok_and(|without| seen > without));
                }
            }
        }
        accepted[usize::from(case.by_deadline)] += u64::from(is_accepted == Ok(true));
    }
    assert!(accepted.iter().all(|&count| count > SETS / 50), "{accepted:?}");
    assert!(bounds > SETS && beyond_those_without > SETS / 50, "{bounds} {beyond_those_without}");
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
