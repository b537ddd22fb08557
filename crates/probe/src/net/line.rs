//! The socket to the peer: whole messages out, whole answers in, never waiting but where it is said.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use stealtime_wire::NetTransport;

use super::message::{Answer, answer_of, length_of};
use crate::sys::wait_for_socket;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

/// A connected socket.
pub struct Line {
    socket: Socket,
    /// Of a stream: what came and is no whole message yet.
    begun: Vec<u8>,
    /// Where in `begun` the next message starts.
    read: usize,
    /// Of a stream: what the kernel had no room for.
    unsent: Vec<u8>,
    buffer: Vec<u8>,
}

impl Line {
    pub fn connect(peer: SocketAddr, transport: NetTransport) -> io::Result<Self> {
        let socket = match transport {
            NetTransport::Udp => {
                let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(peer)?;
                socket.set_nonblocking(true)?;
                Socket::Udp(socket)
            }
            NetTransport::Tcp => {
                let stream = TcpStream::connect_timeout(&peer, CONNECT)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Socket::Tcp(stream)
            }
        };
        let buffer = vec![0; 1 << 17];
        Ok(Self { socket, begun: Vec::with_capacity(1 << 18), read: 0, unsent: Vec::with_capacity(1 << 18), buffer })
    }

    /// Hands a message to the kernel; false if there is no room for it now.
    ///
    /// # Errors
    /// The connection is gone. What the network says of a datagram is no error: it counts as lost.
    #[inline(always)]
    pub fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        match &mut self.socket {
            Socket::Udp(socket) => match socket.send(message) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Err(error),
                _ => Ok(true),
            },
            Socket::Tcp(stream) => {
                if !self.unsent.is_empty() {
                    return Ok(false);
                }
                let sent = match stream.write(message) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    sent => sent?,
                };
                self.unsent.extend_from_slice(&message[sent..]);
                Ok(true)
            }
        }
    }

    /// Waits until there is something to read, or room to send if that `is_wanted`, but no longer than `timeout_ns`.
    pub fn wait(&mut self, is_wanted: bool, timeout_ns: u64) -> io::Result<()> {
        let descriptor = match &self.socket {
            Socket::Udp(socket) => socket.as_raw_fd(),
            Socket::Tcp(stream) => stream.as_raw_fd(),
        };
        wait_for_socket(descriptor, is_wanted || !self.unsent.is_empty(), timeout_ns)?;
        self.send_rest()
    }

    fn send_rest(&mut self) -> io::Result<()> {
        let Socket::Tcp(stream) = &mut self.socket else { return Ok(()) };
        while !self.unsent.is_empty() {
            match stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives an answer that has come, if one has.
    ///
    /// # Errors
    /// The connection is gone, or the peer sends something else.
    #[inline(always)]
    pub fn receive(&mut self) -> io::Result<Option<Answer>> {
        match &mut self.socket {
            Socket::Udp(socket) => loop {
                match socket.recv(&mut self.buffer) {
                    Ok(length) => match answer_of(&self.buffer[..length]) {
                        None => {}
                        answer => return Ok(answer),
                    },
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    // What the network said of an earlier datagram, which counts as lost.
                    Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::Interrupted) => {}
                    Err(error) => return Err(error),
                }
            },
            Socket::Tcp(stream) => loop {
                if let Some(answer) = next_of(&self.begun, &mut self.read)? {
                    return Ok(Some(answer));
                }
                match stream.read(&mut self.buffer) {
                    Ok(0) => return Err(ErrorKind::ConnectionAborted.into()),
                    Ok(length) => {
                        self.begun.drain(..self.read);
                        self.read = 0;
                        self.begun.extend_from_slice(&self.buffer[..length]);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
        }
    }
}

/// The next whole message of a stream.
fn next_of(begun: &[u8], read: &mut usize) -> io::Result<Option<Answer>> {
    let left = &begun[*read..];
    if left.len() < super::message::HEAD_BYTES {
        return Ok(None);
    }
    let length = length_of(left).ok_or(ErrorKind::InvalidData)?;
    let Some(message) = left.get(..length) else { return Ok(None) };
    *read += length;
    Ok(Some(answer_of(message).ok_or(ErrorKind::InvalidData)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::message::{message, set_number};

    #[test]
    fn messages_of_a_stream_are_told_apart_however_they_arrive() {
        let mut first = message(64, 1);
        set_number(&mut first, 5);
        let stream = [&first[..], &message(48, 1)[..], &first[..40]].concat();
        let mut read = 0;
        let numbers: Vec<u64> =
            std::iter::from_fn(|| next_of(&stream, &mut read).unwrap()).map(|answer| answer.number).collect();
        assert_eq!((numbers, read), (vec![5, 0], 112));
        assert!(next_of(&[0; 64], &mut 0).is_err());
    }
}
