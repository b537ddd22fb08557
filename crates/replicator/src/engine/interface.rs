//! What the engine is told to do, why it cannot, and what it is started with.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use stealtime_capture::{DeviceStateError, DeviceStateKind, GuestError, QmpError, RamError, TrackError};
use stealtime_outputhold::{Relay, RelayError};
use stealtime_shipping::LinkSender;
use stealtime_succession::{Epoch, Term};
use tokio::sync::mpsc::UnboundedSender;

use super::staging_pool::StagingPool;
use crate::encoder::Parcel;
use crate::guest::GuestEvent;
use crate::pacing::Pacing;

/// What the engine is told to do.
pub enum Order {
    /// What is captured from now on goes over this link. `delta`: it takes differences.
    Link {
        sender: LinkSender,
        delta: bool,
    },
    /// Copy all memory while the guest runs, and what it writes meanwhile, then capture a first whole epoch,
    /// and wait for [`Order::Go`].
    FullCopy {
        term: Term,
        first: Epoch,
    },
    /// Capture epoch after epoch.
    Go {
        term: Term,
    },
    /// The standby holds everything up to this epoch.
    Acknowledged(Epoch),
    /// The standby has one more part of the copy in advance in its memory.
    CopyHeld {
        term: Term,
    },
    /// Capture nothing more: there is nobody to ship to.
    Rest,
    /// Capture once more, and leave the guest standing.
    Last,
    StopGuest,
    /// Let it go on, or begin.
    ContinueGuest,
    /// Load this state of the devices into the standby's guest, and let it run, or stand until
    /// [`Order::ContinueGuest`].
    Load {
        state: Vec<u8>,
        runs: bool,
    },
    /// Tell why QEMU has ended.
    TellShutdown,
    /// End the guest and the thread.
    End,
}

/// Why an epoch was not captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error(transparent)]
    Qmp(#[from] QmpError),
    #[error(transparent)]
    Devices(#[from] DeviceStateError),
    #[error(transparent)]
    Track(#[from] TrackError),
    #[error(transparent)]
    Ram(#[from] RamError),
    #[error(transparent)]
    Output(#[from] RelayError),
    #[error(transparent)]
    Guest(#[from] GuestError),
    #[error("a descriptor of QEMU's process cannot be had: {0}")]
    Descriptor(#[source] io::Error),
    #[error("QEMU cannot be watched: {0}")]
    Unwatched(#[source] io::Error),
    #[error("nobody takes what was captured")]
    NobodyShips,
    #[error("the guest stands by itself, QEMU calls it `{status}`")]
    Stands {
        /// QEMU's word for it.
        status: String,
    },
}

impl CaptureError {
    /// Whether QEMU did not answer in time.
    pub fn is_silence(&self) -> bool {
        matches!(
            self,
            Self::Qmp(QmpError::TimedOut { .. })
                | Self::Devices(DeviceStateError::Qmp(QmpError::TimedOut { .. }))
                | Self::Guest(GuestError::Qmp(QmpError::TimedOut { .. }))
        )
    }
}

/// What the thread is started with.
pub struct EngineSettings {
    /// How the state of devices is taken.
    pub device_state: DeviceStateKind,
    pub pacing: Pacing,
    /// Where members of this host agree on who stops its guest when.
    pub host_folder: PathBuf,
    /// How long the first whole epoch may take until its standby has it, where pages are written faster than they are
    /// shipped. This is held against an estimate, how long the last round took: it may take longer in the end.
    pub longest_first_pause: Duration,
    /// How long output may wait for its acknowledgement: a guest that writes more than the standby takes in that
    /// time is held back.
    pub longest_hold: Duration,
    /// How long QEMU may take to answer once it has started.
    pub qemu_deadline: Duration,
    /// How many epochs may be captured and not acknowledged.
    pub in_flight_limit: u64,
    /// The guest's output.
    pub relay: Arc<Relay>,
    /// What pages are copied into.
    pub staging: StagingPool,
    pub parcels: SyncSender<Parcel>,
    pub events: UnboundedSender<GuestEvent>,
}
