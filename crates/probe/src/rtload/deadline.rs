//! Admission to `SCHED_DEADLINE`.

use std::io;

use stealtime_wire::RealTimeTask;

use crate::error::TrialError;
use crate::sys;

/// Puts the calling thread under `SCHED_DEADLINE` with the budget, relative deadline and period of a task.
pub fn enter(task: &RealTimeTask) -> Result<(), TrialError> {
    sys::set_deadline(task.budget_ns.unwrap_or(task.cost_ns), task.deadline_ns, task.period_ns)
        .map_err(|source| TrialError::Admission { task: task.name.clone(), hint: hint(&source), source })
}

/// What the errors of `sched_setattr(2)` mean for a thread that asks for itself.
fn hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EBUSY) => {
            "all budgets together exceed what the kernel admits (sched_rt_runtime_us of sched_rt_period_us, by default \
             95 % of each CPU): take a set of less utilization, or policy = \"fifo\""
        }
        Some(libc::EPERM) => {
            "it takes root (or cap_sys_nice), and the tasks must be allowed on every CPU of their root domain: measure a \
             machine of one CPU, or lift RT throttling (the kernel then asks for no root domain), or take \
             policy = \"fifo\""
        }
        Some(libc::EINVAL) => {
            "a budget must be at least 1024 ns, and a period between sched_deadline_period_min_us and \
             sched_deadline_period_max_us (by default 100 us and 4.2 s)"
        }
        _ => "this kernel has no SCHED_DEADLINE: take policy = \"fifo\"",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let of = |number| hint(&io::Error::from_raw_os_error(number));
        assert!(of(libc::EBUSY).contains("less utilization"));
        assert!(of(libc::EPERM).contains("every CPU of their root domain"));
        assert!(of(libc::EINVAL).contains("1024 ns"));
        assert!(of(libc::ENOSYS).contains("no SCHED_DEADLINE"));
    }
}
