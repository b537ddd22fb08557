//! How an epoch's pages travel.
//!
//! Each page is zero, the same as before, a difference (XOR) from what was shipped before, or raw. Pages go
//! in batches, in ascending order, with a hash of what they decode to. A batch is, little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | number of the batch within the epoch |
//! | 8 | hash of the indices and the decoded content of its pages |
//! | 1 | packing of the contents: 0 as they are, 1 LZ4 block |
//! | 4 | length of the contents before packing |
//! | 2 | number of runs |
//! | 2.. a run | variable-length numbers: gap to the run before (the first: page index), and `count << 2 \| kind` |
//! | the rest | packed contents of the differences and raw pages, one after the other |
//!
//! The state of the devices goes in pieces, each a packing, a length and packed contents as in a batch. So do the
//! writes of the disks ([`crate::disks`]).
//!
//! An epoch as a whole carries a digest over the hashes of its batches and over its device state.

mod batch;
mod delta;
mod digest;
mod encoder;
mod layers;
mod packing;
mod shadow;
mod stage_error;
mod staged;
mod stager;
mod statistics;
mod varint;

pub use batch::BatchError;
pub use encoder::{EncodeError, EpochEncoder, EpochToShip, PageEncoder};
pub use layers::{Layers, PageSource};
pub use packing::PackingError;
pub use stage_error::StageError;
pub use staged::{StagedEpoch, StagedPage};
pub use stager::{EpochStager, StagerLimits};
pub use statistics::EncodeStatistics;
