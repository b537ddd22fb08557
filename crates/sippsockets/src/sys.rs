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
    // SAFETY: the caller's arguments but for the name; sets errno as the C library's function does.
    let set = |name: c_int| unsafe { libc::syscall(libc::SYS_setsockopt, socket, level, name, value, length) };
    let is_set = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) => true,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => set(libc::SO_RCVBUFFORCE) == 0 || set(name) == 0,
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => set(libc::SO_SNDBUFFORCE) == 0 || set(name) == 0,
        _ => set(name) == 0,
    };
    if is_set { 0 } else { -1 }
}
