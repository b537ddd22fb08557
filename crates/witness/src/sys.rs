//! Several datagrams with one system call: recvmmsg(2) with control messages, and sendmmsg(2).
//!
//! nix has both, but its prepared headers keep the length of the control messages of the call before: the count of
//! overflows, which comes later than the first time stamp, then finds no room.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::{SockaddrLike, SockaddrStorage};

/// Datagrams of one call at most.
pub const MOST_AT_ONCE: usize = 32;

/// Longer ones are cut, which no packet of ours is.
const DATAGRAM_BYTES: usize = 512;

/// A time stamp and a count, each with its header, and as much again.
const CONTROL_BYTES: usize = 128;

/// Control messages are aligned like the kernel's long.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

struct Slot {
    bytes: [u8; DATAGRAM_BYTES],
    length: usize,
    control: Control,
    control_length: usize,
    name: libc::sockaddr_storage,
}

/// Memory for the datagrams of one call.
pub struct Inbox {
    slots: Vec<Slot>,
}

/// A datagram, as it came.
pub struct Received<'inbox> {
    pub bytes: &'inbox [u8],
    /// None if it is neither IPv4 nor IPv6.
    pub source: Option<SocketAddr>,
    /// When the kernel got it, by `CLOCK_REALTIME`.
    pub realtime_ns: Option<u64>,
    /// Datagrams that the socket had no room for since it was opened, where that is not 0.
    pub overflows: Option<u32>,
}

/// Plain data of the C library, all zero.
fn zeroed<Plain: Copy>() -> Plain {
    // SAFETY: used in this module for sockaddr_storage, iovec and mmsghdr only, which are numbers and pointers, for
    // which zero is a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

impl Inbox {
    pub fn new() -> Self {
        let slot = || Slot {
            bytes: [0; DATAGRAM_BYTES],
            length: 0,
            control: Control([0; CONTROL_BYTES]),
            control_length: 0,
            name: zeroed(),
        };
        Self { slots: (0..MOST_AT_ONCE).map(|_| slot()).collect() }
    }

    /// Takes what is there, without waiting: gives how many, which are `received` then.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut vectors: [libc::iovec; MOST_AT_ONCE] = zeroed();
        let mut messages: [libc::mmsghdr; MOST_AT_ONCE] = zeroed();
        for ((slot, vector), message) in self.slots.iter_mut().zip(&mut vectors).zip(&mut messages) {
            vector.iov_base = slot.bytes.as_mut_ptr().cast();
            vector.iov_len = slot.bytes.len();
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut slot.name).cast();
            header.msg_namelen = size_of_as_u32::<libc::sockaddr_storage>();
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = slot.control.0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES;
        }
        let most = u32::try_from(MOST_AT_ONCE).unwrap_or(1);
        // SAFETY: each of the `most` headers points to memory of a slot, of the length that it states, and to one
        // vector; all of them live until after the call and are borrowed by nobody else.
        let count = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), most, libc::MSG_DONTWAIT, std::ptr::null_mut())
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (slot, message) in self.slots.iter_mut().zip(&messages).take(count) {
            slot.length = DATAGRAM_BYTES.min(message.msg_len as usize);
            slot.control_length = CONTROL_BYTES.min(message.msg_hdr.msg_controllen);
        }
        Ok(count)
    }

    /// One of those that the last call took.
    pub fn received(&self, number: usize) -> Received<'_> {
        let slot = &self.slots[number];
        let mut received = Received {
            bytes: &slot.bytes[..slot.length],
            source: address(&slot.name),
            realtime_ns: None,
            overflows: None,
        };
        for (kind, data) in ControlMessages(&slot.control.0[..slot.control_length]) {
            if kind == libc::SCM_TIMESTAMPNS {
                received.realtime_ns = realtime(data);
            } else if kind == libc::SO_RXQ_OVFL {
                received.overflows = data.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
            }
        }
        received
    }
}

/// The control messages of the level of sockets, by their type.
struct ControlMessages<'bytes>(&'bytes [u8]);

impl<'bytes> Iterator for ControlMessages<'bytes> {
    type Item = (libc::c_int, &'bytes [u8]);

    /// A header is a length, which counts itself, a level and a type (cmsg(3)); the next is at a multiple of 8.
    fn next(&mut self) -> Option<Self::Item> {
        const HEADER_BYTES: usize = 16;
        loop {
            let length = usize::from_ne_bytes(*self.0.first_chunk()?);
            let level = libc::c_int::from_ne_bytes(self.0.get(8..12)?.try_into().ok()?);
            let kind = libc::c_int::from_ne_bytes(self.0.get(12..HEADER_BYTES)?.try_into().ok()?);
            let data = self.0.get(HEADER_BYTES..length)?;
            self.0 = self.0.get(length.next_multiple_of(8)..).unwrap_or_default();
            if level == libc::SOL_SOCKET {
                return Some((kind, data));
            }
        }
    }
}

/// A timespec as nanoseconds.
fn realtime(data: &[u8]) -> Option<u64> {
    let seconds = i64::from_ne_bytes(*data.first_chunk()?);
    let nanoseconds = i64::from_ne_bytes(data.get(8..16)?.try_into().ok()?);
    u64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?).ok()
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel has written a sockaddr_in, says the family; storage is larger and as aligned.
            let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some((address, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the kernel has written a sockaddr_in6, says the family; storage is larger and as aligned.
            let name = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(address, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Sends several packets, each to its address: gives how many were sent. An error is that of the first.
pub fn send_each<const BYTES: usize>(
    socket: BorrowedFd<'_>,
    packets: &[[u8; BYTES]],
    addresses: &[SockaddrStorage],
) -> io::Result<usize> {
    let mut vectors: [libc::iovec; MOST_AT_ONCE] = zeroed();
    let mut messages: [libc::mmsghdr; MOST_AT_ONCE] = zeroed();
    let mut count = 0_u32;
    for (((packet, address), vector), message) in packets.iter().zip(addresses).zip(&mut vectors).zip(&mut messages) {
        vector.iov_base = packet.as_ptr().cast_mut().cast();
        vector.iov_len = BYTES;
        message.msg_hdr.msg_name = address.as_ptr().cast_mut().cast();
        message.msg_hdr.msg_namelen = address.len();
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: each of the `count` headers points to one vector, whose packet is BYTES long, and to an address of the
    // length that it states; all of them live until after the call, which only reads them.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn size_of_as_u32<Value>() -> u32 {
    u32::try_from(size_of::<Value>()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use nix::sys::socket::setsockopt;
    use nix::sys::socket::sockopt::{RcvBuf, ReceiveTimestampns, RxqOvfl};

    use super::*;

    #[test]
    fn datagrams_come_with_source_stamp_and_overflows() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no second address.
            let Ok(receiver) = UdpSocket::bind(any) else { continue };
            setsockopt(&receiver, RcvBuf, &4096).unwrap();
            setsockopt(&receiver, ReceiveTimestampns, &true).unwrap();
            setsockopt(&receiver, RxqOvfl, &1).unwrap();
            let sender = UdpSocket::bind(any).unwrap();
            let to = [SockaddrStorage::from(receiver.local_addr().unwrap()); MOST_AT_ONCE];
            let mut inbox = Inbox::new();
            // The first fill the socket; what it had no room for is told with those that come later.
            let mut sent = 0_usize;
            for _ in 0..4 {
                sent += send_each(sender.as_fd(), &[[7_u8; 172]; MOST_AT_ONCE], &to).unwrap();
            }
            let mut taken = 0;
            while let Ok(count) = inbox.receive(receiver.as_fd()) {
                taken += count;
            }
            send_each(sender.as_fd(), &[[9_u8; 172]], &to).unwrap();
            assert_eq!(inbox.receive(receiver.as_fd()).unwrap(), 1);
            let last = inbox.received(0);
            assert_eq!(last.bytes, [9; 172]);
            assert_eq!(last.source, Some(sender.local_addr().unwrap()));
            assert!(last.realtime_ns.is_some_and(|stamp_ns| stamp_ns > 1_600_000_000_000_000_000));
            assert_eq!(last.overflows.map(|count| count as usize), Some(sent - taken));
        }
    }

    #[test]
    fn any_bytes_of_control_messages_come_to_an_end() {
        for length in [0_usize, 1, 15, 16, 17, 24, 40, usize::MAX] {
            let mut bytes = [0_u8; CONTROL_BYTES];
            bytes[..8].copy_from_slice(&length.to_ne_bytes());
            assert!(ControlMessages(&bytes).count() <= CONTROL_BYTES / 8, "{length}");
        }
    }
}
