//! What one CPU has to do under EDF.

use crate::arrivals::Interference;
use crate::error::Error;
use crate::task::Task;
use crate::workload::Workload;

/// Jobs, and what comes before all of them.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// As they are charged.
    pub tasks: &'a [Task],
    pub interrupts: &'a [Interference],
}

impl<'a> From<&'a [Task]> for Load<'a> {
    fn from(tasks: &'a [Task]) -> Self {
        Self { tasks, interrupts: &[] }
    }
}

impl<'a, const N: usize> From<&'a [Task; N]> for Load<'a> {
    fn from(tasks: &'a [Task; N]) -> Self {
        Self::from(tasks.as_slice())
    }
}

impl<'a> From<&'a Vec<Task>> for Load<'a> {
    fn from(tasks: &'a Vec<Task>) -> Self {
        Self::from(tasks.as_slice())
    }
}

impl<'a> From<&'a Workload> for Load<'a> {
    /// Of a workload that is charged by job.
    fn from(workload: &'a Workload) -> Self {
        Self { tasks: &workload.tasks, interrupts: &workload.interrupts }
    }
}

impl Load<'_> {
    /// Cost and period of all that comes again and again.
    pub(crate) fn pairs(&self) -> Vec<(u64, u64)> {
        let tasks = self.tasks.iter().map(|task| (task.cost_ns, task.period_ns));
        tasks.chain(self.interrupts.iter().map(|one| (one.cost_ns, one.period_ns))).collect()
    }

    /// What all interrupts in a window take.
    pub(crate) fn interrupts_in(&self, window_ns: u64) -> Result<u64, Error> {
        let mut sum: u64 = 0;
        for one in self.interrupts {
            let demand = one.arrivals_in(window_ns)?.checked_mul(one.cost_ns).ok_or(Error::Overflow)?;
            sum = sum.checked_add(demand).ok_or(Error::Overflow)?;
        }
        Ok(sum)
    }
}
