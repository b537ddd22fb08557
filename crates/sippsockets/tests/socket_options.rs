//! A socket whose options are set the way SIPp sets them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::c_int;
use std::fs;
use std::io;
use std::mem::size_of;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use stealtime_sippsockets::setsockopt;

fn length_of<Value>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<Value>()).unwrap()
}

fn set<Value>(socket: c_int, level: c_int, name: c_int, value: &Value) -> c_int {
    // SAFETY: the value lives for the call.
    unsafe { setsockopt(socket, level, name, ptr::from_ref(value).cast(), length_of::<Value>()) }
}

fn get<Value>(socket: c_int, level: c_int, name: c_int, mut value: Value) -> Value {
    let mut length = length_of::<Value>();
    // SAFETY: the value and its length live for the call.
    let result = unsafe { libc::getsockopt(socket, level, name, (&raw mut value).cast(), &raw mut length) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    value
}

#[test]
fn the_wish_to_wait_for_the_peer_is_left_out() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let wish = libc::linger { l_onoff: 1, l_linger: 1 };
    assert_eq!(set(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &wish), 0);
    let none = libc::linger { l_onoff: 7, l_linger: 7 };
    let now = get(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, none);
    assert_eq!((now.l_onoff, now.l_linger), (0, 0));
}

#[test]
fn a_buffer_is_as_long_as_asked_for_where_that_may_be() {
    // SAFETY: it only tells.
    let is_root = unsafe { libc::geteuid() } == 0;
    for (name, limit) in [(libc::SO_RCVBUF, "rmem_max"), (libc::SO_SNDBUF, "wmem_max")] {
        let given: c_int = fs::read_to_string(format!("/proc/sys/net/core/{limit}")).unwrap().trim().parse().unwrap();
        let wish = 2 * given;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(set(socket.as_raw_fd(), libc::SOL_SOCKET, name, &wish), 0);
        // Linux adds as much again, for its own accounts (socket(7)).
        let expected = 2 * if is_root { wish } else { given };
        assert_eq!(get(socket.as_raw_fd(), libc::SOL_SOCKET, name, 0), expected, "{limit}");
    }
}

#[test]
fn every_other_option_is_set() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(get(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 7), 0);
    assert_eq!(set(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, &1), 0);
    assert_eq!(get(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 7), 1);
}

#[test]
fn a_refusal_is_told_as_by_the_c_library() {
    assert_eq!(set(-1, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1), -1);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
}
