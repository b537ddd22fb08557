//! What frames say. Control messages are JSON, pages and device state are binary; term and epoch are in the
//! header.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use stealtime_succession::{Epoch, Term};

use crate::comparison::{Comparison, read_comparison, write_comparison};
use crate::disks::{DiskDigests, read_digests, write_digests};
use crate::frame::{EncodedFrame, Frame, FrameError, FrameKind};
use crate::hello::{Hello, Welcome};
use crate::question::{Inquire, Told};
use crate::refusal::Refusal;
use crate::version::ProtocolVersion;

/// One message between the member that is active and the one that stands by.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Active to standby, first: what is to be protected.
    Hello(Box<Hello>),
    /// Standby to active: it takes the machine.
    Welcome(Welcome),
    /// Standby to active: it does not take the machine.
    Refuse {
        term: Term,
        refusal: Refusal,
    },
    /// Active to the host of a standby that it has lost, first: has that ended?
    Inquire(Inquire),
    Told(Told),
    /// Both ways; overtakes pages.
    Heartbeat(Heartbeat),
    EpochBegin(EpochBegin),
    /// Some of an epoch's pages.
    Pages(PageBatch),
    /// Some of an epoch's device state.
    Devices(DevicePiece),
    /// Some of what an epoch has of the disks.
    DiskWrites(DiskPiece),
    EpochEnd(EpochEnd),
    /// Standby to active: it holds the whole of this epoch, verified; overtakes pages.
    Acknowledge(Acknowledge),
    /// Standby to active: one more part of the copy in advance, all of an epoch without device state, is in
    /// its memory.
    CopyHeld(CopyHeld),
    /// Active to standby, before the first whole epoch: which of these blocks differ?
    DiskDigests(DiskDigests),
    /// Standby to active: these do.
    DiskWanted(DiskWanted),
    /// Active to standby, after an epoch: what some pages and blocks hold then. Not known in version 5.
    Comparison(Comparison),
    /// Active to standby: what the guest goes by on the network, for the announcement after a failover.
    Addresses(Addresses),
    /// Active to standby: the register names it.
    Protected(Protected),
    /// Standby to active: it has seen in its own register that it is named.
    Confirmed(Confirmed),
    /// Active to standby: it offers the machine, which it has stopped.
    Resign(Resign),
    /// Standby to active: somebody there asks for the machine. Not known in version 5.
    Call {
        /// The sender's term.
        term: Term,
    },
    /// Standby to active: its host is to go down, or stays after all. Not known in version 5.
    Leaving(Leaving),
    /// Protection ends; nobody is to take over.
    Bye {
        /// The sender's term.
        term: Term,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Whether the standby's host is to go down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaving {
    /// The sender's term.
    #[serde(skip)]
    pub term: Term,
    /// False: it stays after all.
    pub is_leaving: bool,
}

/// A sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The sender's term.
    #[serde(skip)]
    pub term: Term,
    /// When it was sent, on the sender's monotonic clock.
    pub sent_ns: u64,
    /// `sent_ns` of the last heartbeat that the sender had from its peer.
    pub echo_ns: Option<u64>,
}

/// The head of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochBegin {
    /// The sender's term.
    #[serde(skip)]
    pub term: Term,
    #[serde(skip)]
    pub epoch: Epoch,
    /// Whether it carries every page of the RAM and refers to no earlier content.
    pub full: bool,
    /// How many pages it carries.
    pub pages: u64,
    /// The length of its device state. An epoch without any is a copy in advance: nothing can be resumed from
    /// it. Only such may come before the first that has some: a full one, and any number of others, all with
    /// one number.
    pub device_bytes: u64,
    /// What it has of the disks, as it is before packing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disk_bytes: u64,
}

/// Some of an epoch's pages, encoded; see [`crate::pages`] for the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageBatch {
    /// The sender's term.
    pub term: Term,
    pub epoch: Epoch,
    pub body: Vec<u8>,
}

/// A piece of an epoch's device state; the pieces come in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePiece {
    /// The sender's term.
    pub term: Term,
    pub epoch: Epoch,
    pub content: Vec<u8>,
}

/// Some of what an epoch has of the disks, in the order in which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskPiece {
    /// The sender's term.
    pub term: Term,
    pub epoch: Epoch,
    pub content: Vec<u8>,
}

/// Which of the blocks that were asked for differ at the standby.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskWanted {
    /// The sender's term.
    #[serde(skip)]
    pub term: Term,
    pub disk: u8,
    pub blocks: Vec<u64>,
}

/// The tail of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochEnd {
    /// The sender's term.
    #[serde(skip)]
    pub term: Term,
    #[serde(skip)]
    pub epoch: Epoch,
    /// The hash of all of the epoch, decoded.
    pub digest: u64,
}

/// Everything up to this epoch is held and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledge {
    pub term: Term,
    pub epoch: Epoch,
}

/// One more epoch without device state is in the standby's memory: nothing could be resumed from it, and it
/// is no acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyHeld {
    pub term: Term,
}

/// All addresses that the guest has claimed, of which a standby has seen none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addresses {
    /// The sender's term.
    #[serde(skip)]
    pub term: Term,
    pub ipv4: Vec<Ipv4Addr>,
    /// Claimed by neighbour discovery.
    pub ipv6: Vec<Ipv6Addr>,
    /// What it claimed with a VLAN's tag. Not known in version 5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<AddressesInVlan>,
}

/// What the guest has claimed in a VLAN by its own tag.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressesInVlan {
    /// The VLAN's number.
    pub vlan: u16,
    pub ipv4: Vec<Ipv4Addr>,
    /// Claimed by neighbour discovery.
    pub ipv6: Vec<Ipv6Addr>,
}

/// The register names the standby: it may claim the machine from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protected {
    /// The term in which the standby is named. Epochs that begin after this message are of this term.
    pub term: Term,
}

/// The standby's own register names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmed {
    /// The term in which it is named.
    #[serde(skip)]
    pub term: Term,
    /// Why the guest would reach nobody from there, if that is so now.
    pub port_fault: Option<String>,
}

/// The active member has stopped the machine after `last`, and keeps it until it runs elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resign {
    /// The sender's term.
    pub term: Term,
    pub last: Epoch,
}

/// Why a verified frame is not a message of this protocol.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a {kind:?} message is malformed: {reason}")]
    Malformed {
        kind: FrameKind,
        /// What the JSON reader said.
        reason: String,
    },
}

fn read<T: DeserializeOwned>(frame: &Frame) -> Result<T, MessageError> {
    serde_json::from_slice(&frame.payload)
        .map_err(|error| MessageError::Malformed { kind: frame.kind, reason: error.to_string() })
}

/// Says that a frame of this kind carries nothing but its header.
fn demand_empty(frame: &Frame) -> Result<(), MessageError> {
    if frame.payload.is_empty() {
        return Ok(());
    }
    let reason = format!("it carries {} bytes where there are none", frame.payload.len());
    Err(MessageError::Malformed { kind: frame.kind, reason })
}

fn write<T: Serialize>(kind: FrameKind, body: &T) -> Result<Vec<u8>, MessageError> {
    serde_json::to_vec(body).map_err(|error| MessageError::Malformed { kind, reason: error.to_string() })
}

impl Message {
    /// The kind of frame that carries this message.
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Hello(_) => FrameKind::Hello,
            Self::Welcome(_) => FrameKind::Welcome,
            Self::Refuse { .. } => FrameKind::Refuse,
            Self::Inquire(_) => FrameKind::Inquire,
            Self::Told(_) => FrameKind::Told,
            Self::Heartbeat(_) => FrameKind::Heartbeat,
            Self::EpochBegin(_) => FrameKind::EpochBegin,
            Self::Pages(_) => FrameKind::Pages,
            Self::Devices(_) => FrameKind::Devices,
            Self::DiskWrites(_) => FrameKind::DiskWrites,
            Self::DiskDigests(_) => FrameKind::DiskDigests,
            Self::DiskWanted(_) => FrameKind::DiskWanted,
            Self::Comparison(_) => FrameKind::Comparison,
            Self::EpochEnd(_) => FrameKind::EpochEnd,
            Self::Acknowledge(_) => FrameKind::Acknowledge,
            Self::Addresses(_) => FrameKind::Addresses,
            Self::CopyHeld(_) => FrameKind::CopyHeld,
            Self::Protected(_) => FrameKind::Protected,
            Self::Confirmed(_) => FrameKind::Confirmed,
            Self::Resign(_) => FrameKind::Resign,
            Self::Call { .. } => FrameKind::Call,
            Self::Leaving(_) => FrameKind::Leaving,
            Self::Bye { .. } => FrameKind::Bye,
        }
    }

    /// The term in which the sender speaks.
    pub fn term(&self) -> Term {
        match self {
            Self::Hello(hello) => hello.term,
            Self::Welcome(welcome) => welcome.term,
            Self::Refuse { term, .. } | Self::Call { term } | Self::Bye { term } => *term,
            Self::Inquire(inquire) => inquire.term,
            Self::Told(told) => told.term,
            Self::Heartbeat(heartbeat) => heartbeat.term,
            Self::EpochBegin(begin) => begin.term,
            Self::Pages(batch) => batch.term,
            Self::Devices(piece) => piece.term,
            Self::DiskWrites(piece) => piece.term,
            Self::DiskDigests(digests) => digests.term,
            Self::DiskWanted(wanted) => wanted.term,
            Self::Comparison(comparison) => comparison.term,
            Self::EpochEnd(end) => end.term,
            Self::Acknowledge(acknowledge) => acknowledge.term,
            Self::Addresses(addresses) => addresses.term,
            Self::CopyHeld(held) => held.term,
            Self::Protected(protected) => protected.term,
            Self::Confirmed(confirmed) => confirmed.term,
            Self::Resign(resign) => resign.term,
            Self::Leaving(leaving) => leaving.term,
        }
    }

    /// The epoch that is spoken of, or 0.
    pub fn epoch(&self) -> Epoch {
        match self {
            Self::EpochBegin(begin) => begin.epoch,
            Self::Pages(batch) => batch.epoch,
            Self::Devices(piece) => piece.epoch,
            Self::DiskWrites(piece) => piece.epoch,
            Self::EpochEnd(end) => end.epoch,
            Self::Acknowledge(acknowledge) => acknowledge.epoch,
            Self::Resign(resign) => resign.last,
            Self::Comparison(comparison) => comparison.epoch,
            Self::Hello(_)
            | Self::Welcome(_)
            | Self::Refuse { .. }
            | Self::Inquire(_)
            | Self::Told(_)
            | Self::Heartbeat(_)
            | Self::Addresses(_)
            | Self::CopyHeld(_)
            | Self::DiskDigests(_)
            | Self::DiskWanted(_)
            | Self::Protected(_)
            | Self::Confirmed(_)
            | Self::Call { .. }
            | Self::Leaving(_)
            | Self::Bye { .. } => Epoch(0),
        }
    }

    /// The message as far as a host of this version of the protocol knows it. What a [`Hello`] says of the machine is
    /// the members' own.
    pub fn known_in(&self, version: ProtocolVersion) -> Cow<'_, Self> {
        match self {
            Self::Welcome(welcome) if version < ProtocolVersion::NEWEST => {
                Cow::Owned(Self::Welcome(Welcome { qemu_version: None, ..welcome.clone() }))
            }
            Self::Inquire(inquire) if version < ProtocolVersion::NEWEST => {
                Cow::Owned(Self::Inquire(Inquire { wants_living: false, offer: None, ..inquire.clone() }))
            }
            Self::Told(told) if version < ProtocolVersion::NEWEST => {
                Cow::Owned(Self::Told(Told { living: None, verdict: None, ..told.clone() }))
            }
            Self::Addresses(addresses) if version < ProtocolVersion::NEWEST => {
                Cow::Owned(Self::Addresses(Addresses { vlans: Vec::new(), ..addresses.clone() }))
            }
            Self::Refuse { term, refusal } => {
                Cow::Owned(Self::Refuse { term: *term, refusal: refusal.known_in(version) })
            }
            message => Cow::Borrowed(message),
        }
    }

    /// Writes the message as a frame.
    ///
    /// # Errors
    /// [`FrameError::Oversized`], if the message is longer than a frame may be.
    pub fn encode(&self) -> Result<EncodedFrame, MessageError> {
        let kind = self.kind();
        let body = match self {
            Self::Hello(hello) => &write(kind, hello)?,
            Self::Welcome(welcome) => &write(kind, welcome)?,
            Self::Refuse { refusal, .. } => &write(kind, refusal)?,
            Self::Inquire(inquire) => &write(kind, inquire)?,
            Self::Told(told) => &write(kind, told)?,
            Self::Confirmed(confirmed) => &write(kind, confirmed)?,
            Self::Heartbeat(heartbeat) => &write(kind, heartbeat)?,
            Self::EpochBegin(begin) => &write(kind, begin)?,
            Self::EpochEnd(end) => &write(kind, end)?,
            Self::Addresses(addresses) => &write(kind, addresses)?,
            Self::Leaving(leaving) => &write(kind, leaving)?,
            Self::Pages(batch) => &batch.body,
            Self::Devices(piece) => &piece.content,
            Self::DiskWrites(piece) => &piece.content,
            Self::DiskDigests(digests) => &write_digests(digests),
            Self::DiskWanted(wanted) => &write(kind, wanted)?,
            Self::Comparison(comparison) => &write_comparison(comparison),
            Self::Acknowledge(_)
            | Self::CopyHeld(_)
            | Self::Protected(_)
            | Self::Resign(_)
            | Self::Call { .. }
            | Self::Bye { .. } => &Vec::new(),
        };
        Ok(EncodedFrame::new(kind, self.term(), self.epoch(), body)?)
    }

    pub fn decode(frame: Frame) -> Result<Self, MessageError> {
        let (term, epoch) = (frame.term, frame.epoch);
        Ok(match frame.kind {
            FrameKind::Hello => Self::Hello(Box::new(Hello { term, ..read(&frame)? })),
            FrameKind::Welcome => Self::Welcome(Welcome { term, ..read(&frame)? }),
            FrameKind::Refuse => Self::Refuse { term, refusal: read(&frame)? },
            FrameKind::Inquire => Self::Inquire(Inquire { term, ..read(&frame)? }),
            FrameKind::Confirmed => Self::Confirmed(Confirmed { term, ..read(&frame)? }),
            FrameKind::Told => Self::Told(Told { term, ..read(&frame)? }),
            FrameKind::Heartbeat => Self::Heartbeat(Heartbeat { term, ..read(&frame)? }),
            FrameKind::EpochBegin => Self::EpochBegin(EpochBegin { term, epoch, ..read(&frame)? }),
            FrameKind::Pages => Self::Pages(PageBatch { term, epoch, body: frame.payload }),
            FrameKind::Devices => Self::Devices(DevicePiece { term, epoch, content: frame.payload }),
            FrameKind::EpochEnd => Self::EpochEnd(EpochEnd { term, epoch, ..read(&frame)? }),
            FrameKind::Addresses => Self::Addresses(Addresses { term, ..read(&frame)? }),
            FrameKind::DiskWrites => Self::DiskWrites(DiskPiece { term, epoch, content: frame.payload }),
            FrameKind::DiskDigests => Self::DiskDigests(
                read_digests(term, &frame.payload)
                    .map_err(|error| MessageError::Malformed { kind: frame.kind, reason: error.to_string() })?,
            ),
            FrameKind::DiskWanted => Self::DiskWanted(DiskWanted { term, ..read(&frame)? }),
            FrameKind::Comparison => Self::Comparison(
                read_comparison(term, epoch, &frame.payload)
                    .map_err(|error| MessageError::Malformed { kind: frame.kind, reason: error.to_string() })?,
            ),
            FrameKind::Leaving => Self::Leaving(Leaving { term, ..read(&frame)? }),
            FrameKind::Acknowledge
            | FrameKind::CopyHeld
            | FrameKind::Protected
            | FrameKind::Resign
            | FrameKind::Call
            | FrameKind::Bye => {
                demand_empty(&frame)?;
                match frame.kind {
                    FrameKind::Acknowledge => Self::Acknowledge(Acknowledge { term, epoch }),
                    FrameKind::CopyHeld => Self::CopyHeld(CopyHeld { term }),
                    FrameKind::Protected => Self::Protected(Protected { term }),
                    FrameKind::Resign => Self::Resign(Resign { term, last: epoch }),
                    FrameKind::Call => Self::Call { term },
                    _ => Self::Bye { term },
                }
            }
        })
    }
}
