//! Do times lie on a grid, `phase + k * period`, and beyond chance?

use crate::clock::whole;

/// A grid that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    pub period_ns: f64,
    /// Which of the times lie on it, in order.
    pub members: Vec<usize>,
    /// Of each member, its place, from 0.
    pub slots: Vec<u64>,
    /// The most that a member is later than the earliest, against the grid.
    pub spread_ns: f64,
    /// How often it begins anew, later than a period after the member before.
    pub restarts: u64,
}

impl Grid {
    /// Places that have no member, between the first and the last.
    pub fn missed(&self) -> u64 {
        self.slots.last().map_or(0, |&last| last + 1 - self.slots.len() as u64)
    }
}

/// Two expiries that a program has set on a grid differ by a whole period, but for what it rounded: to microseconds,
/// for one.
const ROUNDING_NS: i64 = 1_000;

/// A job may set so many timers.
const MOST_LAGS: usize = 8;

/// Times that a period is looked for in; the grid is then followed through all of them.
const MOST_LOOKED_AT: usize = 2_000;

/// So many periods in a row are no chance: other expiries are as far apart as the program happens to run, which is
/// never the same to a microsecond.
const LEAST_STEPS: usize = 4;

/// The least share of a grid's places that have a member. Half would be a period twice too short.
const LEAST_COVERAGE: f64 = 0.75;

/// Where nearly all expiries lie on a grid it may have as many gaps as it likes: a program that falls behind leaves
/// places out, as it does not wait for what has passed.
const NEARLY_ALL: f64 = 0.95;

/// Finds the grid that a program set its timers on: every step is a whole number of periods, to what it rounds.
///
/// # Arguments
/// `expiries`: in ns, in the order in which they expired.
pub fn programmed(expiries: &[i64]) -> Option<Grid> {
    let looked_at = &expiries[..expiries.len().min(MOST_LOOKED_AT)];
    for period_ns in candidates(looked_at) {
        let grid = walk(expiries, period_ns);
        let places = grid.slots.last().map_or(0, |&last| last + 1);
        let members = grid.members.len() as f64;
        let is_dense = members >= LEAST_COVERAGE * places as f64
            // Of many expiries some lie on any grid.
            && grid.members.len() * MOST_LAGS >= expiries.len()
            // A chain that ends early is a coincidence.
            && spans_most(expiries, &grid);
        let is_grid = (is_dense || members >= NEARLY_ALL * expiries.len() as f64)
            // Steps that are each a little off add up: such a program sleeps relatively.
            && grid.spread_ns <= 2.0 * ROUNDING_NS as f64
            && members >= (LEAST_STEPS as u64 * (grid.restarts + 1)) as f64;
        if is_grid && grid.members.len() > LEAST_STEPS {
            return Some(grid);
        }
    }
    None
}

fn spans_most(expiries: &[i64], grid: &Grid) -> bool {
    let span = |from: usize, until: usize| (expiries[until] - expiries[from]) as f64;
    let (Some(&first), Some(&last)) = (grid.members.first(), grid.members.last()) else { return false };
    span(first, last) >= LEAST_COVERAGE * span(0, expiries.len() - 1)
}

/// Differences that come again, from the shortest on.
fn candidates(expiries: &[i64]) -> Vec<f64> {
    let mut differences: Vec<i64> = (1..=MOST_LAGS.min(expiries.len().saturating_sub(1)))
        .flat_map(|lag| expiries.windows(lag + 1).map(move |window| window[lag] - window[0]))
        .filter(|&difference| difference > ROUNDING_NS)
        .collect();
    differences.sort_unstable();
    let groups = differences.chunk_by(|before, after| after - before <= ROUNDING_NS);
    let often =
        groups.filter(|group| group.len() >= LEAST_STEPS && group[group.len() - 1] - group[0] <= 2 * ROUNDING_NS);
    often.map(|group| group.iter().sum::<i64>() as f64 / group.len() as f64).collect()
}

/// Goes from member to member, from the first time that has another a period later. Where none of the next times goes
/// on, the program may have set its timers anew, as some do after they were late: then a chain of its own begins there.
fn walk(expiries: &[i64], period_ns: f64) -> Grid {
    let steps = |from: i64, until: i64| -> Option<u64> {
        let apart = (until - from) as f64;
        let count = (apart / period_ns).round();
        let is_whole = count >= 1.0 && (apart - count * period_ns).abs() <= ROUNDING_NS as f64;
        is_whole.then(|| whole(count).unsigned_abs())
    };
    let next_of = |place: usize| expiries[place + 1..].iter().take(MOST_LAGS);
    let is_first = |&place: &usize| next_of(place).any(|&next| steps(expiries[place], next) == Some(1));
    let mut grid = Grid { period_ns, members: Vec::new(), slots: Vec::new(), spread_ns: 0.0, restarts: 0 };
    let Some(first) = (0..expiries.len()).find(is_first) else { return grid };
    grid.members.push(first);
    grid.slots.push(0);
    let mut chain = Chain::begin(expiries[first]);
    let mut longest = chain;
    for place in first + 1..expiries.len() {
        let member = grid.members[grid.members.len() - 1];
        let (before, slot) = (expiries[member], grid.slots[grid.slots.len() - 1]);
        let apart = (expiries[place] - before) as f64;
        let count = if let Some(count) = steps(before, expiries[place]) {
            chain.go_on(expiries[place], count, period_ns);
            count
        } else if apart > period_ns && is_first(&place) && next_of(member).all(|&next| steps(before, next).is_none()) {
            grid.restarts += 1;
            chain = Chain::begin(expiries[place]);
            // The job before was late, and may hold the one that was not waited for.
            whole((apart / period_ns).ceil()).unsigned_abs().max(2)
        } else {
            continue;
        };
        if chain.slots > longest.slots {
            longest = chain;
        }
        grid.spread_ns = grid.spread_ns.max(chain.latest - chain.earliest);
        grid.members.push(place);
        grid.slots.push(slot + count);
    }
    if longest.slots > 0 {
        grid.period_ns = (longest.last - longest.first) as f64 / longest.slots as f64;
    }
    grid
}

/// Expiries that are whole periods apart.
#[derive(Debug, Clone, Copy)]
struct Chain {
    first: i64,
    last: i64,
    slots: u64,
    /// Against the first, in ns.
    earliest: f64,
    latest: f64,
}

impl Chain {
    fn begin(first: i64) -> Self {
        Self { first, last: first, slots: 0, earliest: 0.0, latest: 0.0 }
    }

    fn go_on(&mut self, time: i64, count: u64, period_ns: f64) {
        self.slots += count;
        self.last = time;
        let off = (time - self.first) as f64 - self.slots as f64 * period_ns;
        (self.earliest, self.latest) = (self.earliest.min(off), self.latest.max(off));
    }
}

/// Fewer wake-ups do not tell a grid from a program that sleeps equally long each time: of 30 of the latter 36 in a
/// thousand pass the test below, of 60 0.2 (200,000 draws each; then 1 to 3 in a thousand grids fail it).
pub const LEAST_OBSERVED: usize = 60;

/// Wake-ups that are later or earlier against a grid than this share of its period lie on none: which place they belong
/// to is a guess.
const MOST_SPREAD: f64 = 0.3;

/// Of `mean((r[i+1] - r[i])^2) / variance(r)` for residuals `r` (von Neumann, Annals of Mathematical Statistics 12,
/// 1941): 2 where each is late by chance of its own, towards 0 where lateness adds up, as of relative sleeps.
const LEAST_VON_NEUMANN: f64 = 1.3;

/// Finds the grid that wake-ups lie on, each late by chance of its own.
///
/// # Arguments
/// `times`: in ns, rising.
pub fn observed(times: &[i64]) -> Option<Grid> {
    if times.len() < LEAST_OBSERVED {
        return None;
    }
    let mut gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    let mut period_ns = gaps[gaps.len() / 2] as f64;
    if period_ns < 1.0 {
        return None;
    }
    let mut slots: Vec<u64> = Vec::new();
    // The median is a little off, which adds up over thousands of places: the line is fitted again and again.
    for _ in 0..4 {
        slots = vec![0];
        for pair in times.windows(2) {
            let count = ((pair[1] - pair[0]) as f64 / period_ns).round();
            if count < 1.0 {
                return None;
            }
            slots.push(slots[slots.len() - 1] + whole(count).unsigned_abs());
        }
        period_ns = slope(times, &slots)?;
    }
    let residuals = residuals(times, &slots, period_ns);
    let (earliest, latest) =
        residuals.iter().fold((f64::MAX, f64::MIN), |(low, high), &one| (low.min(one), high.max(one)));
    let grid =
        Grid { period_ns, members: (0..times.len()).collect(), slots, spread_ns: latest - earliest, restarts: 0 };
    let places = grid.slots[grid.slots.len() - 1] + 1;
    let is_grid = grid.spread_ns <= MOST_SPREAD * period_ns
        && times.len() as f64 >= LEAST_COVERAGE * places as f64
        && von_neumann(&residuals) >= LEAST_VON_NEUMANN;
    is_grid.then_some(grid)
}

fn slope(times: &[i64], slots: &[u64]) -> Option<f64> {
    let count = times.len() as f64;
    let x: Vec<f64> = slots.iter().map(|&slot| slot as f64).collect();
    let y: Vec<f64> = times.iter().map(|&time| (time - times[0]) as f64).collect();
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let above: f64 = x.iter().zip(&y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let below: f64 = x.iter().map(|x| (x - mean_x).powi(2)).sum();
    (below > 0.0 && above > 0.0).then(|| above / below)
}

fn residuals(times: &[i64], slots: &[u64], period_ns: f64) -> Vec<f64> {
    let off = times.iter().zip(slots).map(|(&time, &slot)| (time - times[0]) as f64 - slot as f64 * period_ns);
    off.collect()
}

fn von_neumann(residuals: &[f64]) -> f64 {
    let count = residuals.len() as f64;
    let mean = residuals.iter().sum::<f64>() / count;
    let variance = residuals.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
    let steps = residuals.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum::<f64>() / (count - 1.0);
    // All on the very grid.
    if variance <= f64::EPSILON { 2.0 } else { steps / variance }
}
