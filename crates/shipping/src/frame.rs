//! The frame codec: bytes in, verified frames or a typed error out. It never waits and holds at most one
//! frame.
//!
//! A frame is a header of 40 bytes, little-endian, and a payload of at most 1 MiB:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | magic `STSH` |
//! | 4 | 2 | protocol version |
//! | 6 | 1 | kind |
//! | 7 | 1 | zero |
//! | 8 | 8 | term |
//! | 16 | 8 | epoch, 0 where a kind has none |
//! | 24 | 4 | payload length |
//! | 28 | 4 | checksum of the other 36 header bytes (low half of XXH3-64) |
//! | 32 | 8 | checksum of the payload (XXH3-64) |
//!
//! The header has a checksum of its own so that a damaged length is refused at once instead of being waited
//! for. Magic and version come first and are judged first: a peer of another version may lay out the rest
//! differently.

use std::fmt;

use stealtime_succession::{Epoch, Term};
use xxhash_rust::xxh3::xxh3_64;

use crate::version::ProtocolVersion;

/// The bytes in front of each payload.
pub const HEADER_BYTES: usize = 40;

/// The longest payload. Heartbeats go between frames, so a frame bounds how long a heartbeat waits: 1 MiB is
/// 8 ms at 1 Gbit/s, and the encoder's own frames are a fifteenth of that.
pub const PAYLOAD_LIMIT_BYTES: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"STSH";

/// What the user may do about two hosts without a version in common.
pub(crate) const OTHER_RELEASE: &str =
    "install the same version of stealtime on both hosts, or two that follow each other";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    Hello = 1,
    Welcome = 2,
    Refuse = 3,
    Heartbeat = 4,
    EpochBegin = 5,
    Pages = 6,
    Devices = 7,
    EpochEnd = 8,
    Acknowledge = 9,
    Protected = 10,
    Resign = 11,
    Bye = 12,
    Addresses = 13,
    CopyHeld = 14,
    Confirmed = 15,
    Inquire = 16,
    Told = 17,
    Call = 18,
    Leaving = 19,
    DiskWrites = 20,
    DiskDigests = 21,
    DiskWanted = 22,
    Comparison = 23,
}

impl FrameKind {
    const ALL: [Self; 23] = [
        Self::Hello,
        Self::Welcome,
        Self::Refuse,
        Self::Heartbeat,
        Self::EpochBegin,
        Self::Pages,
        Self::Devices,
        Self::EpochEnd,
        Self::Acknowledge,
        Self::Protected,
        Self::Resign,
        Self::Bye,
        Self::Addresses,
        Self::CopyHeld,
        Self::Confirmed,
        Self::Inquire,
        Self::Told,
        Self::Call,
        Self::Leaving,
        Self::DiskWrites,
        Self::DiskDigests,
        Self::DiskWanted,
        Self::Comparison,
    ];

    fn from_byte(byte: u8) -> Result<Self, FrameError> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte).ok_or(FrameError::UnknownKind { kind: byte })
    }

    /// Whether frames of this kind overtake others on a link: what tells that a member lives, and what lets
    /// output go.
    pub const fn is_urgent(self) -> bool {
        matches!(self, Self::Heartbeat | Self::Acknowledge)
    }
}

/// One whole, verified frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    /// The term in which the sender speaks.
    pub term: Term,
    /// The epoch that is spoken of, or 0.
    pub epoch: Epoch,
    /// The payload, without the header.
    pub payload: Vec<u8>,
}

/// A frame as it goes over the line: header, checksums and payload.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedFrame {
    bytes: Vec<u8>,
    kind: FrameKind,
}

/// Why bytes are not frames. Each of them ends the connection: a stream has no place to start again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame begins with the bytes {found:02x?} instead of {MAGIC:02x?}: the peer is no stealtime-replicator")]
    Magic {
        /// The four bytes that were read.
        found: [u8; 4],
    },
    #[error("the peer speaks version {theirs} of the protocol, and this host version {ours}")]
    Version {
        /// The version in the peer's frame.
        theirs: u16,
        ours: u16,
    },
    #[error("the header of a frame does not match its checksum")]
    HeaderChecksum,
    #[error("the {length} bytes of a {kind:?} frame do not match their checksum")]
    PayloadChecksum { kind: FrameKind, length: usize },
    #[error("a frame has the unknown kind {kind}")]
    UnknownKind {
        /// The byte that was read.
        kind: u8,
    },
    #[error("a {kind:?} frame has {length} bytes, over the limit of {PAYLOAD_LIMIT_BYTES}")]
    Oversized { kind: FrameKind, length: usize },
    #[error("the stream ended inside a frame: {have} of {want} bytes")]
    Truncated {
        /// Bytes of the frame that had come, header included.
        have: usize,
        /// Bytes that the frame needs; the header's length where not even that had come.
        want: usize,
    },
}

impl FrameError {
    /// What the user may do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Version { .. } => OTHER_RELEASE,
            Self::Magic { .. } => "check the address: it should be that of `stealtime-replicator host`",
            _ => "the connection damages data, or a host's memory does; the epoch was not applied",
        }
    }
}

impl EncodedFrame {
    /// Writes one frame, in the newest version.
    ///
    /// # Errors
    /// [`FrameError::Oversized`] if `payload` is longer than [`PAYLOAD_LIMIT_BYTES`].
    pub fn new(kind: FrameKind, term: Term, epoch: Epoch, payload: &[u8]) -> Result<Self, FrameError> {
        let oversized = FrameError::Oversized { kind, length: payload.len() };
        if payload.len() > PAYLOAD_LIMIT_BYTES {
            return Err(oversized);
        }
        let length = u32::try_from(payload.len()).map_err(|_| oversized)?;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&ProtocolVersion::NEWEST.number().to_le_bytes());
        bytes.extend_from_slice(&[kind as u8, 0]);
        bytes.extend_from_slice(&term.0.to_le_bytes());
        bytes.extend_from_slice(&epoch.0.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&xxh3_64(payload).to_le_bytes());
        let checksum = header_checksum(&bytes);
        bytes[28..32].copy_from_slice(&checksum);
        bytes.extend_from_slice(payload);
        Ok(Self { bytes, kind })
    }

    /// The same in another version. What a payload of a kind may be is the same in all that are spoken.
    #[must_use]
    pub fn in_version(mut self, version: ProtocolVersion) -> Self {
        if version != ProtocolVersion::NEWEST {
            self.bytes[4..6].copy_from_slice(&version.number().to_le_bytes());
            let checksum = header_checksum(&self.bytes);
            self.bytes[28..32].copy_from_slice(&checksum);
        }
        self
    }

    pub fn kind(&self) -> FrameKind {
        self.kind
    }

    /// The frame's bytes on the line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for EncodedFrame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "EncodedFrame({:?}, {} bytes)", self.kind, self.bytes.len())
    }
}

/// The checksum of a header without its own four bytes.
fn header_checksum(header: &[u8]) -> [u8; 4] {
    let mut others = [0; HEADER_BYTES - 4];
    others[..28].copy_from_slice(&header[..28]);
    others[28..].copy_from_slice(&header[32..HEADER_BYTES]);
    let [a, b, c, d, ..] = xxh3_64(&others).to_le_bytes();
    [a, b, c, d]
}

/// What a header says of the payload after it.
struct Header {
    kind: FrameKind,
    term: Term,
    epoch: Epoch,
    length: usize,
    payload_checksum: u64,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES], version: ProtocolVersion) -> Result<Self, FrameError> {
        if bytes[..4] != MAGIC {
            return Err(FrameError::Magic { found: array(bytes, 0) });
        }
        let (theirs, ours) = (u16::from_le_bytes(array(bytes, 4)), version.number());
        if theirs != ours {
            return Err(FrameError::Version { theirs, ours });
        }
        if header_checksum(bytes) != array(bytes, 28) || bytes[7] != 0 {
            return Err(FrameError::HeaderChecksum);
        }
        let kind = FrameKind::from_byte(bytes[6])?;
        let length = u32::from_le_bytes(array(bytes, 24)) as usize;
        if length > PAYLOAD_LIMIT_BYTES {
            return Err(FrameError::Oversized { kind, length });
        }
        Ok(Self {
            kind,
            term: Term(u64::from_le_bytes(array(bytes, 8))),
            epoch: Epoch(u64::from_le_bytes(array(bytes, 16))),
            length,
            payload_checksum: u64::from_le_bytes(array(bytes, 32)),
        })
    }
}

fn array<const N: usize>(bytes: &[u8; HEADER_BYTES], from: usize) -> [u8; N] {
    std::array::from_fn(|offset| bytes[from + offset])
}

/// Takes bytes as they come and gives whole, verified frames.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    version: ProtocolVersion,
    buffer: Vec<u8>,
    start: usize,
}

impl FrameDecoder {
    /// A decoder that has seen nothing, and takes frames of one version.
    pub fn new(version: ProtocolVersion) -> Self {
        Self { version, ..Self::default() }
    }

    /// The buffer to which the next bytes of the stream are to be appended, in whatever pieces they come.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        &mut self.buffer
    }

    /// Adds bytes in whatever pieces they came.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer().extend_from_slice(bytes);
    }

    /// The next whole frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// A [`FrameError`] as soon as the bytes show it.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((header, rest)) = self.buffer[self.start..].split_first_chunk() else { return Ok(None) };
        let header = Header::parse(header, self.version)?;
        let Some(payload) = rest.get(..header.length) else { return Ok(None) };
        if xxh3_64(payload) != header.payload_checksum {
            return Err(FrameError::PayloadChecksum { kind: header.kind, length: header.length });
        }
        let frame = Frame { kind: header.kind, term: header.term, epoch: header.epoch, payload: payload.to_vec() };
        self.start += HEADER_BYTES + header.length;
        Ok(Some(frame))
    }

    /// Says that no more bytes will come.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if a part of a frame is left, or what is wrong with that part.
    pub fn finish(&self) -> Result<(), FrameError> {
        let rest = &self.buffer[self.start..];
        if rest.is_empty() {
            return Ok(());
        }
        let want = match rest.first_chunk() {
            Some(header) => HEADER_BYTES + Header::parse(header, self.version)?.length,
            None => HEADER_BYTES,
        };
        Err(FrameError::Truncated { have: rest.len(), want })
    }
}
