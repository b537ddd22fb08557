//! Supply bound functions against their definitions, and against their inverses.

use proptest::prelude::*;
use stealtime_schedulability::{Constrained, Dedicated, Error, LONGEST_NS, Linear, Observed, Periodic, Supply};

/// The shortest window with that service, by trying.
fn by_trying(supply: &dyn Supply, service: u64, most: u64) -> Option<u64> {
    (0..=most).find(|&window| supply.service_in(window).is_ok_and(|found| found >= service))
}

#[test]
fn every_small_reservation_and_its_inverse_agree() {
    for period in 1..=12 {
        for budget in 1..=period {
            for deadline in budget..=period {
                let supply = Constrained::new(period, budget, deadline).unwrap();
                for service in 0..=3 * budget {
                    assert_eq!(Some(supply.window_for(service).unwrap()), by_trying(&supply, service, 6 * period));
                }
            }
        }
    }
}

#[test]
fn a_reservation_supplies_what_its_worst_schedule_does() {
    // One budget as early as it may be, all later ones as late; the window begins when the first is used up.
    for period in 1..=12 {
        for budget in 1..=period {
            for deadline in budget..=period {
                let supply = Constrained::new(period, budget, deadline).unwrap();
                let serves = |now: u64| (deadline - budget..deadline).contains(&(now % period)) && now >= period;
                for window in 0..5 * period {
                    let service = (budget..budget + window).filter(|&now| serves(now)).count() as u64;
                    assert_eq!(supply.service_in(window).unwrap(), service, "{period} {budget} {deadline} {window}");
                }
            }
        }
    }
}

#[test]
fn the_linear_bound_of_a_periodic_resource_is_below_it() {
    for period in 1..=12 {
        for budget in 1..=period {
            let supply = Periodic::new(period, budget).unwrap();
            let linear = Linear::new(budget, period, 2 * (period - budget)).unwrap();
            for window in 0..6 * period {
                assert!(linear.service_in(window).unwrap() <= supply.service_in(window).unwrap());
            }
        }
    }
}

#[test]
fn a_whole_budget_is_a_dedicated_cpu() {
    let supply = Periodic::new(7, 7).unwrap();
    for time in 0..50 {
        assert_eq!(supply.service_in(time), Dedicated.service_in(time));
        assert_eq!(supply.window_for(time), Dedicated.window_for(time));
    }
}

#[test]
fn gaps_that_cannot_be_are_refused() {
    for wrong in [&[(5, 0)][..], &[(5, 3), (7, 1)], &[(8, 3)], &[(6, 1), (2, 1)], &[(0, 10)]] {
        assert!(matches!(Observed::new(10, wrong), Err(Error::Supply(_))), "{wrong:?}");
    }
    assert!(matches!(Observed::new(u64::MAX, &[(1, 1)]), Err(Error::Supply(_))));
    assert!(Observed::new(LONGEST_NS, &[(1, LONGEST_NS - 2)]).is_ok());
}

#[test]
fn nothing_is_said_of_longer_windows_than_were_observed() {
    let supply = Observed::new(10, &[(4, 2)]).unwrap();
    assert_eq!(supply.window_for(8), Ok(10));
    assert!(matches!(supply.window_for(9), Err(Error::NotObserved { observed_ns: 10, service_ns: 9 })));
    assert!(matches!(supply.service_in(11), Err(Error::NotObserved { .. })));
}

fn gaps() -> impl Strategy<Value = (u64, Vec<(u64, u64)>)> {
    (prop::collection::vec((0..=6_u64, 1..=5_u64), 0..8), 1..=8_u64).prop_map(|(pairs, rest)| {
        let mut at = 0;
        let mut gaps: Vec<(u64, u64)> = Vec::new();
        for (before, length) in pairs {
            gaps.push((at + before, length));
            at += before + length;
        }
        (at + rest, gaps)
    })
}

proptest! {
    #[test]
    fn an_observed_supply_is_the_least_of_all_windows((observed, gaps) in gaps()) {
        let supply = Observed::new(observed, &gaps).unwrap();
        let serves = |now: u64| !gaps.iter().any(|&(start, length)| (start..start + length).contains(&now));
        let least = |window: u64| {
            (0..=observed - window).map(|from| {
                (from..from + window).filter(|&now| serves(now)).count() as u64
            }).min().unwrap()
        };
        for window in 0..=observed {
            prop_assert_eq!(supply.service_in(window).unwrap(), least(window), "window {}", window);
        }
        for service in 0..=observed {
            let expected = (0..=observed).find(|&window| least(window) >= service);
            prop_assert_eq!(supply.window_for(service).ok(), expected, "service {}", service);
        }
    }

    #[test]
    fn inverses_agree(service in 1..=1_000_000_u64, window in 0..=1_000_000_u64, share in 1..=1_000_u64, delay in 0..=5_000_u64) {
        let supplies: [&dyn Supply; 3] = [
            &Linear::new(share, 1_000, delay).unwrap(),
            &Constrained::new(1_000, share, (share + delay).min(1_000)).unwrap(),
            &Dedicated,
        ];
        for supply in supplies {
            let found = supply.window_for(service).unwrap();
            prop_assert!(supply.service_in(found).unwrap() >= service);
            prop_assert!(supply.service_in(found - 1).unwrap() < service);
            prop_assert!(supply.window_for(supply.service_in(window).unwrap()).unwrap() <= window);
        }
    }
}
