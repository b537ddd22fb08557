//! Probes over UDP and ICMP echo: sent when they are due, their answers taken in meanwhile.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, connect, send, socket,
};
use nix::sys::time::TimeSpec;

use crate::blackout::asking::Asking;
use crate::blackout::pace::Pace;
use crate::blackout::sight::{Watched, until};
use crate::sockets::{connect_udp, make_room, stamp};
use crate::stamps::{Bridge, monotonic_ns};
use crate::sys::{Inbox, MOST_AT_ONCE};

/// A second of answers, should this process stand still for as long.
const BUFFER_BYTES: usize = 4 << 20;

/// A socket that takes datagrams from one peer, and stamps them.
pub fn open_udp(to: SocketAddr) -> io::Result<OwnedFd> {
    Ok(prepared(connect_udp(to)?.into()))
}

/// A socket for echoes; whether it is a raw one, which only a privileged process may have.
pub fn open_ping(to: IpAddr) -> Result<(OwnedFd, bool), Errno> {
    let (family, protocol) = match to {
        IpAddr::V4(_) => (AddressFamily::Inet, SockProtocol::Icmp),
        IpAddr::V6(_) => (AddressFamily::Inet6, SockProtocol::IcmpV6),
    };
    let open = |kind| socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol);
    let (opened, is_raw) = match open(SockType::Datagram) {
        Ok(opened) => (opened, false),
        // The group of this process is not in net.ipv4.ping_group_range.
        Err(Errno::EACCES | Errno::EPERM) => (open(SockType::Raw)?, true),
        Err(error) => return Err(error),
    };
    connect(opened.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(to, 0)))?;
    Ok((prepared(opened), is_raw))
}

fn prepared(opened: OwnedFd) -> OwnedFd {
    // Where the kernel does not stamp or count, the report tells that.
    stamp(&opened);
    make_room(&opened, BUFFER_BYTES);
    opened
}

/// Asks until it is over.
pub fn watch(opened: &OwnedFd, mut asking: Box<dyn Asking>, mut pace: Pace, watched: &Watched) {
    let (mut inbox, mut bridge) = (Inbox::new(), Bridge::default());
    while !watched.is_over() {
        let now = monotonic_ns();
        if !watched.asks_no_more()
            && let Some(turn) = pace.take(now)
        {
            let probe = asking.ask(turn.number, turn.due_ns);
            let taken = send(opened.as_raw_fd(), &probe, MsgFlags::MSG_DONTWAIT);
            watched.sent(&turn, now, taken.map(drop).map_err(|error| error.desc().to_owned()));
        }
        if wait(opened, PollFlags::POLLIN, until(pace.next_due_ns(), watched)) {
            take_in(opened, asking.as_mut(), &pace, watched, &mut inbox, &mut bridge);
        }
    }
}

/// Waits for something to happen; gives whether it did.
pub fn wait(opened: &impl AsFd, what: PollFlags, time: Duration) -> bool {
    let mut polled = [PollFd::new(opened.as_fd(), what)];
    ppoll(&mut polled, Some(TimeSpec::from_duration(time)), None).is_ok_and(|count| count > 0)
}

fn take_in(
    opened: &OwnedFd,
    asking: &mut dyn Asking,
    pace: &Pace,
    watched: &Watched,
    inbox: &mut Inbox,
    bridge: &mut Bridge,
) {
    loop {
        let count = match inbox.receive(opened.as_fd()) {
            Ok(count) => count,
            Err(error) => {
                // Nobody there for now (an ICMP error): as silent as a lost datagram.
                if error.kind() != io::ErrorKind::WouldBlock {
                    watched.sight().trouble =
                        Some(Errno::from_raw(error.raw_os_error().unwrap_or(0)).desc().to_owned());
                }
                return;
            }
        };
        let now = bridge.look();
        let mut sight = watched.sight();
        for number in 0..count {
            let received = inbox.received(number);
            let arrival = bridge.arrival(received.realtime_ns, now);
            if let Some(overflows) = received.overflows {
                sight.overflowed = sight.overflowed.max(u64::from(overflows));
            }
            match asking.hear(received.bytes, pace) {
                Some(heard) => sight.heard(heard, arrival.monotonic_ns, asking.last_value()),
                None => sight.is_stranger = true,
            }
        }
        (sight.by_kernel, sight.by_process) = (bridge.by_kernel, bridge.by_process);
        if count < MOST_AT_ONCE {
            return;
        }
    }
}
