//! Where and how a thread that keeps time runs.

use anyhow::{Context, Result};
use nix::sys::prctl::set_timerslack;
use stealtime_probe::scheduling;

/// Puts this thread on a CPU, if one is named, and has the kernel wake it without delay: before others, if it has a
/// priority of `SCHED_FIFO`, which 0 is none of.
pub fn place(cpu: Option<u32>, priority: u32) -> Result<()> {
    if let Some(cpu) = cpu {
        scheduling::pin_to(cpu).with_context(|| format!("this process cannot run on CPU {cpu}"))?;
    }
    if priority > 0 {
        let asked = scheduling::request_fifo(priority);
        asked.with_context(|| format!("SCHED_FIFO with priority {priority} was refused"))?;
    }
    // An ordinary thread's sleep may otherwise be 50 us longer (PR_SET_TIMERSLACK, prctl(2)).
    set_timerslack(1).context("the timer slack cannot be set")
}
