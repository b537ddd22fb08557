//! TCP connections that are opened and reset at once: whether a service can be reached, without any help of its own.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::sockopt::{Linger, SocketError};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, connect, getsockopt, setsockopt, socket,
};
use nix::sys::time::TimeSpec;

use crate::blackout::asking::Heard;
use crate::blackout::pace::Pace;
use crate::blackout::sight::{Watched, until};
use crate::stamps::monotonic_ns;

/// After this the kernel would send its request again, and so answer for another moment.
const ATTEMPT_NS: u64 = 900_000_000;

/// A connection that is being made.
struct Attempt {
    number: u64,
    since_ns: u64,
    opened: OwnedFd,
}

/// Opens connections until it is over.
pub fn watch(to: SocketAddr, mut pace: Pace, watched: &Watched) {
    let mut attempts: Vec<Attempt> = Vec::new();
    while !watched.is_over() {
        let now = monotonic_ns();
        if !watched.asks_no_more()
            && let Some(turn) = pace.take(now)
        {
            let opened = attempt(to);
            watched.sent(&turn, now, opened.as_ref().map(drop).map_err(|error| error.desc().to_owned()));
            attempts.extend(opened.ok().map(|opened| Attempt { number: turn.number, since_ns: now, opened }));
        }
        attempts.retain(|attempt| now.saturating_sub(attempt.since_ns) < ATTEMPT_NS);
        let mut polled: Vec<PollFd<'_>> =
            attempts.iter().map(|attempt| PollFd::new(attempt.opened.as_fd(), PollFlags::POLLOUT)).collect();
        let time = TimeSpec::from_duration(until(pace.next_due_ns(), watched));
        if ppoll(&mut polled, Some(time), None).unwrap_or(0) == 0 {
            continue;
        }
        let at_ns = monotonic_ns();
        let is_settled: Vec<bool> = polled.iter().map(|one| one.any().unwrap_or(false)).collect();
        let mut settled = is_settled.iter();
        let mut sight = watched.sight();
        attempts.retain(|attempt| {
            if settled.next() != Some(&true) {
                return true;
            }
            match getsockopt(&attempt.opened, SocketError) {
                Ok(0) => {
                    sight.heard(Heard { number: attempt.number, violations: Vec::new() }, at_ns, None);
                    sight.by_process += 1;
                }
                // Refused: the machine may be there, its service is not.
                Ok(error) => sight.trouble = Some(Errno::from_raw(error).desc().to_owned()),
                Err(error) => sight.trouble = Some(error.desc().to_owned()),
            }
            false
        });
    }
}

fn attempt(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let opened = socket(family, SockType::Stream, flags, SockProtocol::Tcp)?;
    // Closed by a reset: a thousand in a minute would otherwise keep their ports for another one.
    setsockopt(&opened, Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    match connect(opened.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(opened),
        Err(error) => Err(error),
    }
}
