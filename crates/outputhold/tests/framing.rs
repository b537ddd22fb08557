//! QEMU's stream, cut into any pieces, gives the same frames.

use std::io::{self, Read, Write};

use proptest::prelude::*;
use stealtime_outputhold::{FramingError, InputQueue, MAXIMUM_FRAME_BYTES, OutputReader};

/// Gives the stream in pieces of these sizes, and has nothing between them.
struct Pieces {
    stream: Vec<u8>,
    at: usize,
    sizes: Vec<usize>,
    next_size: usize,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.next_size % self.sizes.len()];
        self.next_size += 1;
        if size == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = size.min(buffer.len()).min(self.stream.len() - self.at);
        buffer[..count].copy_from_slice(&self.stream[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Takes at most so many bytes a write, and sometimes none.
struct Narrow {
    taken: Vec<u8>,
    sizes: Vec<usize>,
    next_size: usize,
}

impl Write for Narrow {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let size = self.sizes[self.next_size % self.sizes.len()];
        self.next_size += 1;
        if size == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = size.min(buffer.len());
        self.taken.extend_from_slice(&buffer[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn stream_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    for frame in frames {
        stream.extend_from_slice(&u32::try_from(frame.len()).unwrap().to_be_bytes());
        stream.extend_from_slice(frame);
    }
    stream
}

fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let frame = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..80),
        2 => prop::collection::vec(any::<u8>(), 1500..1519),
        1 => Just(vec![0x5a; MAXIMUM_FRAME_BYTES]),
    ];
    prop::collection::vec(frame, 0..12)
}

/// Sizes of which at least one lets something through.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![Just(0), 1_usize..10, 1000_usize..70_000], 0..8).prop_map(|mut sizes| {
        sizes.push(777);
        sizes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_pieces_of_a_stream_give_its_frames(frames in frames(), sizes in sizes()) {
        let mut source = Pieces { stream: stream_of(&frames), at: 0, sizes, next_size: 0 };
        let mut reader = OutputReader::default();
        let mut got = Vec::new();
        loop {
            while let Some(frame) = reader.next_frame().unwrap() {
                got.push(frame.to_vec());
            }
            prop_assert!(!reader.has_frame());
            match reader.fill(&mut source) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        prop_assert_eq!(got, frames);
        prop_assert_eq!(reader.unread_bytes(), 0);
    }

    #[test]
    fn input_reaches_a_slow_qemu_whole_and_in_order(frames in frames(), sizes in sizes(), limit in 1_usize..5000) {
        let mut queue = InputQueue::new(limit);
        let mut target = Narrow { taken: Vec::new(), sizes, next_size: 0 };
        for frame in &frames {
            while queue.is_full() {
                queue.write_to(&mut target).unwrap();
            }
            queue.take(|buffer| {
                buffer[..frame.len()].copy_from_slice(frame);
                Ok(frame.len())
            }).unwrap();
            prop_assert!(queue.pending_bytes() < limit + 4 + MAXIMUM_FRAME_BYTES);
        }
        while !queue.write_to(&mut target).unwrap() {}
        prop_assert_eq!(target.taken, stream_of(&frames));
    }
}

#[test]
fn a_frame_longer_than_qemu_makes_is_refused_by_its_length() {
    let length = u32::try_from(MAXIMUM_FRAME_BYTES).unwrap() + 1;
    let mut reader = OutputReader::default();
    reader.fill(&mut length.to_be_bytes().as_slice()).unwrap();
    assert!(reader.has_frame(), "the reader has something to say");
    assert_eq!(reader.next_frame(), Err(FramingError::Oversize { length }));
    assert_eq!(reader.next_frame(), Err(FramingError::Oversize { length }), "and it stays out of step");
}

#[test]
fn a_full_input_queue_reads_nothing_more() {
    let mut queue = InputQueue::new(10);
    assert_eq!(queue.take(|_| Ok(6)).unwrap(), 6);
    assert!(queue.is_full());
    assert_eq!(queue.take(|_| panic!("a full queue must not read")).unwrap(), 0);
}
