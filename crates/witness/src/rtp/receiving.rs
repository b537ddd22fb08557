//! Receives until it is over: takes packets in as they come, sends them back if asked to.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use stealtime_console::quantities::nanoseconds;
use stealtime_media::{Datagram, Heard, Listening, Mark, Receiver, Turn, read, write};

use crate::rtp::settings::Patience;
use crate::stamps::{Arrival, Bridge, monotonic_ns};
use crate::sys::{Inbox, MOST_AT_ONCE};

/// How often a waiting receiver looks whether it should stop.
const PATIENCE_MS: u8 = 20;

/// Sockets that are looked after in one turn.
const MOST_READY: usize = 1024;

/// Calls for one socket in one turn, in which 2,000 streams on one port send for 30 ms.
const MOST_CALLS: usize = 100;

/// With the kernel's stamps nobody has to hurry: what comes meanwhile is taken together, which saves most of the
/// wake-ups. A socket has room for much more.
const REST: Duration = Duration::from_micros(500);

/// Fewer streams are no load worth resting for.
const MANY: usize = 32;

/// After all streams have ended, one that was overtaken may still come.
const LINGER_NS: u64 = 500_000_000;

/// When to end, if nobody says so.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "each says its unit")]
pub struct Limits {
    pub duration_ns: Option<u64>,
    /// For the first packet.
    pub wait_ns: u64,
    /// For the next.
    pub idle_ns: u64,
}

impl Limits {
    /// Whoever listens for as long as another one says.
    pub const NONE: Self = Self { duration_ns: None, wait_ns: u64::MAX, idle_ns: u64::MAX };

    pub fn of(patience: &Patience, duration: Option<Duration>) -> anyhow::Result<Self> {
        Ok(Self {
            duration_ns: duration.map(nanoseconds).transpose()?,
            wait_ns: nanoseconds(patience.wait)?,
            idle_ns: nanoseconds(patience.idle)?,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All streams had told their end.
    Complete,
    /// As long as was asked for.
    Duration,
    /// Ctrl-C, or what else was to end it.
    Stopped,
    /// Nothing came any more.
    Idle,
    /// Nothing had come at all.
    Nothing,
}

/// Sockets, and what came through them.
pub struct Receiving {
    sockets: Vec<UdpSocket>,
    epoll: Epoll,
    pub receiver: Receiver,
    inbox: Inbox,
    pub bridge: Bridge,
    /// How much later the process got packets than the kernel.
    pub waits: Histogram<u64>,
    /// By socket: the kernel counts from the start.
    overflows: Vec<u32>,
    reflects: bool,
    pub reflected: u64,
    pub started_ns: u64,
    last_ns: Option<u64>,
    rests: bool,
}

impl Receiving {
    /// At these sockets; `stamped` if the kernel stamps what comes there.
    pub fn new(sockets: Vec<UdpSocket>, listening: Listening, reflects: bool, stamped: bool) -> anyhow::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for (number, socket) in (0..).zip(&sockets) {
            epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        }
        Ok(Self {
            rests: stamped && !reflects,
            epoll,
            receiver: Receiver::new(listening),
            inbox: Inbox::new(),
            bridge: Bridge::default(),
            waits: Histogram::new(3)?,
            overflows: vec![0; sockets.len()],
            sockets,
            reflects,
            reflected: 0,
            started_ns: monotonic_ns(),
            last_ns: None,
        })
    }

    /// Receives until `stop` says so, or it is over by itself.
    pub fn run(
        &mut self,
        limits: &Limits,
        stop: &dyn Fn() -> bool,
        mut show: impl FnMut(&Self),
    ) -> anyhow::Result<Ended> {
        let mut ready = vec![EpollEvent::empty(); MOST_READY];
        let mut complete_ns = None;
        loop {
            let count = match self.epoll.wait(&mut ready, EpollTimeout::from(PATIENCE_MS)) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in &ready[..count] {
                self.take(usize::try_from(event.data()).unwrap_or(usize::MAX));
            }
            show(self);
            let now_ns = monotonic_ns();
            if complete_ns.is_none() && self.receiver.is_complete() {
                complete_ns = Some(now_ns);
            }
            if let Some(ended) = self.ending(limits, stop, complete_ns, now_ns) {
                return Ok(ended);
            }
            if self.rests && self.receiver.streams() > MANY {
                thread::sleep(REST);
            }
        }
    }

    fn ending(&self, limits: &Limits, stop: &dyn Fn() -> bool, complete_ns: Option<u64>, now_ns: u64) -> Option<Ended> {
        let since = |then_ns: u64| now_ns.saturating_sub(then_ns);
        if stop() {
            Some(Ended::Stopped)
        } else if limits.duration_ns.is_some_and(|duration_ns| since(self.started_ns) >= duration_ns) {
            Some(Ended::Duration)
        } else if complete_ns.is_some_and(|complete_ns| since(complete_ns) >= LINGER_NS) {
            Some(Ended::Complete)
        } else {
            match self.last_ns {
                Some(last_ns) if since(last_ns) >= limits.idle_ns => Some(Ended::Idle),
                None if since(self.started_ns) >= limits.wait_ns => Some(Ended::Nothing),
                _ => None,
            }
        }
    }

    /// Datagrams that came and for which a socket had no room.
    pub fn overflowed(&self) -> u64 {
        self.overflows.iter().copied().map(u64::from).sum()
    }

    /// When a packet of a stream came last, or when it began.
    pub fn last_ns(&self) -> u64 {
        self.last_ns.unwrap_or(self.started_ns)
    }

    /// Takes in what one socket has, but lets the others have their turn.
    fn take(&mut self, number: usize) {
        for _ in 0..MOST_CALLS {
            let Some(socket) = self.sockets.get(number) else { return };
            // An error of a socket is that of a packet which was sent from it (ICMP), or that there is nothing more.
            let Ok(count) = self.inbox.receive(socket.as_fd()) else { return };
            self.took(number, count);
            if count < MOST_AT_ONCE {
                return;
            }
        }
    }

    /// So many were taken from one socket.
    fn took(&mut self, number: usize, count: usize) {
        let now_ns = self.bridge.look();
        for one in 0..count {
            let received = self.inbox.received(one);
            if let Some(overflows) = received.overflows {
                self.overflows[number] = self.overflows[number].max(overflows);
            }
            let Some(source) = received.source else { continue };
            let arrival = self.bridge.arrival(received.realtime_ns, now_ns);
            if let Some(waited_ns) = arrival.waited_ns {
                // It grows with the longest.
                let _ = self.waits.record(waited_ns);
            }
            let Heard::Ours(mark) = self.receiver.datagram(received.bytes, arrival.monotonic_ns, source) else {
                continue;
            };
            self.last_ns = Some(arrival.monotonic_ns);
            // One that was turned already would go round for ever.
            if self.reflects && mark.turn.is_none() {
                let socket = &self.sockets[number];
                self.reflected += u64::from(reflect(socket, received.bytes, &mark, arrival, source));
            }
        }
    }
}

/// Sends a packet back with the times at which it was here: whether the kernel took it.
fn reflect(socket: &UdpSocket, bytes: &[u8], mark: &Mark, arrival: Arrival, source: SocketAddr) -> bool {
    let Datagram::Ours(header, _) = read(bytes) else { return false };
    let turn = Some(Turn { received_ns: arrival.monotonic_ns, sent_ns: monotonic_ns() });
    socket.send_to(&write(&header, &Mark { turn, ..*mark }), source).is_ok()
}
