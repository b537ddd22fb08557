//! Small epochs of every kind of page, and streams cut into messages.

use stealtime_shipping::{
    EncodedFrame, EpochToShip, FrameDecoder, Message, MessageError, PAGE_BYTES, PageEncoder, StagedEpoch, StagedPage,
};
use stealtime_succession::{Epoch, Term};

pub const TERM: Term = Term(3);

/// A guest's memory that a test writes to.
#[derive(Clone)]
pub struct Memory(pub Vec<u8>);

impl Memory {
    pub fn new(pages: usize) -> Self {
        Self(vec![0; pages * PAGE_BYTES])
    }

    pub fn pages(&self) -> u64 {
        (self.0.len() / PAGE_BYTES) as u64
    }

    pub fn page_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.0[index * PAGE_BYTES..][..PAGE_BYTES]
    }

    pub fn staged(&self, indices: &[u64]) -> Vec<u8> {
        indices.iter().flat_map(|&index| &self.0[index as usize * PAGE_BYTES..][..PAGE_BYTES]).copied().collect()
    }

    /// What the standby does with an epoch that it acknowledged.
    pub fn apply(&mut self, epoch: &StagedEpoch) {
        for &index in epoch.zero_pages.iter().chain(&epoch.pages) {
            let page = match epoch.find(index) {
                Some(StagedPage::Zero) => [0; PAGE_BYTES],
                Some(StagedPage::Content(page)) => *page,
                None => panic!("page {index} is listed and not there"),
            };
            self.page_mut(index as usize).copy_from_slice(&page);
        }
    }
}

/// Bytes that do not compress, the same for the same seed (xorshift64).
pub fn noise(seed: u64, bytes: &mut [u8]) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for byte in bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state.to_le_bytes()[3];
    }
}

/// Encodes pages of `memory` as one epoch.
pub fn frames_of(
    encoder: &mut PageEncoder,
    memory: &Memory,
    epoch: u64,
    indices: &[u64],
    devices: &[u8],
) -> Vec<EncodedFrame> {
    let full = indices.len() as u64 == memory.pages();
    let content = memory.staged(indices);
    let mut frames = Vec::new();
    let to_ship =
        EpochToShip { term: TERM, epoch: Epoch(epoch), full, indices, content: &content, disks: &[], devices };
    let statistics = encoder.encode(&to_ship, &mut |frame| frames.push(frame)).unwrap();
    assert_eq!(statistics.pages(), indices.len() as u64);
    assert_eq!(statistics.shipped_bytes, frames.iter().map(|frame| frame.as_bytes().len() as u64).sum::<u64>());
    frames
}

pub fn bytes_of(frames: &[EncodedFrame]) -> Vec<u8> {
    frames.iter().flat_map(EncodedFrame::as_bytes).copied().collect()
}

/// The messages in `bytes`, up to the first error.
pub fn messages_of(bytes: &[u8]) -> (Vec<Message>, Result<(), MessageError>) {
    let mut decoder = FrameDecoder::default();
    decoder.feed(bytes);
    let mut messages = Vec::new();
    loop {
        let message = match decoder.next_frame() {
            Ok(Some(frame)) => Message::decode(frame),
            Ok(None) => return (messages, decoder.finish().map_err(MessageError::from)),
            Err(error) => return (messages, Err(error.into())),
        };
        match message {
            Ok(message) => messages.push(message),
            Err(error) => return (messages, Err(error)),
        }
    }
}

/// A memory of eight pages, its first full epoch, and a second one with a page of each kind.
pub struct TwoEpochs {
    pub first_memory: Memory,
    pub second_memory: Memory,
    pub first: Vec<EncodedFrame>,
    pub second: Vec<EncodedFrame>,
}

pub fn two_epochs() -> TwoEpochs {
    let mut memory = Memory::new(8);
    for index in 1..8 {
        noise(index as u64, &mut memory.page_mut(index)[..64]);
    }
    let mut encoder = PageEncoder::new(8, true);
    let first = frames_of(&mut encoder, &memory, 1, &[0, 1, 2, 3, 4, 5, 6, 7], b"first devices");
    let first_memory = memory.clone();
    memory.page_mut(1).fill(0);
    memory.page_mut(3)[100] ^= 0x5a;
    memory.page_mut(3)[4000] = 1;
    memory.page_mut(5).iter_mut().enumerate().for_each(|(offset, byte)| *byte = (offset % 11) as u8);
    let second = frames_of(&mut encoder, &memory, 2, &[1, 2, 3, 5], b"second devices");
    TwoEpochs { first_memory, second_memory: memory, first, second }
}
