//! Which activations of a thread begin a job, and how these arrive.

use std::collections::BTreeMap;

use crate::activation::Activation;
use crate::clock::{Clock, whole};
use crate::grid::{self, Grid, LEAST_OBSERVED};
use crate::sporadic::{Sporadic, sporadic};

/// How jobs arrive, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The program set its timers on a grid.
    Programmed,
    /// Its wake-ups lie on a grid, each late by chance of its own.
    Observed,
    /// On no grid, or on none that is beyond chance.
    Sporadic,
    /// Fewer than two arrivals were seen.
    TooFew,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Programmed, Self::Observed, Self::Sporadic, Self::TooFew];

    pub fn name(self) -> &'static str {
        match self {
            Self::Programmed => "programmed",
            Self::Observed => "observed",
            Self::Sporadic => "sporadic",
            Self::TooFew => "too few",
        }
    }
}

/// How the jobs of a thread arrive.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    pub kind: Kind,
    /// The activations that begin a job.
    pub starts: Vec<usize>,
    /// Of each, its place on the grid; its number where there is none.
    pub slots: Vec<u64>,
    /// Of a grid.
    pub period_ns: Option<u64>,
    /// By how much that may be wrong: a programmed one is known to what the program rounds.
    pub period_error_ns: u64,
    /// The most that an arrival is later than the earliest, against the grid.
    pub spread_ns: u64,
    /// Places of the grid without an arrival.
    pub missed: u64,
    /// How often the grid began anew, later.
    pub restarts: u64,
    /// Where there is no grid.
    pub sporadic: Option<Sporadic>,
}

/// Looks for a grid among the activations of a thread, which are in the order of time.
pub fn arrivals(activations: &[Activation], clock: &Clock) -> Arrivals {
    // The first begins where the trace does.
    let seen: Vec<usize> = (0..activations.len()).filter(|&place| activations[place].waker >= 0).collect();
    let on_timer: Vec<(usize, i64)> =
        seen.iter().filter_map(|&place| Some((place, activations[place].expiry_ns?))).collect();
    let expiries: Vec<i64> = on_timer.iter().map(|&(_, expiry_ns)| expiry_ns).collect();
    if let Some(grid) = grid::programmed(&expiries) {
        let places: Vec<usize> = on_timer.iter().map(|&(place, _)| place).collect();
        return on_grid(Kind::Programmed, &places, grid);
    }
    for places in groups(activations, &seen) {
        let times: Vec<i64> = places.iter().map(|&place| clock.monotonic_ns(activations[place].woken)).collect();
        if let Some(grid) = grid::observed(&times) {
            return on_grid(Kind::Observed, &places, grid);
        }
    }
    let times: Vec<i64> = seen.iter().map(|&place| clock.monotonic_ns(activations[place].woken)).collect();
    let found = sporadic(&times);
    Arrivals {
        kind: if found.is_some() { Kind::Sporadic } else { Kind::TooFew },
        slots: (0..seen.len() as u64).collect(),
        starts: seen,
        period_ns: None,
        period_error_ns: 0,
        spread_ns: 0,
        missed: 0,
        restarts: 0,
        sporadic: found,
    }
}

/// What may be the arrivals: all activations, or those that one thread woke. What is left are then the ends of waits
/// inside jobs.
fn groups(activations: &[Activation], seen: &[usize]) -> Vec<Vec<usize>> {
    let mut by_waker: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
    for &place in seen.iter().filter(|&&place| activations[place].expiry_ns.is_none()) {
        by_waker.entry(activations[place].waker).or_default().push(place);
    }
    let mut groups = vec![seen.to_vec()];
    groups.extend(by_waker.into_values().filter(|group| group.len() >= LEAST_OBSERVED && group.len() < seen.len()));
    groups
}

fn on_grid(kind: Kind, places: &[usize], grid: Grid) -> Arrivals {
    let steps = grid.slots.last().copied().unwrap_or(0).max(1);
    let error_ns = grid.spread_ns / steps as f64;
    Arrivals {
        kind,
        starts: grid.members.iter().map(|&member| places[member]).collect(),
        period_ns: Some(whole(grid.period_ns).unsigned_abs()),
        period_error_ns: whole(error_ns.ceil()).unsigned_abs(),
        spread_ns: whole(grid.spread_ns).unsigned_abs(),
        missed: grid.missed(),
        restarts: grid.restarts,
        slots: grid.slots,
        sporadic: None,
    }
}
