//! The stream between QEMU and us: each frame after its length, 4 bytes, big-endian.
//!
//! Format and largest frame: QEMU's `net/socket.c` and `net/stream.c`, which share `net_socket_rs_init`
//! (`NET_BUFSIZE` in `include/net/net.h`: 4096 + 65536).

use std::io::{self, Read, Write};

use thiserror::Error;

/// The largest frame that QEMU itself takes from such a stream.
pub const MAXIMUM_FRAME_BYTES: usize = 4096 + 65536;

const LENGTH_BYTES: usize = 4;

/// One read takes up to this many bytes: about 40 full frames, or several hundred small ones.
const READ_BYTES: usize = 64 * 1024;

/// A stream that cannot be what QEMU sends.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum FramingError {
    /// The stream is out of step, or its writer is not QEMU.
    #[error("a frame of {length} bytes was announced in the guest's output, but at most {MAXIMUM_FRAME_BYTES} can be")]
    Oversize {
        /// The length that the stream gave.
        length: u32,
    },
}

/// Takes frames out of the stream that QEMU writes. Allocates once.
#[derive(Debug)]
pub struct OutputReader {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for OutputReader {
    fn default() -> Self {
        let capacity = LENGTH_BYTES + MAXIMUM_FRAME_BYTES + READ_BYTES;
        Self { buffer: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
    }
}

impl OutputReader {
    /// Read once from `source`; returns the number of bytes, 0 at its end.
    ///
    /// Take all frames with [`OutputReader::next_frame`] before: then there is room for a whole read.
    ///
    /// # Errors
    /// Those of `source`; [`io::ErrorKind::WouldBlock`] if it has nothing now.
    pub fn fill(&mut self, source: &mut impl Read) -> io::Result<usize> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.buffer.len() - self.end < READ_BYTES {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let room = self.buffer.len().min(self.end + READ_BYTES);
        if room == self.end {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = source.read(&mut self.buffer[self.end..room])?;
        self.end += count;
        Ok(count)
    }

    /// The next complete frame.
    ///
    /// # Errors
    /// [`FramingError::Oversize`]; the stream is then of no more use.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        let Some(length) = self.next_length()? else { return Ok(None) };
        let frame = self.start + LENGTH_BYTES..self.start + LENGTH_BYTES + length;
        if frame.end > self.end {
            return Ok(None);
        }
        self.start = frame.end;
        Ok(Some(&self.buffer[frame]))
    }

    /// Whether [`OutputReader::next_frame`] has something to say without another read.
    pub fn has_frame(&self) -> bool {
        match self.next_length() {
            Ok(Some(length)) => self.end - self.start >= LENGTH_BYTES + length,
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Bytes that were read and not yet taken.
    pub fn unread_bytes(&self) -> usize {
        self.end - self.start
    }

    fn next_length(&self) -> Result<Option<usize>, FramingError> {
        let Some(bytes) = self.buffer[self.start..self.end].first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*bytes);
        if length as usize > MAXIMUM_FRAME_BYTES {
            return Err(FramingError::Oversize { length });
        }
        Ok(Some(length as usize))
    }
}

/// Frames on their way to QEMU, in order, framed, with what it has not yet taken. Allocates once.
#[derive(Debug)]
pub struct InputQueue {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    limit_bytes: usize,
}

impl InputQueue {
    /// A queue that is full at `limit_bytes`; the last frame may go beyond.
    pub fn new(limit_bytes: usize) -> Self {
        let capacity = limit_bytes + LENGTH_BYTES + MAXIMUM_FRAME_BYTES;
        Self { buffer: vec![0; capacity].into_boxed_slice(), start: 0, end: 0, limit_bytes }
    }

    /// Whether no further frame should be taken now.
    pub fn is_full(&self) -> bool {
        self.pending_bytes() >= self.limit_bytes
    }

    /// Bytes that QEMU has not taken yet.
    pub fn pending_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Take one frame from `read`, which writes it to the place it is given and returns its length.
    ///
    /// Nothing is read while the queue is full: 0 is returned then.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn take(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        if self.is_full() {
            return Ok(0);
        }
        self.make_room();
        let content = self.end + LENGTH_BYTES;
        let length = read(&mut self.buffer[content..content + MAXIMUM_FRAME_BYTES])?;
        let prefix = u32::try_from(length).map_err(io::Error::other)?.to_be_bytes();
        self.buffer[self.end..content].copy_from_slice(&prefix);
        self.end = content + length;
        Ok(length)
    }

    /// Room for a frame that is read only to be forgotten.
    pub fn scratch(&mut self) -> &mut [u8] {
        self.make_room();
        &mut self.buffer[self.end..]
    }

    fn make_room(&mut self) {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.buffer.len() - self.end < LENGTH_BYTES + MAXIMUM_FRAME_BYTES {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Write what `target` takes; returns whether nothing is left.
    ///
    /// # Errors
    /// Those of `target`, except that it has no room: that is `Ok(false)`.
    pub fn write_to(&mut self, target: &mut impl Write) -> io::Result<bool> {
        while self.start < self.end {
            match target.write(&self.buffer[self.start..self.end]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.start += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
