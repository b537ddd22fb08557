//! Any bytes become messages or one typed error, any batch of pages an epoch's part or one typed error, never a panic;
//! and what was refused once stays refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stealtime_shipping::frame::FrameKind;
use stealtime_shipping::{
    EncodedFrame, EpochBegin, EpochEnd, EpochStager, FrameDecoder, Message, PAGE_BYTES, PageBatch, StagerLimits,
};
use stealtime_succession::{Epoch, Term};

const PAGES: u64 = 64;
const KINDS: [FrameKind; 13] = [
    FrameKind::Hello,
    FrameKind::Welcome,
    FrameKind::Refuse,
    FrameKind::Heartbeat,
    FrameKind::EpochBegin,
    FrameKind::Pages,
    FrameKind::Devices,
    FrameKind::EpochEnd,
    FrameKind::Acknowledge,
    FrameKind::Protected,
    FrameKind::Resign,
    FrameKind::Bye,
    FrameKind::Addresses,
];

/// Bytes straight from the line.
fn stream(bytes: &[u8], piece_bytes: usize) {
    let mut decoder = FrameDecoder::default();
    for piece in bytes.chunks(piece_bytes) {
        decoder.feed(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => drop(Message::decode(frame)),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_frame(), Err(error), "an error ends the stream");
                    return;
                }
            }
        }
    }
    let _ = decoder.finish();
}

/// A payload behind a right checksum.
fn message(kind: FrameKind, payload: &[u8]) {
    let Ok(frame) = EncodedFrame::new(kind, Term(1), Epoch(1), payload) else { return };
    let mut decoder = FrameDecoder::default();
    decoder.feed(frame.as_bytes());
    let frame = decoder.next_frame().expect("the frame is whole").expect("the frame is right");
    if let Ok(message) = Message::decode(frame) {
        assert_eq!(message.kind(), kind);
        assert_eq!((message.term(), message.encode().is_ok()), (Term(1), true));
    }
}

/// A batch of pages behind right checksums, in a full epoch and in a later one.
fn batch(body: &[u8], full: bool) {
    let base = vec![0x5a; usize::try_from(PAGES).expect("it is small") * PAGE_BYTES];
    let (term, epoch) = (Term(1), Epoch(if full { 1 } else { 2 }));
    let mut stager = EpochStager::new(StagerLimits::new(PAGES), term);
    if !full {
        let first = first_epoch();
        first.iter().for_each(|message| drop(stager.accept(message, &base).expect("the first epoch is right")));
    }
    let begin = EpochBegin { term, epoch, full, pages: if full { PAGES } else { 4 }, device_bytes: 0 };
    stager.begin(&begin).expect("the head is right");
    let result = stager.pages(&PageBatch { term, epoch, body: body.to_vec() }, &base);
    let staged = stager.end(&EpochEnd { term, epoch, digest: 0 });
    assert!(staged.is_err(), "nobody guesses a digest");
    if result.is_err() {
        assert!(stager.begin(&begin).is_err(), "what was refused stays refused");
    }
}

/// A full epoch of zeros.
fn first_epoch() -> Vec<Message> {
    let mut encoder = stealtime_shipping::PageEncoder::new(PAGES, false);
    let content = vec![0; usize::try_from(PAGES).expect("it is small") * PAGE_BYTES];
    let indices: Vec<u64> = (0..PAGES).collect();
    let to_ship = stealtime_shipping::EpochToShip {
        term: Term(1),
        epoch: Epoch(1),
        full: true,
        indices: &indices,
        content: &content,
        devices: b"",
    };
    let mut decoder = FrameDecoder::default();
    encoder.encode(&to_ship, &mut |frame| decoder.feed(frame.as_bytes())).expect("the epoch is right");
    let mut messages = Vec::new();
    while let Some(frame) = decoder.next_frame().expect("the frames are right") {
        messages.push(Message::decode(frame).expect("the messages are right"));
    }
    messages
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (way, number, bytes) = input;
    match way % 4 {
        0 => stream(bytes, usize::from(number).max(1)),
        1 => message(KINDS[usize::from(number) % KINDS.len()], bytes),
        2 => batch(bytes, true),
        _ => batch(bytes, false),
    }
});
