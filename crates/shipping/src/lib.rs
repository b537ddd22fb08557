//! How epochs travel from the host that runs a virtual machine to the host that stands by.
//!
//! - [`frame`]: bytes in, frames out; each frame names its term and epoch and has checksums over all of it.
//! - [`message`]: what frames say. [`hello`] judges whether two hosts fit together.
//! - [`version`]: of two that follow each other, the one that both hosts know.
//! - [`pages`]: the encoder of written pages, and the stager, which decodes and verifies a whole epoch before
//!   any of it may be acknowledged or applied. What was written of disks goes with them.
//! - [`transport`]: links over unix sockets and over TCP with mutual TLS, on which heartbeats overtake pages.
//!
//! All but [`transport`] is synchronous and does no input or output.

mod comparison;
mod disks;
pub mod frame;
pub mod hello;
pub mod message;
mod page;
pub mod pages;
mod question;
pub mod refusal;
pub mod transport;
pub mod version;

pub use comparison::{Comparison, ComparisonError, page_digest};
pub use disks::{DiskDigests, DiskPieceError, encoded_bytes};
pub use frame::{EncodedFrame, FrameDecoder, FrameError};
pub use hello::{
    Hello, Image, LocalFacts, Offer, RamBlock, RegisterLook, Wanted, Welcome, judge, judge_offer, needed_bytes,
};
pub use message::{
    Acknowledge, Addresses, AddressesInVlan, Confirmed, CopyHeld, DevicePiece, DiskPiece, DiskWanted, EpochBegin,
    EpochEnd, Heartbeat, Leaving, Message, MessageError, PageBatch, Protected, Resign,
};
pub use page::PAGE_BYTES;
pub use pages::{
    EncodeError, EncodeStatistics, EpochEncoder, EpochStager, EpochToShip, Layers, PageEncoder, PageSource, StageError,
    StagedEpoch, StagedPage, StagerLimits,
};
pub use question::{Inquire, Living, Told, Verdict};
pub use refusal::Refusal;
pub use transport::{
    AcceptedStream, CertificateEnd, Endpoint, EndpointError, Identity, IdentityError, Link, LinkError, LinkReceiver,
    LinkSender, Listener, accept, connect,
};
pub use version::ProtocolVersion;
