//! Counting schedulable sets: paired, reproducible, and monotone in what makes it harder.

use rand::SeedableRng;
use rand_pcg::Pcg64;
use stealtime_schedulability::generate::{Deadlines, PeriodLaw, UtilizationLaw, fill, utilization};
use stealtime_schedulability::{
    Accounting, Condition, Counted, Dedicated, Interrupts, Overheads, Periodic, Policy, Population, RecipeError,
    Supply, count_schedulable,
};

const SETS: u32 = 200;

fn population(law: &str) -> Population {
    Population {
        law: UtilizationLaw::named(law).unwrap(),
        periods: PeriodLaw::named("moderate").unwrap(),
        deadlines: Deadlines::Implicit,
        sets: SETS,
        seed: 1,
    }
}

fn condition<'a>(overheads: &'a [Overheads], policy: Policy, supply: &'a (dyn Supply + Sync)) -> Condition<'a> {
    Condition { overheads, interrupts: Interrupts::Here, policy, supply }
}

#[test]
fn edf_without_overheads_accepts_every_set_and_a_share_only_what_it_carries() {
    let none = [Overheads::default(); 100];
    let half = Periodic::new(1_000_000, 500_000).unwrap();
    let conditions = [
        condition(&none, Policy::EarliestDeadlineFirst, &Dedicated),
        condition(&none, Policy::EarliestDeadlineFirst, &half),
    ];
    for (point, utilization) in [(0, 0.3), (1, 0.6), (2, 0.95)] {
        let counted = count_schedulable(&population("medium-uniform"), (point, utilization), &conditions).unwrap();
        assert_eq!(counted[0], Counted { schedulable: SETS, not_judged: 0 });
        // 1 ms without service matters little to periods of 10 ms and more, but half is half.
        assert_eq!(counted[1].schedulable, if utilization < 0.5 { SETS } else { 0 }, "{utilization}");
    }
}

#[test]
fn what_makes_it_harder_never_adds_a_set_and_the_same_seed_gives_the_same_count() {
    let policy = Policy::FixedPriority(Accounting::Job);
    let of = |us: u64| [Overheads { scheduling_ns: us * 1_000, release_ns: us * 500, ..Overheads::default() }; 200];
    let (none, some, many) = (of(0), of(100), of(800));
    let most = Periodic::new(10_000_000, 9_000_000).unwrap();
    let conditions = [
        condition(&none, policy, &Dedicated),
        condition(&some, policy, &Dedicated),
        condition(&many, policy, &Dedicated),
        condition(&many, policy, &most),
    ];
    let mut falls = false;
    for (point, utilization) in [(0, 0.4), (1, 0.7), (2, 0.9)] {
        let counted = count_schedulable(&population("light-uniform"), (point, utilization), &conditions).unwrap();
        let schedulable: Vec<u32> = counted.iter().map(|one| one.schedulable).collect();
        assert!(schedulable.is_sorted_by(|easier, harder| easier >= harder), "{utilization}: {schedulable:?}");
        falls |= schedulable[0] > schedulable[3];
        assert_eq!(
            counted,
            count_schedulable(&population("light-uniform"), (point, utilization), &conditions).unwrap()
        );
    }
    assert!(falls);
}

#[test]
fn sets_are_filled_to_their_utilization() {
    for (law, total) in [("light-uniform", 0.05), ("medium-uniform", 0.8), ("heavy-bimodal", 1.0)] {
        for seed in 0..100 {
            let tasks = fill(
                UtilizationLaw::named(law).unwrap(),
                PeriodLaw::named("moderate").unwrap(),
                Deadlines::Implicit,
                total,
                &mut Pcg64::seed_from_u64(seed),
            );
            // A microsecond of at least 10 ms is lost to each task's rounding at most.
            let found = utilization(&tasks);
            assert!(found <= total && found > total - 0.0002 - 0.0001 * tasks.len() as f64, "{law} {total}: {found}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let few = [Overheads::default(); 1];
    let conditions = [condition(&few, Policy::EarliestDeadlineFirst, &Dedicated)];
    for utilization in [0.0, -0.5, 1.5, f64::NAN] {
        let counted = count_schedulable(&population("light-uniform"), (0, utilization), &conditions);
        assert!(matches!(counted, Err(RecipeError::Recipe(_))));
    }
    let counted = count_schedulable(&population("light-uniform"), (0, 0.9), &conditions);
    assert!(matches!(counted, Err(RecipeError::Recipe(text)) if text.contains("too many for the overheads")));
}
