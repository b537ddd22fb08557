//! What goes over the wire: a request of 40 bytes, an answer of 152 bytes, both of fixed length and
//! big-endian.
//!
//! ```text
//! request  magic 4 "STCQ"  version 2  operation 2  client 8  sequence 8  sent_ns 8  checksum 8
//! answer   magic 4 "STCA"  version 2  outcome 2    client 8  sequence 8  sent_ns 8  applied 8  chain 8  total 8
//!          digest 8  guest_ns 8  raw_ns 8  real_ns 8  pages 8  verified 8  mismatches 8  boot 16  life 16
//!          checksum 8
//! ```
//!
//! The checksum (FNV-1a, 64 bits, of all that stands before it) is there although TCP and UDP have their own:
//! with virtio the two ends may agree to leave those out, and it is the way between them that is under test.

use serde::{Serialize, Serializer};
use thiserror::Error;

/// The length of a request.
pub const REQUEST_BYTES: usize = 40;
/// The length of an answer.
pub const ANSWER_BYTES: usize = 152;

const VERSION: u16 = 2;
const REQUEST_MAGIC: [u8; 4] = *b"STCQ";
const ANSWER_MAGIC: [u8; 4] = *b"STCA";
const CHECKSUM_BYTES: usize = 8;

/// Why bytes are no message.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    #[error("a message has {found} bytes where {wanted} were expected")]
    Length {
        found: usize,
        /// What such a message has.
        wanted: usize,
    },
    #[error("a message begins with {0:02x?}, which is none of the counter")]
    Magic([u8; 4]),
    #[error("a message has version {0}, this program speaks version {VERSION}")]
    Version(u16),
    #[error("a message does not fit its checksum")]
    Checksum,
    #[error("a message has the unknown kind {0}")]
    Kind(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Add one for this client, if the sequence number is its next one.
    Count = 1,
    /// Tell the state, change nothing.
    Status = 2,
    /// Verify all of the memory now, then tell the state.
    Check = 3,
    Reboot = 4,
    /// Power the machine off.
    PowerOff = 5,
}

impl TryFrom<u16> for Operation {
    type Error = ProtocolError;

    fn try_from(number: u16) -> Result<Self, ProtocolError> {
        let all = [Self::Count, Self::Status, Self::Check, Self::Reboot, Self::PowerOff];
        all.into_iter().find(|&each| each as u16 == number).ok_or(ProtocolError::Kind(number))
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Applied = 1,
    /// The sequence number had been counted before; nothing was added.
    Repeated = 2,
    /// Sequence numbers before this one were never counted; nothing was added.
    Gap = 3,
    /// There are too many clients already.
    Full = 4,
    /// The state as it is.
    Told = 5,
    /// The machine will reboot.
    Rebooting = 6,
    /// The program does not do this, or not here.
    Refused = 7,
    /// The machine will power off.
    PoweringOff = 8,
}

impl TryFrom<u16> for Outcome {
    type Error = ProtocolError;

    fn try_from(number: u16) -> Result<Self, ProtocolError> {
        let all = [
            Self::Applied,
            Self::Repeated,
            Self::Gap,
            Self::Full,
            Self::Told,
            Self::Rebooting,
            Self::Refused,
            Self::PoweringOff,
        ];
        all.into_iter().find(|&each| each as u16 == number).ok_or(ProtocolError::Kind(number))
    }
}

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub operation: Operation,
    /// Who asks: a number that no other client has.
    pub client: u64,
    /// Counted from 1 for each client.
    pub sequence: u64,
    /// When it was first sent, by the client's clock; comes back as it is.
    pub sent_ns: u64,
}

/// What the counter answers. As a document it is the counter's state, without what is the client's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// What became of the request.
    pub outcome: Outcome,
    #[serde(skip)]
    pub client: u64,
    #[serde(skip)]
    pub sequence: u64,
    #[serde(skip)]
    pub sent_ns: u64,
    /// How many increments were ever applied for this client.
    #[serde(skip)]
    pub applied: u64,
    /// Made of all of this client's increments in their order, see `extend_chain`.
    #[serde(skip)]
    pub chain: u64,
    /// The counter: the increments of all clients.
    pub total: u64,
    /// Made of the chains of all clients.
    #[serde(serialize_with = "digits_of_digest")]
    pub digest: u64,
    /// `CLOCK_MONOTONIC` of the counter's machine.
    #[serde(rename = "guest_monotonic_ns")]
    pub guest_ns: u64,
    /// Its `CLOCK_MONOTONIC_RAW`, which nothing steers.
    #[serde(rename = "guest_monotonic_raw_ns")]
    pub raw_ns: u64,
    /// `CLOCK_REALTIME` of the counter's machine.
    #[serde(rename = "guest_realtime_ns")]
    pub real_ns: u64,
    /// How many pages of memory the counter rewrites.
    pub pages: u64,
    /// How often a page was verified since the start.
    pub verified: u64,
    /// How often a page was not what it had to be.
    pub mismatches: u64,
    /// The kernel's boot id.
    #[serde(rename = "boot_id", serialize_with = "digits_of_id")]
    pub boot: [u8; 16],
    /// Drawn at the start of the program.
    #[serde(rename = "life_id", serialize_with = "digits_of_id")]
    pub life: [u8; 16],
}

/// A number of 64 bits is not safe in JSON.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn digits_of_digest<To: Serializer>(digest: &u64, to: To) -> Result<To::Ok, To::Error> {
    to.collect_str(&format_args!("{digest:016x}"))
}

fn digits_of_id<To: Serializer>(id: &[u8; 16], to: To) -> Result<To::Ok, To::Error> {
    to.serialize_str(&hexadecimal(id))
}

/// Sixteen bytes as the kernel's files write them, but without hyphens.
pub fn hexadecimal(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

impl Request {
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut writer = Writer::begin(REQUEST_MAGIC, self.operation as u16);
        for number in [self.client, self.sequence, self.sent_ns] {
            writer.put(&number.to_be_bytes());
        }
        writer.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let (mut reader, kind) = Reader::begin(bytes, REQUEST_MAGIC, REQUEST_BYTES)?;
        Ok(Self {
            operation: Operation::try_from(kind)?,
            client: reader.number(),
            sequence: reader.number(),
            sent_ns: reader.number(),
        })
    }
}

impl Answer {
    /// One to a request, in which all else is still to be filled in.
    pub fn to(request: &Request, outcome: Outcome) -> Self {
        Self {
            outcome,
            client: request.client,
            sequence: request.sequence,
            sent_ns: request.sent_ns,
            applied: 0,
            chain: 0,
            total: 0,
            digest: 0,
            guest_ns: 0,
            raw_ns: 0,
            real_ns: 0,
            pages: 0,
            verified: 0,
            mismatches: 0,
            boot: [0; 16],
            life: [0; 16],
        }
    }

    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        let mut writer = Writer::begin(ANSWER_MAGIC, self.outcome as u16);
        let numbers = [
            self.client,
            self.sequence,
            self.sent_ns,
            self.applied,
            self.chain,
            self.total,
            self.digest,
            self.guest_ns,
            self.raw_ns,
            self.real_ns,
            self.pages,
            self.verified,
            self.mismatches,
        ];
        for number in numbers {
            writer.put(&number.to_be_bytes());
        }
        writer.put(&self.boot);
        writer.put(&self.life);
        writer.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let (mut reader, kind) = Reader::begin(bytes, ANSWER_MAGIC, ANSWER_BYTES)?;
        Ok(Self {
            outcome: Outcome::try_from(kind)?,
            client: reader.number(),
            sequence: reader.number(),
            sent_ns: reader.number(),
            applied: reader.number(),
            chain: reader.number(),
            total: reader.number(),
            digest: reader.number(),
            guest_ns: reader.number(),
            raw_ns: reader.number(),
            real_ns: reader.number(),
            pages: reader.number(),
            verified: reader.number(),
            mismatches: reader.number(),
            boot: reader.take(),
            life: reader.take(),
        })
    }
}

struct Writer<const LENGTH: usize> {
    bytes: [u8; LENGTH],
    at: usize,
}

impl<const LENGTH: usize> Writer<LENGTH> {
    fn begin(magic: [u8; 4], kind: u16) -> Self {
        let mut writer = Self { bytes: [0; LENGTH], at: 0 };
        writer.put(&magic);
        writer.put(&VERSION.to_be_bytes());
        writer.put(&kind.to_be_bytes());
        writer
    }

    fn put(&mut self, part: &[u8]) {
        self.bytes[self.at..self.at + part.len()].copy_from_slice(part);
        self.at += part.len();
    }

    fn finish(mut self) -> [u8; LENGTH] {
        let checksum = checksum(&self.bytes[..self.at]);
        self.put(&checksum.to_be_bytes());
        debug_assert_eq!(self.at, LENGTH, "the layout fills the message");
        self.bytes
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Checks all that can be wrong with a message but its kind, which is the second result.
    fn begin(bytes: &'a [u8], magic: [u8; 4], wanted: usize) -> Result<(Self, u16), ProtocolError> {
        if bytes.len() != wanted {
            return Err(ProtocolError::Length { found: bytes.len(), wanted });
        }
        let (content, sum) = bytes.split_at(wanted - CHECKSUM_BYTES);
        let mut reader = Self(content);
        let found: [u8; 4] = reader.take();
        if found != magic {
            return Err(ProtocolError::Magic(found));
        }
        let version = u16::from_be_bytes(reader.take());
        if version != VERSION {
            return Err(ProtocolError::Version(version));
        }
        if checksum(content).to_be_bytes() != *sum {
            return Err(ProtocolError::Checksum);
        }
        let kind = u16::from_be_bytes(reader.take());
        Ok((reader, kind))
    }

    fn take<const LENGTH: usize>(&mut self) -> [u8; LENGTH] {
        let mut part = [0; LENGTH];
        let (head, rest) = self.0.split_at(LENGTH);
        part.copy_from_slice(head);
        self.0 = rest;
        part
    }

    fn number(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(number: u64) -> Answer {
        Answer {
            outcome: Outcome::Gap,
            client: number,
            sequence: number.wrapping_mul(3),
            sent_ns: number.wrapping_add(1),
            applied: number ^ 5,
            chain: !number,
            total: number / 2,
            digest: number.rotate_left(9),
            guest_ns: 7,
            raw_ns: 13,
            real_ns: 14,
            pages: 8,
            verified: 9,
            mismatches: 10,
            boot: [11; 16],
            life: [12; 16],
        }
    }

    proptest! {
        #[test]
        fn messages_come_back_as_they_were(client: u64, sequence: u64, sent_ns: u64) {
            for number in 1..=5 {
                let operation = Operation::try_from(number).unwrap();
                let request = Request { operation, client, sequence, sent_ns };
                prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
            }
            prop_assert_eq!(Answer::decode(&answer(client).encode()), Ok(answer(client)));
        }

        #[test]
        fn a_flipped_bit_is_refused(number: u64, bit in 0..ANSWER_BYTES * 8) {
            let mut bytes = answer(number).encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Answer::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Request::decode(&bytes).is_err());
            prop_assert!(Answer::decode(&bytes).is_err());
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let good = Request { operation: Operation::Count, client: 1, sequence: 2, sent_ns: 3 }.encode();
        assert_eq!(Request::decode(&good[..39]), Err(ProtocolError::Length { found: 39, wanted: 40 }));
        let changed = |at: usize, to: u8| {
            let mut bytes = good;
            bytes[at] = to;
            let sum = checksum(&bytes[..32]).to_be_bytes();
            bytes[32..].copy_from_slice(&sum);
            Request::decode(&bytes)
        };
        assert_eq!(changed(3, b'A'), Err(ProtocolError::Magic(ANSWER_MAGIC)));
        assert_eq!(changed(5, 9), Err(ProtocolError::Version(9)));
        assert_eq!(changed(7, 99), Err(ProtocolError::Kind(99)));
    }
}
