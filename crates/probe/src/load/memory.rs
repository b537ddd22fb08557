//! The load `memory`: endless copying of a block from one place to another.
//!
//! The paper's neighbour is "an infinite loop of `memcpy()` function that copies 9 MB (a value that is larger
//! than the whole caches) from one object to another" (same source as [`super::cpu`], scenario 4). Here the
//! two blocks are copied in pieces of 64 KiB, so that the clock is looked at between them; the copy goes on
//! where it was, through the whole block. Work is counted in bytes **copied**: each of them is read once and
//! written once, and a write to a line that is in no cache reads that line first, so that the memory bus
//! carries up to three times as much.
//!
//! The copying is a fixed loop over cache lines ([`crate::sys::copy_lines`]) instead of the C library's
//! `memcpy`, which would be another one on each machine and may bypass the caches: the load is to take lines
//! from its neighbours.

use std::collections::TryReserveError;

use stealtime_wire::WorkUnit;

use crate::load::work::Work;
use crate::sys::copy_lines;

/// Between two looks at the clock: some ten microseconds.
const PIECE_BYTES: usize = 64 << 10;

/// Two blocks and where the copying is.
pub struct MemoryWork {
    from: Vec<u8>,
    to: Vec<u8>,
    position: usize,
}

impl MemoryWork {
    /// Makes both blocks present, each page by a write: memory that was never written is one and the same
    /// page of zeros, which fits any cache.
    pub fn new(block_bytes: usize) -> Result<Self, TryReserveError> {
        Ok(Self { from: filled(block_bytes, 0x5A)?, to: filled(block_bytes, 0xA5)?, position: 0 })
    }
}

fn filled(bytes: usize, value: u8) -> Result<Vec<u8>, TryReserveError> {
    let mut block = Vec::new();
    block.try_reserve_exact(bytes)?;
    block.resize(bytes, value);
    Ok(block)
}

impl Work for MemoryWork {
    const UNIT: WorkUnit = WorkUnit::Bytes;

    #[inline(always)]
    fn step(&mut self) -> u64 {
        let end = self.from.len().min(self.position + PIECE_BYTES);
        let piece = self.position..end;
        let copied = piece.len() as u64;
        copy_lines(&self.from[piece.clone()], &mut self.to[piece]);
        self.position = if end == self.from.len() { 0 } else { end };
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_copied_whole_before_it_begins_again() {
        let bytes = 2 * PIECE_BYTES + 1000;
        let mut work = MemoryWork::new(bytes).unwrap();
        let steps = [work.step(), work.step(), work.step()];
        assert_eq!(steps, [PIECE_BYTES as u64, PIECE_BYTES as u64, 1000]);
        assert_eq!(work.from, work.to);
        assert_eq!(work.step(), PIECE_BYTES as u64);
    }
}
