//! RTP packets whose payload tells which one they are, and when they were due and sent.
//!
//! All numbers are big-endian, like those of RTP itself:
//!
//! | bytes of the payload | what |
//! | -- | -- |
//! | 0-7 | `stealrtp` |
//! | 8-11 | version 1; kind: 1 voice, 2 closing report; 1 if a reflector has turned it round; 0 |
//! | 12-15, 16-23 | number of the stream; of the sender, which is drawn at random |
//! | 24-31 | whose clock the sender's times are of |
//! | 32-39 | which packet of its stream it is, from 0 |
//! | 40-47, 48-55 | when it was due; when it was sent, in ns of `CLOCK_MONOTONIC` |
//! | 56-59 | how many streams the sender has |
//! | 60-67, 68-75 | closing report: how many packets of this stream were sent; of all streams |
//! | 76-83, 84-91 | when a reflector received it; when it sent it back, in ns of the reflector's clock |
//! | 92-99 | XXH3 of the bytes before |
//! | 100-159 | silence |

use rtp_types::RtpPacket;
use xxhash_rust::xxh3::xxh3_64;

use crate::g711::{PAYLOAD_BYTES, PAYLOAD_TYPE, SILENCE};

const HEADER_BYTES: usize = 12;

/// A whole packet: an RTP header without extensions, and the payload.
pub const PACKET_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;

const MAGIC: [u8; 8] = *b"stealrtp";
const VERSION: u8 = 1;
const CHECK_AT: usize = 92;
const CHECK_END: usize = 100;

/// What the RTP header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub ssrc: u32,
    pub sequence: u16,
    pub timestamp: u32,
    /// The first packet of a talkspurt (RFC 3551 section 4.1).
    pub marker: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of those that are counted.
    Voice,
    /// It comes after the last of those, so that loss at the end is seen. It is sent several times.
    Closing {
        /// Packets of this stream that were sent.
        stream_sent: u64,
        /// Packets of all its streams that were sent.
        sender_sent: u64,
    },
}

/// A packet was sent back by a reflector, whose clock need not be the sender's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub received_ns: u64,
    pub sent_ns: u64,
}

/// What the payload says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub kind: Kind,
    /// Drawn at random by each `rtp send`.
    pub sender: u64,
    pub stream: u32,
    /// How many streams that sender has.
    pub streams: u32,
    /// The same number wherever `CLOCK_MONOTONIC` is the same clock.
    pub clock: u64,
    /// Which packet of its stream, from 0; closing reports have the numbers after the last.
    pub index: u64,
    pub due_ns: u64,
    pub sent_ns: u64,
    pub turn: Option<Turn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datagram {
    Ours(Header, Mark),
    /// It bears our sign, but what it says is not what was written.
    Corrupted,
    /// Of somebody else.
    OtherRtp,
    /// Control packets on the same port (RFC 5761).
    Rtcp,
    NotRtp,
}

/// Makes a packet of payload type 0.
pub fn write(header: &Header, mark: &Mark) -> [u8; PACKET_BYTES] {
    let mut packet = [SILENCE; PACKET_BYTES];
    // Version 2, neither padding nor extension nor contributing sources.
    packet[0] = 2 << 6;
    packet[1] = u8::from(header.marker) << 7 | PAYLOAD_TYPE;
    packet[2..4].copy_from_slice(&header.sequence.to_be_bytes());
    packet[4..8].copy_from_slice(&header.timestamp.to_be_bytes());
    packet[8..12].copy_from_slice(&header.ssrc.to_be_bytes());
    let (kind, stream_sent, sender_sent) = match mark.kind {
        Kind::Voice => (1, 0, 0),
        Kind::Closing { stream_sent, sender_sent } => (2, stream_sent, sender_sent),
    };
    let turn = mark.turn.unwrap_or(Turn { received_ns: 0, sent_ns: 0 });
    let payload = &mut packet[HEADER_BYTES..];
    payload[..8].copy_from_slice(&MAGIC);
    payload[8..12].copy_from_slice(&[VERSION, kind, u8::from(mark.turn.is_some()), 0]);
    payload[12..16].copy_from_slice(&mark.stream.to_be_bytes());
    payload[56..60].copy_from_slice(&mark.streams.to_be_bytes());
    let numbers = [
        (16, mark.sender),
        (24, mark.clock),
        (32, mark.index),
        (40, mark.due_ns),
        (48, mark.sent_ns),
        (60, stream_sent),
        (68, sender_sent),
        (76, turn.received_ns),
        (84, turn.sent_ns),
    ];
    for (at, number) in numbers {
        payload[at..at + 8].copy_from_slice(&number.to_be_bytes());
    }
    let check = xxh3_64(&payload[..CHECK_AT]);
    payload[CHECK_AT..CHECK_END].copy_from_slice(&check.to_be_bytes());
    packet
}

/// Reads whatever came.
pub fn read(bytes: &[u8]) -> Datagram {
    // RTCP has packet types 192 to 223 where RTP has marker and payload type (RFC 5761 section 4).
    if bytes.len() >= 8 && bytes[0] >> 6 == 2 && (192..=223).contains(&bytes[1]) {
        return Datagram::Rtcp;
    }
    let Ok(packet) = RtpPacket::parse(bytes) else { return Datagram::NotRtp };
    let payload = packet.payload();
    if !payload.starts_with(&MAGIC) {
        return Datagram::OtherRtp;
    }
    let Some(mark) = read_mark(payload) else { return Datagram::Corrupted };
    let header = Header {
        ssrc: packet.ssrc(),
        sequence: packet.sequence_number(),
        timestamp: packet.timestamp(),
        marker: packet.marker_bit(),
    };
    Datagram::Ours(header, mark)
}

fn read_mark(payload: &[u8]) -> Option<Mark> {
    let number = |at: usize| Some(u64::from_be_bytes(payload.get(at..at + 8)?.try_into().ok()?));
    let small = |at: usize| Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?));
    if number(CHECK_AT)? != xxh3_64(payload.get(..CHECK_AT)?) || payload[8] != VERSION {
        return None;
    }
    let kind = match payload[9] {
        1 => Kind::Voice,
        2 => Kind::Closing { stream_sent: number(60)?, sender_sent: number(68)? },
        _ => return None,
    };
    let turn = Turn { received_ns: number(76)?, sent_ns: number(84)? };
    Some(Mark {
        kind,
        sender: number(16)?,
        stream: small(12)?,
        streams: small(56)?,
        clock: number(24)?,
        index: number(32)?,
        due_ns: number(40)?,
        sent_ns: number(48)?,
        turn: (payload[10] != 0).then_some(turn),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub fn any_mark() -> impl Strategy<Value = Mark> {
        let closing =
            any::<(u64, u64)>().prop_map(|(stream_sent, sender_sent)| Kind::Closing { stream_sent, sender_sent });
        let kind = prop_oneof![Just(Kind::Voice), closing];
        let turn = any::<Option<(u64, u64)>>()
            .prop_map(|turn| turn.map(|(received_ns, sent_ns)| Turn { received_ns, sent_ns }));
        (kind, turn, any::<(u32, u32)>(), any::<[u64; 5]>()).prop_map(|(kind, turn, (stream, streams), numbers)| {
            let [sender, clock, index, due_ns, sent_ns] = numbers;
            Mark { kind, sender, stream, streams, clock, index, due_ns, sent_ns, turn }
        })
    }

    pub fn any_header() -> impl Strategy<Value = Header> {
        any::<(u32, u16, u32, bool)>().prop_map(|(ssrc, sequence, timestamp, marker)| Header {
            ssrc,
            sequence,
            timestamp,
            marker,
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(header in any_header(), mark in any_mark()) {
            prop_assert_eq!(read(&write(&header, &mark)), Datagram::Ours(header, mark));
        }

        #[test]
        fn a_changed_byte_of_the_mark_is_seen(
            header in any_header(), mark in any_mark(), at in 20_usize..112, change in 1_u8..=255,
        ) {
            let mut packet = write(&header, &mark);
            packet[at] ^= change;
            prop_assert_eq!(read(&packet), Datagram::Corrupted);
        }

        #[test]
        fn any_bytes_are_something(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(!matches!(read(&bytes), Datagram::Ours(..)));
        }

        #[test]
        fn a_packet_that_was_cut_is_none_of_ours(header in any_header(), mark in any_mark(), length in 0_usize..112) {
            prop_assert!(!matches!(read(&write(&header, &mark)[..length]), Datagram::Ours(..)));
        }
    }

    #[test]
    fn strangers_are_told_apart() {
        let mut other = [0_u8; 172];
        other[0] = 2 << 6;
        assert_eq!(read(&other), Datagram::OtherRtp);
        // A sender report of RTCP.
        let report = [0x80, 200, 0, 1, 0, 0, 0, 0];
        assert_eq!(read(&report), Datagram::Rtcp);
        for stranger in [&b"REGISTER sip:a SIP/2.0\r\n\r\n"[..], b"", &[0x80; 11], &[0x80, 0, 0]] {
            assert_eq!(read(stranger), Datagram::NotRtp, "{stranger:?}");
        }
    }
}
