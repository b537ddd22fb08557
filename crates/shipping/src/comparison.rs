//! What some pages and blocks hold at the active side after an epoch: the standby holds its own against it.
//!
//! Each page is its index and its digest (XXH3-64), each block its disk, its number and its digest (XXH3-128), in
//! little endian: against chance, as a bit that turned over.

use stealtime_disk::BlockDigest;
use stealtime_succession::{Epoch, Term};
use xxhash_rust::xxh3::xxh3_64;

use crate::page::PAGE_BYTES;

const PAGE_RECORD: usize = 16;
const BLOCK_RECORD: usize = 1 + 8 + 16;

/// Some of the content that a standby must have once it has this epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The sender's term.
    pub term: Term,
    pub epoch: Epoch,
    /// Index and digest of pages of the guest's memory.
    pub pages: Vec<(u64, u64)>,
    /// The disk, the number and the digest of blocks.
    pub blocks: Vec<(u8, u64, BlockDigest)>,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.blocks.is_empty()
    }
}

/// The digest of a page.
pub fn page_digest(page: &[u8; PAGE_BYTES]) -> u64 {
    xxh3_64(page)
}

/// Bytes that are no comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a comparison of {0} bytes is none")]
pub struct ComparisonError(usize);

pub(crate) fn write_comparison(comparison: &Comparison) -> Vec<u8> {
    let mut body = (comparison.pages.len() as u64).to_le_bytes().to_vec();
    for (index, digest) in &comparison.pages {
        body.extend_from_slice(&index.to_le_bytes());
        body.extend_from_slice(&digest.to_le_bytes());
    }
    for (disk, block, BlockDigest(digest)) in &comparison.blocks {
        body.push(*disk);
        body.extend_from_slice(&block.to_le_bytes());
        body.extend_from_slice(digest);
    }
    body
}

pub(crate) fn read_comparison(term: Term, epoch: Epoch, body: &[u8]) -> Result<Comparison, ComparisonError> {
    let error = || ComparisonError(body.len());
    let (count, rest) = body.split_first_chunk().ok_or_else(error)?;
    let count = usize::try_from(u64::from_le_bytes(*count)).map_err(|_| error())?;
    let length = count.checked_mul(PAGE_RECORD).ok_or_else(error)?;
    let (pages, blocks) = rest.split_at_checked(length).ok_or_else(error)?;
    let (blocks, []) = blocks.as_chunks::<BLOCK_RECORD>() else { return Err(error()) };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let digest = |bytes: &[u8]| {
        let mut digest = [0; 16];
        digest.copy_from_slice(bytes);
        BlockDigest(digest)
    };
    Ok(Comparison {
        term,
        epoch,
        pages: pages.as_chunks::<PAGE_RECORD>().0.iter().map(|page| (number(&page[..8]), number(&page[8..]))).collect(),
        blocks: blocks.iter().map(|block| (block[0], number(&block[1..9]), digest(&block[9..]))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_comparison_comes_back_and_any_bytes_are_read_without_a_panic(
            pages in vec(any::<(u64, u64)>(), 0..20),
            blocks in vec(any::<(u8, u64, [u8; 16])>(), 0..5),
            bytes in vec(any::<u8>(), 0..200),
        ) {
            let (term, epoch) = (Term(3), Epoch(7));
            let blocks = blocks.into_iter().map(|(disk, block, digest)| (disk, block, BlockDigest(digest))).collect();
            let sent = Comparison { term, epoch, pages, blocks };
            let mut body = write_comparison(&sent);
            prop_assert_eq!(read_comparison(term, epoch, &body), Ok(sent));
            body.pop();
            prop_assert!(read_comparison(term, epoch, &body).is_err());
            let _ = read_comparison(term, epoch, &bytes);
        }
    }
}
