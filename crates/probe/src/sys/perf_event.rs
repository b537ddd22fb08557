//! Opening what `perf_event_open(2)` gives, and letting it begin.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

/// Bit of [`Attributes::flags`]: does not count yet.
pub(super) const DISABLED: u64 = 1;
/// `PERF_EVENT_IOC_ENABLE`.
const ENABLE: libc::c_ulong = 0x2400;
/// `PERF_FLAG_FD_CLOEXEC`, since Linux 3.14.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
const THIS_THREAD: libc::pid_t = 0;
const ALL_THREADS: libc::pid_t = -1;
const ANY_CPU: libc::c_int = -1;
const NO_LEADER: libc::c_int = -1;

/// `struct perf_event_attr` (`include/uapi/linux/perf_event.h`) up to the clock, its fourth version (Linux 4.1).
///
/// Kernels that know less accept it as long as what they do not know is 0.
#[repr(C)]
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup_events: u32,
    pub(super) breakpoint_type: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) sample_registers: u64,
    pub(super) sample_stack: u32,
    pub(super) clock: libc::clockid_t,
}

#[derive(Clone, Copy)]
pub(super) enum Whose {
    /// Of the calling thread, wherever it runs.
    ThisThread,
    /// Of all threads on one CPU.
    Cpu(libc::c_int),
}

/// Opens one event, in the group of `leader` where there is one.
pub(super) fn open(mut attributes: Attributes, whose: Whose, leader: Option<&File>) -> io::Result<File> {
    #[expect(clippy::cast_possible_truncation, reason = "96 bytes")]
    const BYTES: u32 = size_of::<Attributes>() as u32;
    attributes.size = BYTES;
    let (thread, cpu) = match whose {
        Whose::ThisThread => (THIS_THREAD, ANY_CPU),
        Whose::Cpu(cpu) => (ALL_THREADS, cpu),
    };
    let leader = leader.map_or(NO_LEADER, AsRawFd::as_raw_fd);
    // SAFETY: `attributes` is readable and of the size that it tells; the kernel keeps no pointer to it.
    let descriptor =
        unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, cpu, leader, CLOSE_ON_EXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    let descriptor = RawFd::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: it was just opened and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Lets an event begin that was opened [`DISABLED`]; with `PERF_IOC_FLAG_GROUP` as `flags` its whole group.
pub(super) fn enable(event: &File, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the request takes no pointer.
    if unsafe { libc::ioctl(event.as_raw_fd(), ENABLE, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
