//! Where and how a measuring thread runs: set, then read back from the kernel.

use std::collections::BTreeSet;
use std::{fs, io};

use stealtime_owner::TraceIds;
use stealtime_wire::ThreadPlacement;

use crate::sys;

/// The CPUs that the calling thread may run on.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    sys::affinity()
}

/// Pins the calling thread to one CPU and reads it back.
pub fn pin_to(cpu: u32) -> io::Result<()> {
    place_on(&[cpu])
}

/// Lets the calling thread run on exactly these CPUs, in any order, and reads that back.
///
/// # Errors
/// What the kernel answered, or `InvalidInput` if it accepted the CPUs but keeps another set: a cpuset allows
/// only some.
pub fn place_on(cpus: &[u32]) -> io::Result<()> {
    sys::set_affinity(cpus)?;
    let kept = sys::affinity()?;
    let wanted: BTreeSet<u32> = cpus.iter().copied().collect();
    if kept.iter().copied().eq(wanted.iter().copied()) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("asked for the CPUs {wanted:?}, the kernel keeps {kept:?}"),
    ))
}

/// Keeps the calling thread away from `cpus`, if it may run anywhere else.
pub fn keep_off(cpus: &[u32]) -> io::Result<()> {
    let others: Vec<u32> = sys::affinity()?.into_iter().filter(|other| !cpus.contains(other)).collect();
    if others.is_empty() { Ok(()) } else { sys::set_affinity(&others) }
}

/// Allows the calling thread to run on these CPUs.
pub fn allow(cpus: &[u32]) -> io::Result<()> {
    sys::set_affinity(cpus)
}

/// Allows another thread of this process, by its own id, to run on these CPUs.
pub fn allow_thread(thread: u32, cpus: &[u32]) -> io::Result<()> {
    sys::set_affinity_of(thread, cpus)
}

/// Asks for `SCHED_FIFO` for the calling thread and reads it back.
///
/// # Errors
/// Why the kernel refused; the thread runs as it did before.
pub fn request_fifo(priority: u32) -> io::Result<()> {
    sys::set_fifo(priority)?;
    match sys::scheduling()? {
        (libc::SCHED_FIFO, kept) if kept == priority => Ok(()),
        (policy, kept) => Err(io::Error::other(format!("the kernel keeps {} {kept}", policy_name(policy)))),
    }
}

/// Puts the calling thread under `SCHED_OTHER`; it may always give up a privilege.
pub fn leave_fifo() -> io::Result<()> {
    sys::set_other()
}

/// Reads back where and how the calling thread runs.
pub fn placement(thread_ids: Vec<u32>) -> io::Result<ThreadPlacement> {
    let (policy, priority) = sys::scheduling()?;
    Ok(ThreadPlacement {
        cpu: sys::current_cpu(),
        cpus: allowed_cpus()?,
        policy: policy_name(policy).to_owned(),
        priority,
        thread_ids,
    })
}

/// How often the calling thread went from one CPU to another, where the kernel tells (`CONFIG_SCHED_DEBUG`).
pub fn migrations() -> Option<u64> {
    parse_migrations(&fs::read_to_string("/proc/thread-self/sched").ok()?)
}

fn parse_migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|line| line.trim_start().starts_with("se.nr_migrations"))?;
    line.split(':').nth(1)?.trim().parse().ok()
}

/// The calling thread's id in its own PID namespace, by which the kernel can be asked to place it.
pub fn own_id() -> u32 {
    sys::thread_id()
}

/// The calling thread's id, as the kernel's trace has it where that is known.
pub fn thread_id() -> u32 {
    TraceIds::here().of_this_thread(sys::thread_id())
}

/// What a thread under `SCHED_DEADLINE` declared: runtime, deadline and period in ns.
pub fn deadline_of(thread: u32) -> io::Result<(u64, u64, u64)> {
    sys::deadline_of(thread)
}

/// What sched(7) calls a policy.
pub fn policy_name(policy: i32) -> &'static str {
    match policy {
        libc::SCHED_OTHER => "SCHED_OTHER",
        libc::SCHED_FIFO => "SCHED_FIFO",
        libc::SCHED_RR => "SCHED_RR",
        libc::SCHED_BATCH => "SCHED_BATCH",
        libc::SCHED_IDLE => "SCHED_IDLE",
        libc::SCHED_DEADLINE => "SCHED_DEADLINE",
        _ => "an unknown policy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_read_from_among_the_other_figures() {
        let sched = "tick (7, #threads: 1)\n----\nse.vruntime       :    1.5\nse.nr_migrations      :      24\n";
        assert_eq!(parse_migrations(sched), Some(24));
        assert_eq!(parse_migrations("se.vruntime : 1.5\n"), None);
    }
}
