//! `SCHED_DEADLINE`, which no function of the C library sets.

use std::io;

/// The first version of `struct sched_attr` (`sched_setattr(2)`), which all kernels with `SCHED_DEADLINE` take.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Puts the calling thread under `SCHED_DEADLINE`.
pub fn set_deadline(runtime_ns: u64, deadline_ns: u64, period_ns: u64) -> io::Result<()> {
    let attributes = Attributes {
        size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
        policy: libc::SCHED_DEADLINE.unsigned_abs(),
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns,
        deadline_ns,
        period_ns,
    };
    // SAFETY: `attributes` is a valid sched_attr of the size that it states; pid 0 is the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What a thread under `SCHED_DEADLINE` declared: runtime, deadline and period in ns.
pub fn deadline_of(thread: u32) -> io::Result<(u64, u64, u64)> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most the size that is stated, which `attributes` has.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, thread, &raw mut attributes, size_of::<Attributes>(), 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((attributes.runtime_ns, attributes.deadline_ns, attributes.period_ns))
}
