//! The frame codec: bytes in, frames or a typed error out. It never waits and never allocates more than a
//! frame's stated limit.

/// The bytes in front of each payload: `u32` length and `u8` kind.
pub const HEADER_BYTES: usize = 5;

/// The longest JSON message. Messages carry facts and counters, never samples; 1 MiB is a hundred times the
/// largest seen.
pub const MESSAGE_LIMIT_BYTES: usize = 1 << 20;

/// The longest piece of an Arrow stream. A writer cuts larger pieces; 4 MiB keeps a reader's buffer small.
pub const ARROW_LIMIT_BYTES: usize = 4 << 20;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// One JSON message, UTF-8.
    Message,
    /// A piece of an Arrow IPC stream; the pieces of one stream, put together, are the stream.
    Arrow,
}

impl FrameKind {
    /// The byte that stands for this kind on the wire.
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Message => 1,
            Self::Arrow => 2,
        }
    }

    /// The longest payload that a frame of this kind may have.
    pub const fn limit_bytes(self) -> usize {
        match self {
            Self::Message => MESSAGE_LIMIT_BYTES,
            Self::Arrow => ARROW_LIMIT_BYTES,
        }
    }

    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        match byte {
            1 => Ok(Self::Message),
            2 => Ok(Self::Arrow),
            other => Err(FrameError::UnknownKind { kind: other }),
        }
    }
}

/// A whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the payload is.
    pub kind: FrameKind,
    /// The payload, without the header.
    pub payload: Vec<u8>,
}

/// Why bytes are not frames. Each of them ends the connection: a stream has no place to start again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame has the unknown kind {kind}")]
    UnknownKind {
        /// The byte that was read.
        kind: u8,
    },
    #[error("a frame of kind {kind} announces {length} bytes, over the limit of {limit}")]
    Oversized {
        kind: u8,
        length: usize,
        /// The limit of that kind.
        limit: usize,
    },
    #[error("the input ended inside a frame: {have} of {want} bytes")]
    Truncated {
        /// Bytes of the frame that had come, header included.
        have: usize,
        /// Bytes that the frame needs; the header's length where not even that had come.
        want: usize,
    },
}

/// Writes one frame.
///
/// # Errors
/// [`FrameError::Oversized`] if `payload` is longer than the kind allows.
pub fn encode_frame(kind: FrameKind, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
    let limit = kind.limit_bytes();
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= limit).ok_or(FrameError::Oversized {
        kind: kind.to_byte(),
        length: payload.len(),
        limit,
    })?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.push(kind.to_byte());
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// Takes bytes as they come and gives whole frames.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    start: usize,
}

impl FrameDecoder {
    /// A decoder that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes in whatever pieces they came.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError::UnknownKind`] and [`FrameError::Oversized`], as soon as the header shows it.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some((header, body)) = rest.split_at_checked(HEADER_BYTES) else { return Ok(None) };
        let kind = FrameKind::from_byte(header[4])?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length > kind.limit_bytes() {
            return Err(FrameError::Oversized { kind: header[4], length, limit: kind.limit_bytes() });
        }
        let Some(payload) = body.get(..length) else { return Ok(None) };
        let frame = Frame { kind, payload: payload.to_vec() };
        self.start += HEADER_BYTES + length;
        Ok(Some(frame))
    }

    /// Says that no more bytes will come.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if a part of a frame is left; [`FrameError::UnknownKind`] and
    /// [`FrameError::Oversized`] if that part could never have become a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        let rest = &self.buffer[self.start..];
        if rest.is_empty() {
            return Ok(());
        }
        let want = match rest.split_at_checked(HEADER_BYTES) {
            None => HEADER_BYTES,
            Some((header, _)) => {
                let kind = FrameKind::from_byte(header[4])?;
                let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
                if length > kind.limit_bytes() {
                    return Err(FrameError::Oversized { kind: header[4], length, limit: kind.limit_bytes() });
                }
                HEADER_BYTES + length
            }
        };
        Err(FrameError::Truncated { have: rest.len(), want })
    }
}
