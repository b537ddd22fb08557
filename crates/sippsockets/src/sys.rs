//! All that is unsafe: the symbols that stand before the C library's, and the system calls.

use std::ffi::{c_int, c_long, c_void};
use std::mem::size_of;
use std::ptr;

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
    // SAFETY: the caller's arguments but for the name.
    let set = |name| unsafe { set_option(socket, level, name, value, length) };
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_LINGER) => 0,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) if set(libc::SO_RCVBUFFORCE) == 0 => 0,
        (libc::SOL_SOCKET, libc::SO_SNDBUF) if set(libc::SO_SNDBUFFORCE) == 0 => 0,
        _ => set(name),
    }
}

/// Stands before the C library's `bind`.
///
/// # Safety
/// As bind(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(socket: c_int, address: *const libc::sockaddr, length: libc::socklen_t) -> c_int {
    // SAFETY: the caller's arguments.
    if unsafe { has_no_port(address, length) } && is_stream(socket) {
        let yes: c_int = 1;
        // SAFETY: the value lives for the call. Where a kernel does not have it, the port is chosen now, as ever.
        unsafe {
            set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, ptr::from_ref(&yes).cast(), INT_LENGTH);
        }
    }
    // SAFETY: the caller's arguments, unchanged; sets errno as the C library's function does.
    told(unsafe { libc::syscall(libc::SYS_bind, socket, address, length) })
}

const INT_LENGTH: libc::socklen_t = 4;
const _: () = assert!(size_of::<c_int>() == 4, "an int is what these options take");

/// Tells whether an IPv4 address leaves the port to the kernel.
///
/// # Safety
/// The address has so many bytes.
unsafe fn has_no_port(address: *const libc::sockaddr, length: libc::socklen_t) -> bool {
    if address.is_null() || (length as usize) < size_of::<libc::sockaddr_in>() {
        return false;
    }
    // SAFETY: it has the bytes, wherever they are aligned; every pattern of them is a value.
    let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
    c_int::from(address.sin_family) == libc::AF_INET && address.sin_port == 0
}

fn is_stream(socket: c_int) -> bool {
    let (mut kind, mut length): (c_int, _) = (0, INT_LENGTH);
    // SAFETY: the value and its length live for the call.
    let result =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut length) };
    result == 0 && kind == libc::SOCK_STREAM
}

/// # Safety
/// As setsockopt(2).
unsafe fn set_option(socket: c_int, level: c_int, name: c_int, value: *const c_void, length: libc::socklen_t) -> c_int {
    // SAFETY: the caller's arguments; sets errno as the C library's function does.
    told(unsafe { libc::syscall(libc::SYS_setsockopt, socket, level, name, value, length) })
}

/// What these system calls return: 0, or -1 with errno.
fn told(result: c_long) -> c_int {
    if result == 0 { 0 } else { -1 }
}
