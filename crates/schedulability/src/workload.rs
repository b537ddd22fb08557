//! What fixed priorities and EDF are analysed for: tasks as they are charged, and interrupts.

use std::ops::Range;

use crate::arrivals::Interference;
use crate::task::Task;

/// What one CPU has to do, overheads included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The highest priority first.
    pub tasks: Vec<Task>,
    /// Of each task; neighbours of the same level have the same priority, and their jobs go first in, first out. Empty:
    /// each task has a priority of its own.
    pub levels: Vec<u32>,
    /// What comes before all tasks: interrupts.
    pub interrupts: Vec<Interference>,
    /// Charged for every arrival of the task's or a higher priority.
    pub per_arrival_ns: u64,
    /// Charged once in a busy window.
    pub per_window_ns: u64,
}

impl Workload {
    /// Tasks alone.
    pub fn without_overheads(tasks: &[Task]) -> Self {
        Self { tasks: tasks.to_vec(), ..Self::default() }
    }

    /// Cost and period of all that comes before the next lower task, and of the interrupts.
    pub(crate) fn demands_until(&self, last: usize) -> Vec<(u64, u64)> {
        let tasks = self.tasks[..=last].iter();
        let tasks = tasks.map(|task| (task.cost_ns.saturating_add(self.per_arrival_ns), task.period_ns));
        tasks.chain(self.interrupts.iter().map(|one| (one.cost_ns, one.period_ns))).collect()
    }

    /// The tasks of the same priority as one, itself among them.
    pub(crate) fn equals_of(&self, index: usize) -> Range<usize> {
        let Some(level) = self.levels.get(index) else { return index..index + 1 };
        let first = self.levels[..index].iter().rposition(|one| one != level).map_or(0, |before| before + 1);
        let count = self.levels[index..].iter().take_while(|&one| one == level).count();
        first..index + count
    }
}
