//! Why an epoch is not staged.

use stealtime_succession::{Epoch, Term};

use super::{BatchError, PackingError};
use crate::disks::DiskPieceError;

/// Why an epoch was not staged. Nothing was applied, and nothing may be acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageError {
    /// A message of an epoch without its head, or a head within an epoch.
    #[error("{message} of {epoch} comes {place}")]
    Order { message: &'static str, epoch: Epoch, place: &'static str },
    #[error("{epoch} is of {term}, and this standby is of {expected}")]
    Term {
        epoch: Epoch,
        term: Term,
        /// The term that counts.
        expected: Term,
    },
    #[error("{epoch} comes where {expected} is due")]
    Epoch {
        epoch: Epoch,
        /// The one that is due.
        expected: Epoch,
    },
    #[error("{epoch} is a difference, and there is nothing before it")]
    NothingBefore { epoch: Epoch },
    /// An epoch announces more than there can be, or a full one not everything.
    #[error("{epoch} announces {announced} {what}, and the limit is {limit}")]
    Announced {
        epoch: Epoch,
        /// Pages or bytes.
        what: &'static str,
        announced: u64,
        /// How many there may be.
        limit: u64,
    },
    #[error("batch {batch} of {epoch} is malformed: {error}")]
    Batch { epoch: Epoch, batch: u32, error: BatchError },
    #[error("a piece of the device state of {epoch} is malformed: {error}")]
    Devices { epoch: Epoch, error: PackingError },
    #[error("what {epoch} has of the disks is malformed: {error}")]
    Disks { epoch: Epoch, error: DiskPieceError },
    #[error("batch {batch} of {epoch} comes where batch {expected} is due")]
    BatchNumber {
        epoch: Epoch,
        batch: u32,
        /// The one that is due.
        expected: u32,
    },
    /// A page comes twice, out of order or beyond the RAM.
    #[error("page {index} of {epoch} comes where pages {least} to {limit} may come")]
    PageIndex {
        epoch: Epoch,
        index: u64,
        /// The page after the last one.
        least: u64,
        /// The pages of the RAM.
        limit: u64,
    },
    #[error("page {index} of {epoch} is a difference, and the epoch is a full one")]
    DeltaInFull { epoch: Epoch, index: u64 },
    /// What was decoded is not what was encoded: the content before is another one here, or memory is
    /// damaged.
    #[error("batch {batch} of {epoch} does not decode to what was shipped")]
    DecodedHash { epoch: Epoch, batch: u32 },
    #[error("{epoch} has {found} {what}, and announced {announced}")]
    Incomplete {
        epoch: Epoch,
        /// Pages or bytes.
        what: &'static str,
        found: u64,
        /// How many should have come.
        announced: u64,
    },
    #[error("{epoch} does not match its digest")]
    Digest { epoch: Epoch },
    #[error("{epoch} comes after an epoch that was refused")]
    Broken { epoch: Epoch },
}
