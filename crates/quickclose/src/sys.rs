//! All that is unsafe: the symbol that stands before the C library's, and the system call.

use std::ffi::{c_int, c_void};

/// Stands before the C library's `setsockopt`.
///
/// # Safety
/// As setsockopt(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        return 0;
    }
    // SAFETY: the caller's arguments, unchanged; sets errno as the C library's function does.
    let result = unsafe { libc::syscall(libc::SYS_setsockopt, socket, level, name, value, length) };
    // 0, or -1 with errno.
    if result == 0 { 0 } else { -1 }
}
