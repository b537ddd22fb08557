//! Generated sets keep to their laws, and to their seeds.

use rand::SeedableRng;
use rand_pcg::Pcg64;
use stealtime_schedulability::generate::{
    Deadlines, Fit, OverUtilized, PeriodLaw, Recipe, UtilizationLaw, Utilizations, generate, partition, rand_fixed_sum,
    utilization, uunifast_discard,
};
use stealtime_schedulability::{RecipeError, Task, exceeds_one};

const MILLISECOND_NS: u64 = 1_000_000;

fn recipe(law: &str, seed: u64) -> Recipe {
    Recipe {
        utilizations: Utilizations::PerTask(UtilizationLaw::named(law).unwrap()),
        periods: PeriodLaw::named("moderate").unwrap(),
        deadlines: Deadlines::Implicit,
        tasks: 10,
        cap: 1.0,
        over_utilized: OverUtilized::Keep,
        seed,
    }
}

#[test]
fn each_law_has_its_mean_and_range() {
    // After the cut at 1 the exponential ones have a lower mean: m - e^(-1/m) / (1 - e^(-1/m)).
    let cut = |mean: f64| mean - (-1.0 / mean).exp() / (1.0 - (-1.0 / mean).exp());
    let expected = [
        ("very-light-uniform", 0.00055, 0.0001, 0.001),
        ("light-uniform", 0.0505, 0.001, 0.1),
        ("medium-uniform", 0.25, 0.1, 0.4),
        ("heavy-uniform", 0.7, 0.5, 0.9),
        ("mixed-uniform", 0.2005, 0.001, 0.4),
        ("light-bimodal", 0.3004, 0.001, 0.9),
        ("medium-bimodal", 0.4003, 0.001, 0.9),
        ("heavy-bimodal", 0.5002, 0.001, 0.9),
        ("light-exponential", cut(0.10), 0.0, 1.0),
        ("medium-exponential", cut(0.25), 0.0, 1.0),
        ("heavy-exponential", cut(0.50), 0.0, 1.0),
    ];
    assert_eq!(expected.map(|(name, ..)| name), UtilizationLaw::NAMED.map(|(name, _)| name));
    for (name, mean, low, high) in expected {
        let law = UtilizationLaw::named(name).unwrap();
        let mut random = Pcg64::seed_from_u64(7);
        let drawn: Vec<f64> = (0..200_000).map(|_| law.draw(&mut random)).collect();
        assert!(drawn.iter().all(|share| (low..=high).contains(share)), "{name}");
        let found = drawn.iter().sum::<f64>() / 200_000.0;
        assert!((found - mean).abs() < 0.01 * mean, "{name}: {found} for {mean}");
    }
}

#[test]
fn the_cut_exponential_means_are_those_of_the_source() {
    let means = [("light-exponential", 0.09995), ("medium-exponential", 0.2313), ("heavy-exponential", 0.3435)];
    for (name, mean) in means {
        let law = UtilizationLaw::named(name).unwrap();
        let mut random = Pcg64::seed_from_u64(1);
        let found = (0..400_000).map(|_| law.draw(&mut random)).sum::<f64>() / 400_000.0;
        assert!((found - mean).abs() < 0.005 * mean, "{name}: {found}");
    }
}

#[test]
fn bimodal_tasks_are_light_as_often_as_the_law_says() {
    for (name, ninths) in [("light-bimodal", 8.0), ("medium-bimodal", 6.0), ("heavy-bimodal", 4.0)] {
        let law = UtilizationLaw::named(name).unwrap();
        let mut random = Pcg64::seed_from_u64(3);
        let light = (0..90_000).filter(|_| law.draw(&mut random) < 0.5).count();
        assert!((light as f64 / 10_000.0 - ninths).abs() < 0.1, "{name}: {light}");
    }
}

#[test]
fn periods_are_whole_milliseconds_from_end_to_end() {
    for (name, low, high) in [
        ("short", 3, 33),
        ("moderate", 10, 100),
        ("long", 50, 250),
        ("log-short", 3, 33),
        ("log-moderate", 10, 100),
        ("log-long", 50, 250),
    ] {
        let law = PeriodLaw::named(name).unwrap();
        let mut random = Pcg64::seed_from_u64(5);
        let drawn: std::collections::BTreeSet<u64> = (0..100_000).map(|_| law.draw(&mut random)).collect();
        let all: std::collections::BTreeSet<u64> = (low..=high).map(|ms| ms * MILLISECOND_NS).collect();
        assert_eq!(drawn, all, "{name}");
    }
    let mut random = Pcg64::seed_from_u64(5);
    let harmonic = PeriodLaw::named("harmonic").unwrap();
    assert!((0..1_000).all(|_| [25, 50, 100, 200].map(|ms| ms * MILLISECOND_NS).contains(&harmonic.draw(&mut random))));
}

#[test]
fn a_log_uniform_law_draws_as_much_below_as_above_the_geometric_mean() {
    let law = PeriodLaw::named("log-moderate").unwrap();
    let mut random = Pcg64::seed_from_u64(11);
    // Halfway between ln 10 and ln 101.
    let middle = (10.0_f64 * 101.0).sqrt();
    let below = (0..100_000).filter(|_| (law.draw(&mut random) as f64) < middle.floor() * 1e6).count();
    let expected = (middle.floor().ln() - 10.0_f64.ln()) / (101.0_f64.ln() - 10.0_f64.ln());
    assert!((below as f64 / 100_000.0 - expected).abs() < 0.01, "{below} {expected}");
}

#[test]
fn a_seed_gives_one_set_and_another_seed_another() {
    let one = generate(&recipe("light-uniform", 1)).unwrap();
    assert_eq!(one, generate(&recipe("light-uniform", 1)).unwrap());
    assert_ne!(one.tasks, generate(&recipe("light-uniform", 2)).unwrap().tasks);
    // Stored sets must stay reproducible: this changes only with a note in the changelog.
    assert_eq!((one.tasks[0].cost_ns, one.tasks[0].period_ns), (FIRST_COST_NS, FIRST_PERIOD_NS));
}

const FIRST_COST_NS: u64 = 233_000;
const FIRST_PERIOD_NS: u64 = 86_000_000;

#[test]
fn costs_and_deadlines_are_whole_microseconds_and_within_their_laws() {
    for seed in 0..200 {
        for deadlines in [Deadlines::Implicit, Deadlines::Constrained, Deadlines::Arbitrary] {
            let set = generate(&Recipe { deadlines, ..recipe("heavy-exponential", seed) }).unwrap();
            for task in set.tasks {
                assert!(task.cost_ns >= 1_000 && task.cost_ns % 1_000 == 0 && task.deadline_ns % 1_000 == 0);
                assert!(task.cost_ns <= task.deadline_ns && task.cost_ns <= task.period_ns);
                let most = match deadlines {
                    Deadlines::Implicit | Deadlines::Constrained => task.period_ns,
                    Deadlines::Arbitrary => 2 * task.period_ns,
                };
                assert!(task.deadline_ns <= most);
                assert!(deadlines != Deadlines::Implicit || task.deadline_ns == task.period_ns);
            }
        }
    }
}

#[test]
fn each_rule_does_with_an_over_utilized_set_what_it_says() {
    // Ten tasks of 0.25 on the average: nearly every set is over-utilized.
    let mut over = 0;
    for seed in 0..50 {
        let of = |over_utilized: OverUtilized| generate(&Recipe { over_utilized, ..recipe("medium-uniform", seed) });
        let kept = of(OverUtilized::Keep).unwrap();
        if kept.drawn_utilization <= 1.0 {
            continue;
        }
        over += 1;
        assert!(utilization(&kept.tasks) > 1.0);
        let scaled = of(OverUtilized::Scale).unwrap();
        assert_eq!((scaled.tasks.len(), scaled.drawn_utilization), (10, kept.drawn_utilization));
        let scaled = utilization(&scaled.tasks);
        assert!((0.999..=1.0).contains(&scaled), "{scaled}");
        let shed = of(OverUtilized::Shed).unwrap().tasks;
        assert_eq!(shed[..], kept.tasks[..shed.len()]);
        assert!(utilization(&shed) <= 1.0 && utilization(&kept.tasks[..=shed.len()]) > 1.0);
        let redrawn = of(OverUtilized::Redraw { attempts: 3 });
        assert!(matches!(redrawn, Err(RecipeError::OverUtilized { attempts: 3, .. })), "{redrawn:?}");
    }
    assert!(over > 40);
    let some = (0..50).filter_map(|seed| {
        generate(&Recipe {
            over_utilized: OverUtilized::Redraw { attempts: 1_000 },
            tasks: 4,
            ..recipe("medium-uniform", seed)
        })
        .ok()
    });
    let some: Vec<_> = some.collect();
    assert!(some.len() == 50 && some.iter().all(|set| utilization(&set.tasks) <= 1.0));
    assert!(some.iter().any(|set| set.attempts > 1));
}

#[test]
fn fixed_totals_are_kept() {
    for (count, total) in [(1, 0.5), (2, 1.5), (5, 0.9), (8, 3.25), (20, 19.5), (50, 1.0), (3, 3.0), (4, 2.0)] {
        let mut random = Pcg64::seed_from_u64(9);
        for _ in 0..200 {
            let shares = rand_fixed_sum(count, total, &mut random).unwrap();
            assert_eq!(shares.len(), count);
            assert!((shares.iter().sum::<f64>() - total).abs() < 1e-9, "{count} {total} {shares:?}");
            assert!(shares.iter().all(|share| (-1e-12..=1.0 + 1e-9).contains(share)), "{count} {total} {shares:?}");
        }
    }
    let mut random = Pcg64::seed_from_u64(9);
    for _ in 0..200 {
        let shares = uunifast_discard(6, 2.5, &mut random).unwrap();
        assert!((shares.iter().sum::<f64>() - 2.5).abs() < 1e-9 && shares.iter().all(|&share| share <= 1.0));
    }
    // Nearly no vector is left.
    assert!(
        matches!(uunifast_discard(20, 18.0, &mut random), Err(RecipeError::Recipe(text)) if text.contains("randfixedsum"))
    );
    for wrong in [0.0, -1.0, 6.5, f64::NAN, f64::INFINITY] {
        assert!(rand_fixed_sum(6, wrong, &mut random).is_err() && uunifast_discard(6, wrong, &mut random).is_err());
    }
}

#[test]
fn both_fixed_total_methods_have_one_distribution() {
    // Two independent constructions of the uniform law on the same polytope; largest distance of the
    // distribution functions of the first utilization, Kolmogorov and Smirnov at 0.1 %.
    const DRAWS: usize = 20_000;
    for (count, total) in [(2, 0.7), (3, 1.5), (5, 1.2), (6, 2.5)] {
        let mut random = Pcg64::seed_from_u64(13);
        let mut stafford: Vec<f64> =
            (0..DRAWS).map(|_| rand_fixed_sum(count, total, &mut random).unwrap()[0]).collect();
        let mut discard: Vec<f64> =
            (0..DRAWS).map(|_| uunifast_discard(count, total, &mut random).unwrap()[0]).collect();
        stafford.sort_by(f64::total_cmp);
        discard.sort_by(f64::total_cmp);
        let at = |sorted: &[f64], value: f64| sorted.partition_point(|&one| one <= value) as f64 / DRAWS as f64;
        let distance =
            stafford.iter().map(|&value| (at(&stafford, value) - at(&discard, value)).abs()).fold(0.0, f64::max);
        assert!(distance < 1.95 * (2.0 / DRAWS as f64).sqrt(), "{count} {total}: {distance}");
    }
}

#[test]
fn tasks_are_packed_as_the_heuristic_says() {
    let tasks = [6, 5, 4, 3, 2].map(|cost| Task::implicit(cost, 10));
    assert_eq!(partition(&tasks, 3, Fit::First).unwrap(), [0, 1, 0, 1, 1]);
    assert_eq!(partition(&tasks, 3, Fit::Best).unwrap(), [0, 1, 0, 1, 1]);
    assert_eq!(partition(&tasks, 3, Fit::Worst).unwrap(), [0, 1, 2, 2, 1]);
    let best = [5, 7, 3, 2].map(|cost| Task::implicit(cost, 10));
    assert_eq!(partition(&best, 2, Fit::First).unwrap(), [1, 0, 0, 1]);
    assert!(partition(&tasks, 1, Fit::Worst).is_err());
    for fit in [Fit::First, Fit::Best, Fit::Worst] {
        for seed in 0..50 {
            let set = generate(&recipe("medium-uniform", seed)).unwrap().tasks;
            let cpus = partition(&set, 4, fit).unwrap();
            for cpu in 0..4 {
                let on: Vec<(u64, u64)> = set
                    .iter()
                    .zip(&cpus)
                    .filter(|(_, at)| **at == cpu)
                    .map(|(task, _)| (task.cost_ns, task.period_ns))
                    .collect();
                assert!(!exceeds_one(&on));
            }
        }
    }
}
