//! How two images are compared: block by block, by digests.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_128;

/// What is compared and copied at once.
pub const BLOCK_BYTES: u64 = BLOCK_LENGTH as u64;
pub(crate) const BLOCK_LENGTH: usize = 64 << 10;

/// How many blocks are compared in one question: 16 MiB of a disk.
pub const WINDOW_BLOCKS: u64 = 256;

pub(crate) static ZERO_BLOCK: [u8; BLOCK_LENGTH] = [0; BLOCK_LENGTH];

/// What tells blocks apart (XXH3-128: against chance; who may write to one of the hosts needs no collision).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDigest(pub [u8; 16]);

impl BlockDigest {
    pub fn of(content: &[u8]) -> Self {
        Self(xxh3_128(content).to_le_bytes())
    }
}

/// Some blocks of some disks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks(BTreeSet<(u8, u64)>);

impl Blocks {
    /// Add each block that a range of bytes touches.
    pub fn add(&mut self, disk: u8, offset: u64, bytes: u64) {
        if bytes > 0 {
            let (first, last) = (offset / BLOCK_BYTES, (offset + bytes - 1) / BLOCK_BYTES);
            self.0.extend((first..=last).map(|block| (disk, block)));
        }
    }

    /// The disk and the number of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.0.iter().copied()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_that_is_touched_counts_once() {
        let mut blocks = Blocks::default();
        blocks.add(0, 0, 0);
        assert!(blocks.is_empty());
        blocks.add(0, BLOCK_BYTES - 1, 2);
        blocks.add(0, BLOCK_BYTES, BLOCK_BYTES);
        blocks.add(1, 5 * BLOCK_BYTES, 1);
        assert_eq!(blocks.iter().collect::<Vec<_>>(), [(0, 0), (0, 1), (1, 5)]);
    }
}
