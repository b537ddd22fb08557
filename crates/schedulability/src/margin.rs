//! How far a set is from the edge: the largest factor of all costs, what each overhead takes of it, and the
//! smallest budget. Everything here is monotone, so it is found by bisection.

use crate::analysis::Question;
use crate::error::Error;
use crate::overheads::{Overhead, Overheads};
use crate::supply::Periodic;
use crate::task::Task;

/// Factors are given in parts of this.
pub const PARTS_PER_MILLION: u64 = 1_000_000;

/// By how much costs may grow, or must shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// With all costs times this, in millionths, the set is schedulable, and with one millionth more it is not.
    Factor(u64),
    /// With all costs times this it is schedulable; with one millionth more it is not known, as of an endless busy
    /// window.
    AtLeast(u64),
    /// The overheads alone are too much.
    None,
}

/// Find the largest factor of all costs with which the set is schedulable (the breakdown utilization of Lehoczky,
/// Sha and Ding, RTSS 1989, is the utilization there). Costs are rounded up to whole nanoseconds.
///
/// A factor of which it is not known whether the set is schedulable counts as one with which it is not.
///
/// # Errors
/// Why it is not known with any factor; or of tasks that cannot be.
pub fn largest_scale(question: &Question<'_>) -> Result<Margin, Error> {
    let fits = |millionths: u64| {
        let Some(tasks) = scaled(question.tasks, millionths) else { return Ok(false) };
        Question { tasks: &tasks, ..*question }.is_schedulable()
    };
    largest_factor(question.tasks, fits)
}

/// The largest factor of the costs of `tasks`, in millionths, for which `fits` holds.
pub(crate) fn largest_factor(tasks: &[Task], fits: impl FnMut(u64) -> Result<bool, Error>) -> Result<Margin, Error> {
    // No cost can exceed its period; with this factor one does.
    let most = tasks.iter().map(|task| {
        let most = u128::from(task.period_ns) * u128::from(PARTS_PER_MILLION) / u128::from(task.cost_ns.max(1));
        u64::try_from(most).unwrap_or(u64::MAX)
    });
    let Some(too_much) = most.min().map(|most| most.saturating_add(1)) else {
        return Ok(Margin::None);
    };
    Ok(match greatest(0, too_much, fits)? {
        None => Margin::None,
        // A factor that 64 bits do not hold was not tried.
        Some((millionths, Edge::Known)) if too_much < u64::MAX => Margin::Factor(millionths),
        Some((millionths, _)) => Margin::AtLeast(millionths),
    })
}

/// The tasks with all costs times a factor, at least 1 ns each; None if a cost then exceeds its period.
pub(crate) fn scaled(tasks: &[Task], millionths: u64) -> Option<Vec<Task>> {
    let scale = |task: &Task| {
        let cost = (u128::from(task.cost_ns) * u128::from(millionths)).div_ceil(u128::from(PARTS_PER_MILLION)).max(1);
        let cost_ns = u64::try_from(cost).ok().filter(|&cost| cost <= task.period_ns)?;
        Some(Task { cost_ns, ..*task })
    };
    tasks.iter().map(scale).collect()
}

/// The margin without one overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Influence {
    pub overhead: Overhead,
    pub ns: u64,
    /// What the margin is if this overhead alone is 0.
    pub margin_without: Margin,
}

/// Find what each overhead takes of the margin; those that are 0 are left out.
pub fn influences(question: &Question<'_>) -> Result<Vec<Influence>, Error> {
    let present = Overhead::ALL.into_iter().filter(|&overhead| question.overheads.get(overhead) > 0);
    let influence = |overhead: Overhead| {
        let without: Overheads = question.overheads.with(overhead, 0);
        let margin_without = largest_scale(&Question { overheads: without, ..*question })?;
        Ok(Influence { overhead, ns: question.overheads.get(overhead), margin_without })
    };
    present.map(influence).collect()
}

/// Find the smallest budget of a periodic resource with which the set is schedulable; None if even the whole CPU
/// is not enough. The question's own supply does not count, and a budget of which it is not known is not enough.
///
/// # Errors
/// As of [`largest_scale`], and [`Error::Supply`] of a period that cannot be.
pub fn smallest_budget(question: &Question<'_>, period_ns: u64) -> Result<Option<u64>, Error> {
    Periodic::new(period_ns, period_ns)?;
    let fits = |spared_ns: u64| {
        let supply = Periodic::new(period_ns, period_ns - spared_ns)?;
        Question { supply: &supply, ..*question }.is_schedulable()
    };
    // What can be spared is largest where the budget is smallest; sparing everything is never enough.
    Ok(greatest(0, period_ns, fits)?.map(|(spared_ns, _)| period_ns - spared_ns))
}

/// Whether one more is known not to fit.
pub(crate) enum Edge {
    Known,
    Unknown,
}

/// The largest number from `least` on, below `too_much`, for which `fits` holds; it holds for all smaller ones.
///
/// # Errors
/// That of `least`, or of an input that describes nothing.
pub(crate) fn greatest(
    least: u64,
    too_much: u64,
    mut fits: impl FnMut(u64) -> Result<bool, Error>,
) -> Result<Option<(u64, Edge)>, Error> {
    if least >= too_much || !fits(least)? {
        return Ok(None);
    }
    let (mut good, mut bad) = (least, too_much);
    let mut edge = Edge::Known;
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match fits(middle) {
            Ok(true) => good = middle,
            Ok(false) => (bad, edge) = (middle, Edge::Known),
            Err(error @ (Error::Task { .. } | Error::Interference | Error::Supply(_))) => return Err(error),
            Err(_) => (bad, edge) = (middle, Edge::Unknown),
        }
    }
    Ok(Some((good, edge)))
}
