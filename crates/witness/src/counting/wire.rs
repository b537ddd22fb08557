//! One request and its answer: over a TCP connection that is never replaced, and over UDP with
//! retransmission.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use thiserror::Error;

use crate::counter::protocol::{ANSWER_BYTES, Answer, ProtocolError, Request};
use crate::sockets::connect_udp;

/// How often a waiting thread looks whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Between two attempts at a connection that nobody accepts yet.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

nix::setsockopt_impl!(
    LinearTimeouts,
    libc::IPPROTO_TCP,
    libc::TCP_THIN_LINEAR_TIMEOUTS,
    bool,
    nix::sys::socket::sockopt::SetBool
);

/// `TCP_THIN_LINEAR_TIMEOUTS`: with fewer than four segments under way the kernel doubles its retransmission
/// time-out only after the sixth try (Linux `Documentation/networking/tcp-thin.rst`).
#[derive(Debug, Clone, Copy)]
struct LinearTimeouts;

/// Why a connection is over.
#[derive(Debug, Error)]
pub enum WireError {
    #[error("{0}")]
    Kernel(#[from] io::Error),
    #[error("the counter has closed the connection")]
    Closed,
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
    #[error("an answer to request {found} came where that to request {wanted} was due")]
    OtherRequest { found: u64, wanted: u64 },
}

/// What happened under way to one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Datagrams that were sent again.
    pub resent: u64,
    /// Answers that came once more, or to a request that had been answered.
    pub late: u64,
}

/// A way to the counter.
pub trait Wire: Send {
    /// Sends a request and waits for its answer, or until told to stop (None).
    fn exchange(
        &mut self,
        request: &Request,
        stop: &dyn Fn() -> bool,
        effort: &mut Effort,
    ) -> Result<Option<Answer>, WireError>;
}

pub struct TcpWire {
    stream: TcpStream,
}

impl TcpWire {
    /// Connects, trying again until told to stop (None): the counter may not be up yet.
    pub fn connect(address: SocketAddr, linear_timeouts: bool, stop: &dyn Fn() -> bool) -> io::Result<Option<Self>> {
        while !stop() {
            // Longer than the second after which the kernel repeats a lost SYN.
            let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(2)) else {
                thread::sleep(BETWEEN_ATTEMPTS);
                continue;
            };
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            // TCP_USER_TIMEOUT stays unset: the kernel then gives a silent connection up only after some 15
            // minutes (net.ipv4.tcp_retries2), which is what lets it live through a failover.
            if linear_timeouts {
                setsockopt(&stream, LinearTimeouts, &true)?;
            }
            return Ok(Some(Self { stream }));
        }
        Ok(None)
    }
}

impl Wire for TcpWire {
    fn exchange(
        &mut self,
        request: &Request,
        stop: &dyn Fn() -> bool,
        _effort: &mut Effort,
    ) -> Result<Option<Answer>, WireError> {
        self.stream.write_all(&request.encode())?;
        let mut bytes = [0; ANSWER_BYTES];
        let mut filled = 0;
        while filled < ANSWER_BYTES {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return Err(WireError::Closed),
                Ok(count) => filled += count,
                Err(error) if is_interruption(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if filled < ANSWER_BYTES && stop() {
                return Ok(None);
            }
        }
        let answer = Answer::decode(&bytes)?;
        if (answer.client, answer.sequence) != (request.client, request.sequence) {
            return Err(WireError::OtherRequest { found: answer.sequence, wanted: request.sequence });
        }
        Ok(Some(answer))
    }
}

/// A UDP socket of its own for one peer.
pub struct UdpWire {
    socket: UdpSocket,
    resend_after: Duration,
}

impl UdpWire {
    pub fn connect(address: SocketAddr, resend_after: Duration) -> io::Result<Self> {
        Ok(Self { socket: connect_udp(address)?, resend_after })
    }

    /// Waits until the time is up for the answer to `request`.
    fn receive_until(&self, deadline: Instant, request: &Request, effort: &mut Effort) -> Option<Answer> {
        let mut bytes = [0; ANSWER_BYTES + 1];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            // Refused by the kernel is only a time of zero.
            let _ = self.socket.set_read_timeout(Some(left));
            match self.socket.recv(&mut bytes) {
                // What cannot be read counts as lost on its way.
                Ok(length) => match Answer::decode(&bytes[..length]) {
                    Ok(answer) if (answer.client, answer.sequence) == (request.client, request.sequence) => {
                        return Some(answer);
                    }
                    Ok(_) => effort.late += 1,
                    Err(_) => {}
                },
                Err(error) if is_interruption(&error) => {}
                // Nobody there (yet, or for a while): as silent as a lost datagram, only sooner.
                Err(_) => thread::sleep(left.min(BETWEEN_ATTEMPTS)),
            }
        }
    }
}

impl Wire for UdpWire {
    fn exchange(
        &mut self,
        request: &Request,
        stop: &dyn Fn() -> bool,
        effort: &mut Effort,
    ) -> Result<Option<Answer>, WireError> {
        let mut resend_at = Instant::now();
        let mut copies = 0_u64;
        loop {
            if Instant::now() >= resend_at {
                // A network that is down for now refuses this; the next copy may pass.
                let _ = self.socket.send(&request.encode());
                effort.resent += u64::from(copies > 0);
                copies += 1;
                resend_at = Instant::now() + self.resend_after;
            }
            let deadline = resend_at.min(Instant::now() + PATIENCE);
            if let Some(answer) = self.receive_until(deadline, request, effort) {
                return Ok(Some(answer));
            }
            if stop() {
                return Ok(None);
            }
        }
    }
}

/// Whether a blocking call ended only for its time-out or a signal.
fn is_interruption(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
