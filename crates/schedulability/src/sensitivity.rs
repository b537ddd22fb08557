//! What a single task may still change: the longest cost and the shortest period with which the set is schedulable.
//!
//! One parameter at a time, as in E. Bini, M. Di Natale and G. Buttazzo, "Sensitivity Analysis for Fixed-Priority
//! Real-Time Systems" (Real-Time Systems 39, 2008). Found by bisection: all bounds are monotone in both.

use crate::edf_blocking::BlockedQuestion;
use crate::error::Error;
use crate::margin::{Margin, greatest, largest_factor, scaled};
use crate::task::{LONGEST_NS, Task};

/// What one task may be while all others stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensitivity {
    /// The longest cost; None if even 1 ns is too much.
    pub longest_cost_ns: Option<u64>,
    /// The shortest period; a deadline that equals the period goes with it. None if none is long enough.
    pub shortest_period_ns: Option<u64>,
}

/// Find the room of the task number `index`.
///
/// # Errors
/// As [`BlockedQuestion::is_schedulable`].
pub fn sensitivity(asked: &BlockedQuestion<'_>, index: usize) -> Result<Sensitivity, Error> {
    let own = asked.question.tasks[index];
    let mut tasks = asked.question.tasks.to_vec();
    let mut fits = |changed: Task| {
        tasks[index] = changed;
        let question = crate::analysis::Question { tasks: &tasks, ..asked.question };
        BlockedQuestion { question, ..*asked }.is_schedulable()
    };
    let longest_cost_ns = greatest(1, own.period_ns.saturating_add(1), |cost_ns| fits(Task { cost_ns, ..own }))?
        .map(|(cost_ns, _)| cost_ns);
    let with_period = |period_ns: u64| Task {
        period_ns,
        deadline_ns: if own.deadline_ns == own.period_ns { period_ns } else { own.deadline_ns },
        ..own
    };
    // How far below the longest the period may be; not below the cost.
    let most = LONGEST_NS - own.cost_ns;
    let shortened = greatest(0, most.saturating_add(1), |by_ns| fits(with_period(LONGEST_NS - by_ns)))?;
    Ok(Sensitivity { longest_cost_ns, shortest_period_ns: shortened.map(|(by_ns, _)| LONGEST_NS - by_ns) })
}

/// As [`largest_scale`](crate::largest_scale), with blocking under EDF.
///
/// # Errors
/// As [`BlockedQuestion::is_schedulable`].
pub fn largest_scale_blocked(asked: &BlockedQuestion<'_>) -> Result<Margin, Error> {
    let tasks = asked.question.tasks;
    let fits = |millionths: u64| {
        let Some(tasks) = scaled(tasks, millionths) else { return Ok(false) };
        let question = crate::analysis::Question { tasks: &tasks, ..asked.question };
        BlockedQuestion { question, ..*asked }.is_schedulable()
    };
    largest_factor(tasks, fits)
}
