//! All that is `unsafe` in this crate: instructions, and system calls that the standard library lacks.

mod affinity;
mod aio;
mod arithmetic;
mod copying;
mod counter_group;
mod cpu_events;
mod deadline;
mod files;
mod futex;
mod mapping;
mod perf_event;
mod ring_threads;
mod socket;
mod thread_identity;
mod transfer_buffers;
mod uring;

use std::arch::asm;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

pub use affinity::{Affinity, MOST_CPUS, affinity, set_affinity, set_affinity_of};
pub use aio::Aio;
pub use arithmetic::multiply_and_add;
pub use copying::copy_lines;
pub use counter_group::{CounterGroup, HardwareCounts};
pub use cpu_events::{CpuEvents, Record};
pub use deadline::{deadline_of, set_deadline};
pub use files::{allocate, direct_alignment, free_bytes};
pub use futex::{wait_while, wake_all};
pub use mapping::{Mapping, ThreadUsage};
pub use ring_threads::run_ring;
pub use socket::wait_for_socket;
pub use thread_identity::{set_thread_name, thread_name, thread_pointer};
pub use transfer_buffers::{TransferBuffers, mixed, next_random};
pub use uring::Uring;

/// Reads the time-stamp counter after all earlier instructions have completed.
///
/// `lfence; rdtsc` is the ordering that Intel's manual gives for RDTSC (volume 2B) and that AMD guarantees
/// where LFENCE is dispatch serializing, which Linux sets at boot (commit e4d0e84e4907, v4.15).
#[inline(always)]
pub fn time_stamp_counter() -> u64 {
    let low: u32;
    let high: u32;
    // SAFETY: neither instruction reads or writes memory; both exist on every x86-64 processor. Without
    // `nomem` the compiler keeps memory accesses on their side of the reading.
    unsafe {
        asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Does a fixed amount of work that touches no memory: `iterations` dependent multiplications.
///
/// Written in assembly so that every compiler makes the same machine code of it, and the same binary does the
/// same work natively and in every guest. The multiplier is Knuth's for 64-bit linear congruence (MMIX).
#[inline(always)]
pub fn busy_loop(iterations: u64) {
    if iterations == 0 {
        return;
    }
    // SAFETY: works on registers alone.
    unsafe {
        asm!(
            "2:",
            "imul {value}, {factor}",
            "add {value}, {factor}",
            "dec {count}",
            "jnz 2b",
            value = inout(reg) 1_u64 => _,
            factor = in(reg) 6_364_136_223_846_793_005_u64,
            count = inout(reg) iterations => _,
            options(nomem, nostack),
        );
    }
}

/// `sched_yield(2)` without anything of the C library between the caller and the `syscall` instruction.
#[inline(always)]
pub fn yield_processor() {
    // SAFETY: sched_yield takes no argument and touches no user memory; the kernel clobbers rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inout("rax") libc::SYS_sched_yield => _,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelClock {
    /// `CLOCK_MONOTONIC`: what timers run on.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`: not steered by NTP.
    MonotonicRaw,
    Realtime,
    /// `CLOCK_THREAD_CPUTIME_ID`: how long the calling thread has run.
    ThreadCpu,
}

impl KernelClock {
    fn id(self) -> libc::clockid_t {
        match self {
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::ThreadCpu => libc::CLOCK_THREAD_CPUTIME_ID,
        }
    }
}

#[inline(always)]
#[expect(clippy::cast_sign_loss, reason = "the kernel gives no negative time after 1970")]
pub fn kernel_clock_ns(clock: KernelClock) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec. The clocks named by KernelClock exist on every kernel
    // since 2.6.28, so the call cannot fail.
    unsafe { libc::clock_gettime(clock.id(), &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How long the calling thread has run.
pub fn thread_cpu_ns() -> u64 {
    kernel_clock_ns(KernelClock::ThreadCpu)
}

/// Sleeps until `CLOCK_MONOTONIC` shows `until_ns`; false if a signal ended the sleep early.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "2^63 ns are 292 years")]
pub fn sleep_until_monotonic(until_ns: u64) -> bool {
    let until = libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `until` is a valid timespec and an absolute sleep writes no remainder.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, ptr::null_mut()) == 0 }
}

/// Has the calling thread's timers expire at their time: those of ordinary threads may be up to 50 us late by default
/// (`PR_SET_TIMERSLACK`). Real-time threads have no such slack.
pub fn have_exact_timers() {
    // SAFETY: changes no memory; a kernel without it leaves things as they were.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// The calling thread's id.
pub fn thread_id() -> u32 {
    // SAFETY: gettid has no arguments and always succeeds.
    let id = unsafe { libc::gettid() };
    id.unsigned_abs()
}

/// The CPU that the calling thread runs on now.
pub fn current_cpu() -> u32 {
    // SAFETY: no arguments; fails only on kernels before 2.6.19.
    let cpu = unsafe { libc::sched_getcpu() };
    cpu.unsigned_abs()
}

/// Puts the calling thread under `SCHED_FIFO`.
pub fn set_fifo(priority: u32) -> io::Result<()> {
    let Ok(sched_priority) = libc::c_int::try_from(priority) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: `parameters` is valid; pid 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) })
}

/// Puts the calling thread back under `SCHED_OTHER`.
pub fn set_other() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as in `set_fifo`.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) })
}

/// The calling thread's policy (a `SCHED_*` number) and priority, as the kernel has them.
pub fn scheduling() -> io::Result<(i32, u32)> {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: pid 0 is the calling thread.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if policy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `parameters` is writable.
    check(unsafe { libc::sched_getparam(0, &raw mut parameters) })?;
    Ok((policy, parameters.sched_priority.unsigned_abs()))
}

/// How often the calling thread has been switched away: of its own will, and not.
#[expect(clippy::cast_sign_loss, reason = "the kernel counts up from zero")]
pub fn thread_context_switches() -> (u64, u64) {
    // SAFETY: an all-zero rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable; RUSAGE_THREAD exists since 2.6.26, so the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

/// Keeps every page that the process has now in memory.
pub fn lock_present_memory() -> io::Result<()> {
    // SAFETY: changes no memory contents.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT) })
}

/// Undoes [`lock_present_memory`].
pub fn unlock_memory() {
    // SAFETY: changes no memory contents; unlocking cannot fail for memory that we own.
    unsafe { libc::munlockall() };
}

/// A zeroed, present and, where permitted, locked array of `u32`.
pub struct LockedArray {
    start: NonNull<AtomicU32>,
    length: usize,
    lock_error: Option<io::Error>,
}

// SAFETY: the memory is owned, its elements are atomics, and nothing in it is tied to a thread.
unsafe impl Send for LockedArray {}
// SAFETY: as above.
unsafe impl Sync for LockedArray {}

impl LockedArray {
    /// Maps the array and touches every page of it, on the memory node of the calling thread's CPU.
    pub fn new(length: usize) -> io::Result<Self> {
        let Some(bytes) = length.max(1).checked_mul(size_of::<u32>()) else {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        };
        // SAFETY: a new anonymous mapping; no existing memory is touched.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(address.cast::<AtomicU32>()) else {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        };
        let mut array = Self { start, length, lock_error: None };
        // SAFETY: exactly the mapping made above.
        array.lock_error = check(unsafe { libc::mlock(address, bytes) }).err();
        // MAP_POPULATE may leave pages out without a word (mmap(2)); a write to each makes sure.
        for cell in array.cells().iter().step_by(4096 / size_of::<u32>()) {
            cell.store(0, Ordering::Relaxed);
        }
        Ok(array)
    }

    /// Why the memory could not be locked, if so.
    pub fn lock_error(&self) -> Option<&io::Error> {
        self.lock_error.as_ref()
    }

    /// The elements, to be written by one thread and looked at by others.
    #[inline(always)]
    pub fn cells(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is valid for `length` elements as long as `self` lives; zeroed memory is a
        // valid AtomicU32.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// Ends the writing: consuming the array proves that no reference to its cells is left.
    pub fn freeze(self) -> FrozenArray {
        FrozenArray(self)
    }
}

/// A [`LockedArray`] that nobody writes any more.
pub struct FrozenArray(LockedArray);

impl FrozenArray {
    pub fn as_slice(&self) -> &[u32] {
        // SAFETY: AtomicU32 has the layout of u32, and the array inside is never given out, so that nothing
        // can store to a cell while this borrow lives.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr().cast::<u32>(), self.0.length) }
    }
}

impl Drop for LockedArray {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of the same size; munmap also unlocks it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length.max(1) * size_of::<u32>()) };
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
