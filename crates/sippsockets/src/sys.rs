//! All that is unsafe: the symbols that stand before the C library's, and the system calls.

use std::ffi::{c_int, c_long, c_void};
use std::io;
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Stands before the C library's `recvfrom`, by which SIPp hears connections, too.
///
/// # Safety
/// As recvfrom(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    socket: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    from_length: *mut libc::socklen_t,
) -> isize {
    if has_no_peer(socket) {
        // SAFETY: the caller's arguments.
        return unsafe { hear_nothing(buffer, length) };
    }
    // SAFETY: the caller's arguments; sets errno as the C library's function does.
    let result = unsafe { libc::syscall(libc::SYS_recvfrom, socket, buffer, length, flags, from, from_length) };
    let is_end = result == 0 && length > 0;
    if (is_end || (result < 0 && is_loss())) && is_stream(socket) && stays_open(socket) {
        // SAFETY: the caller's arguments.
        return unsafe { hear_nothing(buffer, length) };
    }
    isize::try_from(result).unwrap_or(-1)
}

/// Stands before the C library's `send`.
///
/// # Safety
/// As send(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(socket: c_int, buffer: *const c_void, length: usize, flags: c_int) -> isize {
    if has_no_peer(socket) {
        return length.cast_signed();
    }
    // SAFETY: the caller's arguments; sets errno as the C library's function does.
    let result = unsafe { libc::syscall(libc::SYS_sendto, socket, buffer, length, flags, ptr::null::<c_void>(), 0) };
    if result < 0 && is_loss() && is_stream(socket) && stays_open(socket) {
        return length.cast_signed();
    }
    isize::try_from(result).unwrap_or(-1)
}

/// Of most processes none ever is, and nothing is asked of their sockets.
static ANY_WAS_LOST: AtomicBool = AtomicBool::new(false);

fn is_loss() -> bool {
    let losses = [
        libc::ECONNRESET,
        libc::ECONNABORTED,
        libc::EPIPE,
        libc::ETIMEDOUT,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::ENOTCONN,
    ];
    io::Error::last_os_error().raw_os_error().is_some_and(|error| losses.contains(&error))
}

/// Puts a socket without a peer in the place of a lost connection, if that is wished. Whoever polls the lost one polls
/// nothing any more, as it is closed.
fn stays_open(socket: c_int) -> bool {
    if std::env::var_os(crate::LOST_STAY_OPEN).is_none() {
        return false;
    }
    // SAFETY: gives a descriptor or -1.
    let other = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if other < 0 {
        return false;
    }
    // SAFETY: both are open; the second is ours alone and not used again.
    let result = unsafe {
        let result = libc::dup2(other, socket);
        libc::close(other);
        result
    };
    if result == socket {
        ANY_WAS_LOST.store(true, Ordering::Relaxed);
        eprintln!("a connection was lost");
    }
    result == socket
}

/// Tells whether a socket stands in the place of a lost connection.
fn has_no_peer(socket: c_int) -> bool {
    ANY_WAS_LOST.load(Ordering::Relaxed) && option_of(socket, libc::SO_DOMAIN) == Some(libc::AF_UNIX)
}

/// Gives the first byte of a message that never ends. SIPp takes neither an error for anything but the end of all calls
/// nor "nothing yet" from a socket that it has polled.
///
/// # Safety
/// As recvfrom(2).
unsafe fn hear_nothing(buffer: *mut c_void, length: usize) -> isize {
    if length == 0 {
        return 0;
    }
    // SAFETY: the buffer has at least this byte.
    unsafe { buffer.cast::<u8>().write(b' ') };
    1
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
    option_of(socket, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

fn option_of(socket: c_int, name: c_int) -> Option<c_int> {
    let (mut value, mut length): (c_int, _) = (0, INT_LENGTH);
    // SAFETY: the value and its length live for the call.
    let result = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    (result == 0).then_some(value)
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
