//! Waiting for a socket, for a time that is not rounded to milliseconds.

use std::io;
use std::os::fd::RawFd;
use std::ptr;

/// Waits until there is something to read, or room to write if that is wanted too, but no longer than `timeout_ns`.
pub fn wait_for_socket(socket: RawFd, to_write: bool, timeout_ns: u64) -> io::Result<()> {
    let events = libc::POLLIN | if to_write { libc::POLLOUT } else { 0 };
    let mut polled = libc::pollfd { fd: socket, events, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (timeout_ns % 1_000_000_000).cast_signed(),
    };
    // SAFETY: one descriptor is described, and the time is valid; no signals are masked.
    let result = unsafe { libc::ppoll(&raw mut polled, 1, &raw const timeout, ptr::null()) };
    match result {
        0.. => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}
