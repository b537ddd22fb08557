//! The codec against everything that can come over a line.

use proptest::collection::vec;
use proptest::prelude::*;
use stealtime_wire::frame::{ARROW_LIMIT_BYTES, HEADER_BYTES, MESSAGE_LIMIT_BYTES};
use stealtime_wire::{Frame, FrameDecoder, FrameError, FrameKind, encode_frame};

fn kinds() -> impl Strategy<Value = FrameKind> {
    prop_oneof![Just(FrameKind::Message), Just(FrameKind::Arrow)]
}

fn frames() -> impl Strategy<Value = Vec<(FrameKind, Vec<u8>)>> {
    vec((kinds(), vec(any::<u8>(), 0..300)), 0..8)
}

/// Feeds `bytes` in pieces of the given sizes, over and over.
fn decode(bytes: &[u8], sizes: &[usize]) -> (Vec<Frame>, Result<(), FrameError>) {
    let mut decoder = FrameDecoder::new();
    let mut decoded = Vec::new();
    let mut rest = bytes;
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at(size.clamp(1, rest.len()));
        decoder.feed(piece);
        rest = after;
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => decoded.push(frame),
                Ok(None) => break,
                Err(error) => return (decoded, Err(error)),
            }
        }
    }
    (decoded, decoder.finish())
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded_however_it_is_cut(frames in frames(), sizes in vec(1_usize..50, 1..10)) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, payload)| encode_frame(*kind, payload).unwrap()).collect();
        let (decoded, end) = decode(&bytes, &sizes);
        prop_assert_eq!(end, Ok(()));
        let expected: Vec<Frame> = frames.into_iter().map(|(kind, payload)| Frame { kind, payload }).collect();
        prop_assert_eq!(decoded, expected);
    }

    #[test]
    fn a_frame_cut_short_is_truncated(kind in kinds(), payload in vec(any::<u8>(), 1..300), keep in 0.0_f64..1.0) {
        let bytes = encode_frame(kind, &payload).unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let kept = ((bytes.len() as f64 * keep) as usize).max(1);
        let (decoded, end) = decode(&bytes[..kept], &[kept]);
        prop_assert!(decoded.is_empty());
        let want = if kept < HEADER_BYTES { HEADER_BYTES } else { bytes.len() };
        prop_assert_eq!(end, Err(FrameError::Truncated { have: kept, want }));
    }

    #[test]
    fn any_bytes_give_frames_or_an_error(bytes in vec(any::<u8>(), 0..2_000), sizes in vec(1_usize..200, 1..10)) {
        let (decoded, _) = decode(&bytes, &sizes);
        let consumed: usize = decoded.iter().map(|frame| HEADER_BYTES + frame.payload.len()).sum();
        prop_assert!(consumed <= bytes.len());
    }
}

#[test]
fn an_unknown_kind_is_an_error_before_its_payload_has_come() {
    let mut decoder = FrameDecoder::new();
    decoder.feed(&[1, 0, 0, 0, 9]);
    assert_eq!(decoder.next_frame(), Err(FrameError::UnknownKind { kind: 9 }));
}

#[test]
fn an_oversized_frame_is_an_error_before_its_payload_has_come() {
    for (kind, limit) in [(FrameKind::Message, MESSAGE_LIMIT_BYTES), (FrameKind::Arrow, ARROW_LIMIT_BYTES)] {
        let length = limit + 1;
        let oversized = FrameError::Oversized { kind: kind.to_byte(), length, limit };
        assert_eq!(encode_frame(kind, &vec![0; length]), Err(oversized.clone()));
        let mut decoder = FrameDecoder::new();
        decoder.feed(&u32::try_from(length).unwrap().to_le_bytes());
        decoder.feed(&[kind.to_byte()]);
        assert_eq!(decoder.next_frame(), Err(oversized));
    }
}
