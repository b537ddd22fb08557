//! The ioctl of a userfaultfd that write-protects a range (include/uapi/linux/userfaultfd.h).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `_IOWR(0xAA, 0x06, struct uffdio_writeprotect)`
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xC018_AA06;
const MODE_PROTECT: u64 = 1 << 0;

#[repr(C)]
struct Argument {
    start: u64,
    length: u64,
    mode: u64,
}

/// Write-protect a range of the process that created the userfaultfd: each first write is remembered from
/// here on.
pub(crate) fn write_protect(userfaultfd: impl AsFd, start: u64, length: u64) -> io::Result<()> {
    let mut argument = Argument { start, length, mode: MODE_PROTECT };
    // SAFETY: the structure is the one of this ioctl. With asynchronous mode no thread ever waits for us.
    let result = unsafe { libc::ioctl(userfaultfd.as_fd().as_raw_fd(), UFFDIO_WRITEPROTECT, &raw mut argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
