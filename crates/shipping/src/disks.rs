//! How changes of disks travel, and how two images are compared.
//!
//! Writes go in pieces of at most 64 KiB before packing, in the order in which they were made. A piece has whole
//! records, little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | number of the disk |
//! | 1 | 0: data follow, 1: zeros, of which nothing follows |
//! | 8 | offset in bytes |
//! | 8 | length in bytes |
//! | length | the data |
//!
//! Long writes are several records. Digests of blocks go as the number of the disk (1), the first block (8), and 16
//! bytes for each block.

use stealtime_disk::{BlockDigest, Content, Write};
use stealtime_succession::Term;

use crate::pages::PackingError;

const HEAD_BYTES: usize = 1 + 1 + 8 + 8;
const DATA: u8 = 0;
const ZEROES: u8 = 1;

/// The longest data of one record: what is left of a piece by a short record has room for another.
const RECORD_DATA_BYTES: usize = 16 << 10;

/// The digests of blocks of one disk, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskDigests {
    /// The sender's term.
    pub term: Term,
    /// Its number among the machine's disks.
    pub disk: u8,
    /// The first block.
    pub first: u64,
    pub digests: Vec<BlockDigest>,
}

/// Why bytes are no changes of disks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskPieceError {
    #[error("it ends early")]
    Truncated,
    #[error("a record has the unknown kind {0}")]
    Kind(u8),
    #[error("a range of {length} bytes from {offset} on is none")]
    Range { offset: u64, length: u64 },
    #[error(transparent)]
    Packing(#[from] PackingError),
}

/// Writes as records: where, how long, and the data of those that have some.
fn records(writes: &[Write]) -> impl Iterator<Item = (u8, u64, u64, Option<&[u8]>)> {
    writes.iter().flat_map(|write| {
        let (data, zeroes) = match &write.content {
            Content::Data(data) => (data.as_slice(), None),
            Content::Zeroes(length) => (&[][..], Some((write.disk, write.offset, *length, None))),
        };
        let data = data.chunks(RECORD_DATA_BYTES).enumerate().map(|(number, chunk)| {
            let offset = write.offset + (number * RECORD_DATA_BYTES) as u64;
            (write.disk, offset, chunk.len() as u64, Some(chunk))
        });
        data.chain(zeroes)
    })
}

/// How many bytes all pieces of these writes have, before packing.
pub fn encoded_bytes(writes: &[Write]) -> u64 {
    records(writes).map(|(_, _, _, data)| (HEAD_BYTES + data.map_or(0, <[u8]>::len)) as u64).sum()
}

/// Writes in pieces of at most so many bytes.
pub(crate) fn pieces(writes: &[Write], limit_bytes: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut records = records(writes).peekable();
    std::iter::from_fn(move || {
        let mut piece = Vec::new();
        while let Some((disk, offset, length, data)) =
            records.next_if(|(_, _, _, data)| piece.len() + HEAD_BYTES + data.map_or(0, <[u8]>::len) <= limit_bytes)
        {
            piece.extend_from_slice(&[disk, if data.is_some() { DATA } else { ZEROES }]);
            piece.extend_from_slice(&offset.to_le_bytes());
            piece.extend_from_slice(&length.to_le_bytes());
            piece.extend_from_slice(data.unwrap_or_default());
        }
        (!piece.is_empty()).then_some(piece)
    })
}

fn take<'bytes>(bytes: &mut &'bytes [u8], count: usize) -> Result<&'bytes [u8], DiskPieceError> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(DiskPieceError::Truncated)?;
    *bytes = rest;
    Ok(taken)
}

fn take_number(bytes: &mut &[u8]) -> Result<u64, DiskPieceError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(DiskPieceError::Truncated)?;
    *bytes = rest;
    Ok(u64::from_le_bytes(*taken))
}

/// Read the records of a piece, behind those that are there.
pub(crate) fn read_writes(mut piece: &[u8], writes: &mut Vec<Write>) -> Result<(), DiskPieceError> {
    while !piece.is_empty() {
        let (disk, kind) = (take(&mut piece, 1)?[0], take(&mut piece, 1)?[0]);
        let (offset, length) = (take_number(&mut piece)?, take_number(&mut piece)?);
        let range = DiskPieceError::Range { offset, length };
        if length == 0 || offset.checked_add(length).is_none() {
            return Err(range);
        }
        let content = match kind {
            DATA => {
                let count = usize::try_from(length).map_err(|_| range)?;
                Content::Data(take(&mut piece, count)?.to_vec())
            }
            ZEROES => Content::Zeroes(length),
            other => return Err(DiskPieceError::Kind(other)),
        };
        writes.push(Write { disk, offset, content });
    }
    Ok(())
}

pub(crate) fn write_digests(digests: &DiskDigests) -> Vec<u8> {
    let mut body = vec![digests.disk];
    body.extend_from_slice(&digests.first.to_le_bytes());
    digests.digests.iter().for_each(|digest| body.extend_from_slice(&digest.0));
    body
}

pub(crate) fn read_digests(term: Term, mut body: &[u8]) -> Result<DiskDigests, DiskPieceError> {
    let disk = take(&mut body, 1)?[0];
    let first = take_number(&mut body)?;
    let (digests, rest) = body.as_chunks();
    if !rest.is_empty() {
        return Err(DiskPieceError::Truncated);
    }
    Ok(DiskDigests { term, disk, first, digests: digests.iter().map(|digest| BlockDigest(*digest)).collect() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn writes() -> impl Strategy<Value = Vec<Write>> {
        let content = prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..60_000).prop_map(Content::Data),
            (1_u64..1 << 40).prop_map(Content::Zeroes),
        ];
        let write = (0_u8..4, 0_u64..1 << 40, content);
        let write = write.prop_map(|(disk, offset, content)| Write { disk, offset, content });
        proptest::collection::vec(write, 0..8)
    }

    /// What a disk is after these writes, as far as they reach.
    fn bytes_of(writes: &[Write]) -> Vec<(u8, u64, Option<u8>, u64)> {
        writes
            .iter()
            .flat_map(|write| match &write.content {
                Content::Data(data) => data
                    .iter()
                    .zip(write.offset..)
                    .map(|(byte, at)| (write.disk, at, Some(*byte), 1))
                    .collect::<Vec<_>>(),
                Content::Zeroes(length) => vec![(write.disk, write.offset, None, *length)],
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_written_comes_in_its_order(writes in writes()) {
            let mut found = Vec::new();
            let mut bytes = 0;
            for piece in pieces(&writes, 64 << 10) {
                prop_assert!(piece.len() <= 64 << 10);
                bytes += piece.len() as u64;
                read_writes(&piece, &mut found).unwrap();
            }
            prop_assert_eq!(bytes, encoded_bytes(&writes));
            prop_assert_eq!(bytes_of(&found), bytes_of(&writes));
        }

        #[test]
        fn bytes_that_are_no_piece_are_refused_and_nothing_else_happens(piece in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut found = Vec::new();
            if read_writes(&piece, &mut found).is_ok() {
                prop_assert!(found.iter().all(|write| !write.is_empty()));
            }
            let _ = read_digests(Term(1), &piece);
        }
    }

    #[test]
    fn digests_come_as_they_went() {
        let digests = [&b"a"[..], b"b"].map(BlockDigest::of).to_vec();
        let sent = DiskDigests { term: Term(3), disk: 1, first: 512, digests };
        let body = write_digests(&sent);
        assert_eq!(read_digests(Term(3), &body), Ok(sent));
        assert_eq!(read_digests(Term(3), &body[..body.len() - 1]), Err(DiskPieceError::Truncated));
    }
}
