//! A port without a network.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

use stealtime_outputhold::FramePort;

/// A port that is one end of a pair of sockets.
pub struct SocketPort(pub UnixDatagram);

impl AsFd for SocketPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl FramePort for SocketPort {
    fn read_frame(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer)
    }

    fn write_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(|_| ())
    }
}
