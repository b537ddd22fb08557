//! What sockets that watch have in common.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, ReceiveTimestampns, RxqOvfl};

/// Any address of the same family.
pub fn any(like: SocketAddr) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// A UDP socket for one peer.
pub fn connect_udp(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any(to))?;
    socket.connect(to)?;
    Ok(socket)
}

/// Has the kernel tell when each datagram came and how many it had no room for: whether it stamps them.
pub fn stamp(socket: &impl AsFd) -> bool {
    // A kernel that does not count leaves the count absent.
    let _ = setsockopt(socket, RxqOvfl, &1);
    setsockopt(socket, ReceiveTimestampns, &true).is_ok()
}

/// Gives the socket so much room for what comes while nobody takes it in.
pub fn make_room(socket: &impl AsFd, bytes: usize) {
    // Only a privileged process may go beyond net.core.rmem_max.
    let _ = setsockopt(socket, RcvBufForce, &bytes).or_else(|_| setsockopt(socket, RcvBuf, &bytes));
}
