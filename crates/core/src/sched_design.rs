//! Room of single tasks, and blocking under EDF, for Python: beside `schedulability.rs`, with the same questions.

use pyo3::prelude::*;
use stealtime_schedulability::{BlockedQuestion, BlockingLevel, Margin, largest_scale_blocked, sensitivity};

use crate::errors::wrong;
use crate::schedulability::{Asked, QuestionArgument, ResponseRow, millionths, row_of_bound};

/// From which window on, and how long, in ns.
type LevelArgument = (u64, u64);

fn levels_of(levels: &[LevelArgument]) -> Vec<BlockingLevel> {
    levels.iter().map(|&(from_ns, blocking_ns)| BlockingLevel { from_ns, blocking_ns }).collect()
}

/// Find the first window that blocking makes too long.
#[pyfunction]
pub fn blocked_window(
    py: Python<'_>,
    question: QuestionArgument,
    levels: Vec<LevelArgument>,
) -> PyResult<Option<(u64, u64, u64)>> {
    let (asked, levels) = (Asked::read(&question)?, levels_of(&levels));
    let found = py.detach(|| BlockedQuestion { question: asked.question(), levels: &levels }.exceeded());
    Ok(found.map_err(wrong)?.map(|one| (one.window_ns, one.demand_ns, one.service_ns)))
}

/// Bound the response of each task, from arrival to end, with blocking under EDF.
#[pyfunction]
pub fn blocked_responses(
    py: Python<'_>,
    question: QuestionArgument,
    levels: Vec<LevelArgument>,
) -> PyResult<Vec<ResponseRow>> {
    let (asked, levels) = (Asked::read(&question)?, levels_of(&levels));
    let found = py.detach(|| BlockedQuestion { question: asked.question(), levels: &levels }.responses());
    Ok(found.map_err(wrong)?.into_iter().map(row_of_bound).collect())
}

/// Find the largest factor of all costs with blocking under EDF, in millionths, and whether one more is known to be too
/// much.
#[pyfunction]
pub fn blocked_cost_margin(
    py: Python<'_>,
    question: QuestionArgument,
    levels: Vec<LevelArgument>,
) -> PyResult<(Option<u64>, bool)> {
    let (asked, levels) = (Asked::read(&question)?, levels_of(&levels));
    let found = py.detach(|| largest_scale_blocked(&BlockedQuestion { question: asked.question(), levels: &levels }));
    let margin = found.map_err(wrong)?;
    Ok((millionths(margin), !matches!(margin, Margin::AtLeast(_))))
}

/// Find the longest cost and the shortest period of one task.
#[pyfunction]
pub fn task_sensitivity(
    py: Python<'_>,
    question: QuestionArgument,
    levels: Vec<LevelArgument>,
    index: usize,
) -> PyResult<(Option<u64>, Option<u64>)> {
    let (asked, levels) = (Asked::read(&question)?, levels_of(&levels));
    let found = py.detach(|| sensitivity(&BlockedQuestion { question: asked.question(), levels: &levels }, index));
    let found = found.map_err(wrong)?;
    Ok((found.longest_cost_ns, found.shortest_period_ns))
}
