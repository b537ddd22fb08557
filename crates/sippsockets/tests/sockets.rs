//! Sockets whose options are set, and which are bound, the way SIPp does it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::c_int;
use std::fs;
use std::io;
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use stealtime_sippsockets::{bind, setsockopt};

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

fn address(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::sa_family_t::try_from(libc::AF_INET).unwrap(),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    }
}

fn bound(kind: c_int, port: u16) -> OwnedFd {
    let own = address(port);
    // SAFETY: it gives a descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, kind, 0)) };
    // SAFETY: the address lives for the call.
    let result = unsafe { bind(socket.as_raw_fd(), ptr::from_ref(&own).cast(), length_of::<libc::sockaddr_in>()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    socket
}

#[test]
fn a_connection_gets_its_port_when_it_connects() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::from(bound(libc::SOCK_STREAM, 0));
    assert_eq!(client.local_addr().unwrap(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let peer = address(server.local_addr().unwrap().port());
    // SAFETY: the address lives for the call.
    let result =
        unsafe { libc::connect(client.as_raw_fd(), ptr::from_ref(&peer).cast(), length_of::<libc::sockaddr_in>()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    assert_eq!(server.accept().unwrap().1, client.local_addr().unwrap());
}

#[test]
fn every_other_socket_has_its_port_at_once() {
    assert_ne!(UdpSocket::from(bound(libc::SOCK_DGRAM, 0)).local_addr().unwrap().port(), 0);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(TcpListener::from(bound(libc::SOCK_STREAM, free)).local_addr().unwrap().port(), free);
}
