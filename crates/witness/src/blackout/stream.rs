//! Probes over one TCP connection, which is made anew when it is lost.
//!
//! Each answer has the kernel's stamp of the segment that its last byte came with. What the kernel has taken it sends
//! again by itself, after longer and longer pauses: what is seen here is what any client over TCP sees.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::poll::PollFlags;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::ReceiveTimestampns;

use crate::blackout::asking::Asking;
use crate::blackout::datagrams::wait;
use crate::blackout::pace::Pace;
use crate::blackout::sight::{Loss, Watched, until};
use crate::counter::protocol::ANSWER_BYTES;
use crate::stamps::{Bridge, monotonic_ns};
use crate::sys::{Inbox, MOST_AT_ONCE};

/// Between two attempts at a connection that is refused.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

/// A first request for a connection that is lost is sent again after a second by the kernel: we are sooner.
const ATTEMPT: Duration = Duration::from_millis(200);

/// One connection, and what is on its way in it.
struct Connection {
    stream: TcpStream,
    /// Of a probe that the kernel took a part of.
    unsent: Vec<u8>,
    /// Of an answer that came in part.
    received: Vec<u8>,
    since_ns: u64,
}

/// Asks until it is over; connects at first and whenever the connection is lost or was silent for `reconnect`.
pub fn watch(to: SocketAddr, mut asking: Box<dyn Asking>, mut pace: Pace, reconnect: Duration, watched: &Watched) {
    let (mut inbox, mut bridge) = (Inbox::new(), Bridge::default());
    let mut connected: Option<Connection> = None;
    while !watched.is_over() {
        let Some(connection) = &mut connected else {
            if watched.asks_no_more() {
                thread::sleep(BETWEEN_ATTEMPTS);
                continue;
            }
            connected = connect(to, watched);
            // Nobody could be asked meanwhile, which is no pause of ours.
            pace.skip_to(monotonic_ns());
            continue;
        };
        let now = monotonic_ns();
        let mut result = Ok(());
        if !watched.asks_no_more()
            && let Some(turn) = pace.take(now)
        {
            let sent = connection.send(&asking.ask(turn.number, turn.due_ns));
            let taken = sent.as_ref().map_or(Ok(()), |is_taken| is_taken.then_some(()).ok_or(()));
            watched.sent(&turn, now, taken.map_err(|()| "the connection takes no more".to_owned()));
            result = sent.map(drop);
        }
        if result.is_ok() && wait(&connection.stream, PollFlags::POLLIN, until(pace.next_due_ns(), watched)) {
            result = connection.take_in(asking.as_mut(), &pace, watched, &mut inbox, &mut bridge);
        }
        if result.is_ok() && connection.is_silent(watched, reconnect) {
            result = Err(io::Error::other(format!("silent for {}", humantime::format_duration(reconnect))));
        }
        if let Err(error) = result {
            let mut sight = watched.sight();
            if sight.line.has_begun() {
                sight.losses.push(Loss {
                    at_monotonic_ns: monotonic_ns(),
                    reason: plain(&error),
                    again_monotonic_ns: None,
                });
            }
            sight.trouble = Some(plain(&error));
            connected = None;
            drop(sight);
            thread::sleep(BETWEEN_ATTEMPTS);
        }
    }
}

fn connect(to: SocketAddr, watched: &Watched) -> Option<Connection> {
    let opened = TcpStream::connect_timeout(&to, ATTEMPT).and_then(|stream| {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    match opened {
        Ok(stream) => {
            // A kernel that stamps no streams leaves the stamps to us.
            let _ = setsockopt(&stream, ReceiveTimestampns, &true);
            let now = monotonic_ns();
            if let Some(loss) = watched.sight().losses.last_mut() {
                loss.again_monotonic_ns.get_or_insert(now);
            }
            Some(Connection { stream, unsent: Vec::new(), received: Vec::new(), since_ns: now })
        }
        Err(error) => {
            watched.sight().trouble = Some(plain(&error));
            thread::sleep(BETWEEN_ATTEMPTS);
            None
        }
    }
}

/// Without the number that the standard library adds.
fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
        None => error.to_string(),
    }
}

impl Connection {
    /// Whether the kernel took all of what was left, and this probe or at least a part of it.
    fn send(&mut self, probe: &[u8]) -> io::Result<bool> {
        let left = std::mem::take(&mut self.unsent);
        let count = self.write(&left)?;
        if count < left.len() {
            self.unsent = left[count..].to_vec();
            return Ok(false);
        }
        let count = self.write(probe)?;
        if count > 0 {
            self.unsent = probe[count..].to_vec();
        }
        Ok(count > 0)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match self.stream.write(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            written => written,
        }
    }

    fn take_in(
        &mut self,
        asking: &mut dyn Asking,
        pace: &Pace,
        watched: &Watched,
        inbox: &mut Inbox,
        bridge: &mut Bridge,
    ) -> io::Result<()> {
        loop {
            let count = match inbox.receive(self.stream.as_fd()) {
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
                Err(error) => return Err(error),
            };
            let now = bridge.look();
            let mut sight = watched.sight();
            for number in 0..count {
                let received = inbox.received(number);
                if received.bytes.is_empty() {
                    return Err(io::Error::other("the other side has closed the connection"));
                }
                let arrival = bridge.arrival(received.realtime_ns, now);
                self.received.extend(received.bytes);
                while self.received.len() >= ANSWER_BYTES {
                    let answer: Vec<u8> = self.received.drain(..ANSWER_BYTES).collect();
                    let Some(heard) = asking.hear(&answer, pace) else {
                        sight.is_stranger = true;
                        return Err(io::Error::other("the other side speaks something else"));
                    };
                    sight.heard(heard, arrival.monotonic_ns, asking.last_value());
                }
            }
            // What is shorter than an answer and begins like none: a greeting.
            if !self.received.is_empty() && !b"STCA".starts_with(&self.received[..self.received.len().min(4)]) {
                sight.is_stranger = true;
            }
            (sight.by_kernel, sight.by_process) = (bridge.by_kernel, bridge.by_process);
            if count < MOST_AT_ONCE {
                return Ok(());
            }
        }
    }

    fn is_silent(&self, watched: &Watched, reconnect: Duration) -> bool {
        let now = monotonic_ns();
        let silent_ns = watched.sight().line.silences.current_ns(now).unwrap_or(0).min(now - self.since_ns);
        Duration::from_nanos(silent_ns) >= reconnect
    }
}
