//! Any bytes, in any pieces, become frames that encode to the same bytes, or one typed error, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stealtime_wire::frame::{Frame, FrameDecoder, FrameError, FrameKind, encode_frame};

/// What a stream came to: its whole frames, then why no more followed.
fn decode(pieces: impl Iterator<Item = impl AsRef<[u8]>>) -> (Vec<Frame>, Result<(), FrameError>) {
    let mut decoder = FrameDecoder::new();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.feed(piece.as_ref());
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
    }
    (frames, decoder.finish())
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece_bytes, bytes) = input;
    let (frames, end) = decode(bytes.chunks(usize::from(piece_bytes).max(1)));

    // How the bytes were cut must not matter.
    let whole = decode(std::iter::once(bytes));
    assert_eq!((&frames, &end), (&whole.0, &whole.1));

    // What was understood is, byte for byte, what came.
    let mut again = Vec::new();
    for frame in &frames {
        again.extend(encode_frame(frame.kind, &frame.payload).expect("a decoded frame is within its limit"));
        if frame.kind == FrameKind::Message {
            // A message of any content is understood or refused.
            let _ = serde_json::from_slice::<stealtime_wire::message::FromAgent>(&frame.payload);
            let _ = serde_json::from_slice::<stealtime_wire::message::ToAgent>(&frame.payload);
        }
    }
    assert!(bytes.starts_with(&again));
    if end.is_ok() {
        assert_eq!(again.len(), bytes.len());
    }
});
