//! The sockets of thousands of streams.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use thiserror::Error;

use crate::rtp::settings::{Ports, Receive, Speaking};
use crate::sockets::{any, make_room, stamp};

/// For all streams on one socket: what 2,000 of them send in a quarter of a second, at some 1,300 bytes of the
/// kernel's memory for a packet.
const BUFFER_BYTES: usize = 32 << 20;

/// Files that the process has open besides sockets.
const OTHER_FILES: u64 = 32;

#[derive(Debug, Error)]
pub enum SocketError {
    #[error("{0} cannot be listened at or sent from")]
    Bind(SocketAddr, #[source] std::io::Error),
    #[error("{0} cannot be sent to")]
    Connect(SocketAddr, #[source] std::io::Error),
    #[error("{streams} streams from port {first} on, {step} apart, would need port {last}; the last one is 65535")]
    Ports { first: u16, step: u16, streams: usize, last: u64 },
    #[error("{sockets} sockets are needed, and this process may open {most} files")]
    Files { sockets: u64, most: u64 },
    #[error("{0} cannot be read")]
    Destinations(PathBuf, #[source] std::io::Error),
    #[error("line {line} of {path} is {text:?}, which is no ADDRESS:PORT")]
    Destination { path: PathBuf, line: usize, text: String },
    #[error("{0} names no destination")]
    NoDestination(PathBuf),
    #[error("{0} has streams for both IPv4 and IPv6, which one port cannot send")]
    Mixed(PathBuf),
}

impl SocketError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Bind(..) => "is the port taken, and the address one of this machine (or namespace)?",
            Self::Connect(..) => "is there a route to it?",
            Self::Ports { .. } => "begin at a lower port, take --step 1, or --ports one",
            Self::Files { .. } => "raise the limit (ulimit -n), or take --ports one",
            Self::Destinations(..) | Self::Destination { .. } | Self::NoDestination(_) => {
                "write one destination a line, for example 192.0.2.1:30000; what follows # is ignored"
            }
            Self::Mixed(_) => "take --ports each",
        }
    }
}

/// The sockets that streams are sent from, and where each stream goes.
pub struct Outgoing {
    pub sockets: OutgoingSockets,
    pub destinations: Vec<SocketAddr>,
}

pub enum OutgoingSockets {
    /// One for all streams.
    Shared(UdpSocket),
    /// One for each stream, connected to where it goes.
    Own(Vec<UdpSocket>),
    /// One for each stream, open to whoever sends there.
    Open(Vec<UdpSocket>),
}

/// What else the sockets that streams are sent from are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    Nothing,
    /// What the other end sends back.
    Returns,
    /// Whatever comes: a relay need not send from where it hears (RFC 4961 section 4).
    Anybody,
}

impl OutgoingSockets {
    /// Other handles of the same sockets.
    pub fn try_clone(&self) -> std::io::Result<Vec<UdpSocket>> {
        match self {
            Self::Shared(socket) => Ok(vec![socket.try_clone()?]),
            Self::Own(sockets) | Self::Open(sockets) => sockets.iter().map(UdpSocket::try_clone).collect(),
        }
    }
}

/// Opens what `rtp send` and `rtp talk` need.
pub fn outgoing(speaking: &Speaking, hearing: Hearing) -> Result<Outgoing, SocketError> {
    let destinations = match (&speaking.destinations, speaking.to) {
        (Some(path), _) => read_destinations(path)?,
        (None, Some(to)) if speaking.ports == Ports::Each => spaced(to, speaking.step, speaking.streams as usize)?,
        (None, to) => to.into_iter().cycle().take(speaking.streams as usize).collect(),
    };
    let sockets = match speaking.ports {
        Ports::One => {
            let first = destinations[0];
            if let (Some(path), true) =
                (&speaking.destinations, destinations.iter().any(|other| other.is_ipv4() != first.is_ipv4()))
            {
                return Err(SocketError::Mixed(path.clone()));
            }
            OutgoingSockets::Shared(bind(speaking.from.unwrap_or_else(|| any(first)))?)
        }
        Ports::Each => {
            // What comes to them is read through handles of their own.
            allow_files(destinations.len() * if hearing == Hearing::Nothing { 1 } else { 2 })?;
            let from = match speaking.from {
                Some(from) => spaced(from, speaking.step, destinations.len())?,
                None => destinations.iter().map(|to| any(*to)).collect(),
            };
            let open = |(from, to): (SocketAddr, &SocketAddr)| {
                let socket = bind(from)?;
                if hearing != Hearing::Anybody {
                    socket.connect(to).map_err(|error| SocketError::Connect(*to, error))?;
                }
                Ok(socket)
            };
            let sockets = from.into_iter().zip(&destinations).map(open).collect::<Result<_, _>>()?;
            if hearing == Hearing::Anybody { OutgoingSockets::Open(sockets) } else { OutgoingSockets::Own(sockets) }
        }
    };
    Ok(Outgoing { sockets, destinations })
}

/// Opens what `rtp receive` needs.
pub fn incoming(receive: &Receive) -> Result<Vec<UdpSocket>, SocketError> {
    match receive.ports {
        Ports::One => Ok(vec![bind(receive.at)?]),
        Ports::Each => {
            allow_files(receive.streams as usize)?;
            spaced(receive.at, receive.step, receive.streams as usize)?.into_iter().map(bind).collect()
        }
    }
}

/// Has the kernel tell when each packet came and how many it had no room for: whether it stamps them.
pub fn watch(sockets: &[UdpSocket]) -> bool {
    let mut stamps = true;
    for socket in sockets {
        stamps &= stamp(socket);
        if sockets.len() == 1 {
            make_room(socket, BUFFER_BYTES);
        }
    }
    stamps
}

fn bind(at: SocketAddr) -> Result<UdpSocket, SocketError> {
    UdpSocket::bind(at).map_err(|error| SocketError::Bind(at, error))
}

/// The ports of streams, from the first on; of port 0 the kernel chooses each.
fn spaced(first: SocketAddr, step: u16, streams: usize) -> Result<Vec<SocketAddr>, SocketError> {
    if first.port() == 0 {
        return Ok(vec![first; streams]);
    }
    let number = |stream: usize| u64::from(first.port()) + stream as u64 * u64::from(step);
    let port = |stream: usize| {
        let port = u16::try_from(number(stream)).map_err(|_| SocketError::Ports {
            first: first.port(),
            step,
            streams,
            last: number(streams.saturating_sub(1)),
        })?;
        Ok(SocketAddr::new(first.ip(), port))
    };
    (0..streams).map(port).collect()
}

fn read_destinations(path: &Path) -> Result<Vec<SocketAddr>, SocketError> {
    let text = fs::read_to_string(path).map_err(|error| SocketError::Destinations(path.to_owned(), error))?;
    let mut destinations = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let wrong = |_| SocketError::Destination { path: path.to_owned(), line, text: text.to_owned() };
        destinations.push(text.parse().map_err(wrong)?);
    }
    if destinations.is_empty() { Err(SocketError::NoDestination(path.to_owned())) } else { Ok(destinations) }
}

/// Raises the limit on open files, as far as the process may.
fn allow_files(sockets: usize) -> Result<(), SocketError> {
    let wanted = sockets as u64 + OTHER_FILES;
    // A limit that cannot be read is found out when a socket is opened.
    let Ok((now, most)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if now >= wanted {
        return Ok(());
    }
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, most.max(wanted));
    let raised = raised.or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, wanted.min(most), most));
    if raised.is_ok() && wanted <= getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(now, _)| now) {
        Ok(())
    } else {
        Err(SocketError::Files { sockets: sockets as u64, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_step_apart_and_end_with_the_last() {
        let first = "127.0.0.1:65530".parse().unwrap();
        let ports: Vec<u16> = spaced(first, 2, 3).unwrap().iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [65530, 65532, 65534]);
        let error = spaced(first, 2, 4).unwrap_err();
        assert!(matches!(error, SocketError::Ports { last: 65536, .. }), "{error}");
    }

    #[test]
    fn destinations_are_read_line_by_line() {
        let path = std::env::temp_dir().join(format!("destinations-{}", std::process::id()));
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            let read = read_destinations(&path);
            fs::remove_file(&path).unwrap();
            read
        };
        let found = read("# of the relay\n127.0.0.1:4000\n\n[::1]:4002 # the second\n").unwrap();
        assert_eq!(found, ["127.0.0.1:4000".parse().unwrap(), "[::1]:4002".parse().unwrap()]);
        assert!(matches!(read("127.0.0.1:4000\nrelay\n"), Err(SocketError::Destination { line: 2, .. })));
        assert!(matches!(read("#\n"), Err(SocketError::NoDestination(_))));
    }
}
