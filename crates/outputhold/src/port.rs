//! The port through which the guest's frames leave.

use std::io;
use std::os::fd::AsFd;

/// A device that takes and gives whole Ethernet frames without blocking: a [`crate::Tap`], or a socket of a
/// test.
pub trait FramePort: AsFd + Send {
    /// Read one frame into `buffer`; returns its length.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none now.
    fn read_frame(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Write one whole frame.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room now; `ENOBUFS`, `ENOMEM` and `EIO` are taken for
    /// passing.
    fn write_frame(&mut self, frame: &[u8]) -> io::Result<()>;
}
