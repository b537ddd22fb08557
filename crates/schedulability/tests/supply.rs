//! Supply bound functions against their definitions, and against their inverses.

use proptest::prelude::*;
use stealtime_schedulability::{
    Combined, Constrained, Dedicated, Envelope, Error, LONGEST_NS, Linear, Observed, Part, Periodic, Supply,
};

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

/// The least service of any window of that length in any observation that is as long, by trying.
fn least_of_all(observations: &[(u64, Vec<(u64, u64)>)], window: u64) -> Option<u64> {
    let in_one = |(observed, gaps): &(u64, Vec<(u64, u64)>)| {
        let serves = |now: u64| !gaps.iter().any(|&(start, length)| (start..start + length).contains(&now));
        let starts = 0..=observed.checked_sub(window)?;
        starts.map(|from| (from..from + window).filter(|&now| serves(now)).count() as u64).min()
    };
    observations.iter().filter_map(in_one).min()
}

#[test]
fn the_longest_gap_of_any_observation_counts_whichever_got_least() {
    // The first got less service, the second waited longer.
    let often = Observed::new(1_000, &(0..100).map(|one| (10 * one, 5)).collect::<Vec<_>>()).unwrap();
    let once = Observed::new(1_000, &[(500, 50)]).unwrap();
    let both = Envelope::over(&[often.clone(), once], 1_000).unwrap();
    assert_eq!((often.window_for(1), both.window_for(1)), (Ok(6), Ok(51)));
    assert_eq!(both.service_in(1_000), Ok(500));
    assert!(!both.carries(&[(501, 1_000)]) && both.carries(&[(500, 1_000)]));
}

#[test]
fn a_hundred_thousand_gaps_are_a_few_thousand_points() {
    let gaps: Vec<(u64, u64)> =
        (0..100_000).map(|one| (one * 100_000 + one % 977, 2_000 + (one * one) % 3_000)).collect();
    let observed = Observed::new(10_000_000_000, &gaps).unwrap();
    let envelope = Envelope::over(std::slice::from_ref(&observed), 4_000).unwrap();
    assert!(envelope.points().len() < 1_000, "{}", envelope.points().len());
    for step in 1..200_u64 {
        let window = 37_000 * step * step;
        let (least, claimed) = (observed.service_in(window).unwrap(), envelope.service_in(window).unwrap());
        assert!(claimed <= least && least - claimed <= window / 1_000, "{window}: {claimed} of {least}");
    }
}

#[test]
fn points_that_no_supply_has_are_refused() {
    for wrong in
        [&[][..], &[(0, 1)], &[(0, 0), (5, 6)], &[(0, 0), (5, 4), (9, 3)], &[(0, 0), (5, 1), (5, 1)], &[(0, 0), (9, 0)]]
    {
        assert!(matches!(Envelope::from_points(wrong.to_vec(), vec![(1, 2)]), Err(Error::Supply(_))), "{wrong:?}");
    }
    assert!(matches!(Envelope::from_points(vec![(0, 0), (2, 1)], vec![(3, 2)]), Err(Error::Supply(_))));
    assert!(matches!(Envelope::over(&[], 100), Err(Error::Supply(_))));
}

#[test]
fn two_that_take_time_leave_a_share_each_only_where_both_do() {
    let part = |period, budget, deadline| Part {
        supply: Box::new(Constrained::new(period, budget, deadline).unwrap()),
        missing: (period - budget, period),
    };
    // 6 of 10, and of each 100 the last 5 not: at worst 8 and 5 are missing before anything is served.
    let both = Combined::new(vec![part(10, 6, 10), part(100, 95, 95)]);
    assert_eq!(both.window_for(1), Ok(14));
    assert!(both.carries(&[(55, 100)]) && !both.carries(&[(551, 1000)]));
    let one = Combined::new(vec![part(10, 6, 10)]);
    for time in 0..100 {
        assert_eq!(one.service_in(time), Constrained::new(10, 6, 10).unwrap().service_in(time));
        assert_eq!(one.window_for(time), Constrained::new(10, 6, 10).unwrap().window_for(time));
    }
    let nothing_left = Combined::new(vec![part(10, 5, 10), part(10, 5, 10)]);
    assert!(nothing_left.window_for(1).is_err());
    assert_eq!(nothing_left.service_in(1000), Ok(0));
}

proptest! {
    #[test]
    fn no_two_that_take_time_take_more_than_a_combined_supply_lets_them(
        (observed, gaps) in gaps(), others in prop::collection::vec(any::<bool>(), 64),
    ) {
        // Another taker of the same time line: what neither takes is served.
        let taken = |now: u64| others[usize::try_from(now).unwrap() % others.len()] && now.is_multiple_of(3);
        let singles: Vec<(u64, u64)> = (0..observed).filter(|&now| taken(now)).map(|now| (now, 1)).collect();
        let supplies = [gaps.clone(), singles].map(|gaps| Observed::new(observed, &gaps));
        let [Ok(first), Ok(second)] = supplies else { return Ok(()) };
        let missing = [first.missing(), second.missing()];
        let parts = [first, second].into_iter().zip(missing);
        let both = Combined::new(parts.map(|(supply, missing)| Part { supply: Box::new(supply), missing }).collect());
        let serves = |now: u64| !taken(now) && !gaps.iter().any(|&(start, length)| (start..start + length).contains(&now));
        let mut last = 0;
        for window in 0..=observed {
            let claimed = both.service_in(window).unwrap();
            let least = (0..=observed - window).map(|from| (from..from + window).filter(|&now| serves(now)).count() as u64).min().unwrap();
            prop_assert!(claimed <= least, "window {}: {} of {}", window, claimed, least);
            prop_assert!(last <= claimed && claimed <= last + 1);
            if claimed > last {
                prop_assert_eq!(both.window_for(claimed), Ok(window));
            }
            last = claimed;
        }
    }

    #[test]
    fn an_envelope_is_the_least_of_all_windows_of_all_observations(all in prop::collection::vec(gaps(), 1..4), most in 2..200_usize) {
        let observations: Vec<Observed> = all.iter().map(|(observed, gaps)| Observed::new(*observed, gaps).unwrap()).collect();
        let exact = Envelope::over(&observations, 1_000).unwrap();
        let rough = Envelope::over(&observations, most).unwrap();
        let (longest, shortest) = (all.iter().map(|one| one.0).max().unwrap(), all.iter().map(|one| one.0).min().unwrap());
        for window in 0..=longest {
            let least = least_of_all(&all, window).unwrap();
            prop_assert!(exact.service_in(window).unwrap() <= least, "window {}", window);
            prop_assert!(rough.service_in(window).unwrap() <= exact.service_in(window).unwrap());
            if window <= shortest {
                prop_assert_eq!(exact.service_in(window).unwrap(), least, "window {}", window);
            }
        }
        prop_assert!(exact.service_in(longest + 1).is_err());
        for service in 0..=longest {
            for supply in [&exact, &rough] {
                let expected = by_trying(supply, service, longest);
                prop_assert_eq!(supply.window_for(service).ok(), expected, "service {}", service);
            }
        }
        let again = Envelope::from_points(exact.points().to_vec(), exact.missing().to_vec()).unwrap();
        prop_assert_eq!(again.points(), exact.points());
    }

    #[test]
    fn a_gap_that_may_have_come_later_counts_where_it_is_worst(
        turns in prop::collection::vec(0..=4_u64, 1..6), floor in 1..=3_u64,
    ) {
        // Turns of a loop: `floor` of work each, and a gap somewhere in it.
        let begins = turns.iter().scan(0, |at, gap| { let begin = *at; *at += floor + gap; Some(begin) });
        let gaps: Vec<(u64, u64)> = begins.zip(&turns).filter(|&(_, &gap)| gap > 0).map(|(begin, &gap)| (begin, gap)).collect();
        let observed = turns.iter().map(|gap| floor + gap).sum::<u64>();
        let supply = Observed::new(observed, &gaps).unwrap().slipping(floor);
        // Every way to put each gap first or last in its turn.
        let placed = (0..1_u64 << gaps.len()).map(|ways| {
            let put = |(number, &(begin, gap)): (usize, &(u64, u64))| (begin + if ways >> number & 1 == 1 { floor } else { 0 }, gap);
            (observed, gaps.iter().enumerate().map(put).collect::<Vec<_>>())
        });
        let placed: Vec<_> = placed.collect();
        for window in 0..=observed {
            prop_assert_eq!(Some(supply.service_in(window).unwrap()), least_of_all(&placed, window), "window {}", window);
        }
        for service in 0..=observed {
            prop_assert_eq!(supply.window_for(service).ok(), by_trying(&supply, service, observed), "service {}", service);
        }
    }

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
