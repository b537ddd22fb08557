//! The guest on this host, as its member sees it: what the member has it do, and what it hears of it.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use stealtime_capture::{DeviceStateError, GuestError, Notice, QmpError, RamError, RamFile, Shutdown, TrackError};
use stealtime_outputhold::{HardwareAddressError, LearnedAddresses, PortFault, RelayError, RelayEvent, TapError};
use stealtime_shipping::{DiskWanted, LinkSender, RamBlock};
use stealtime_succession::{Epoch, OutputPolicy, Permit, Term};

use crate::disks::DisksError;
use crate::epoch_log::EpochRow;
use crate::spec::Spec;

/// A guest and its network. [`Machine`](crate::machine::Machine) is the one with a QEMU.
pub trait Guest: Send {
    /// Start it; it stands until it is ordered to continue, and nothing leaves.
    fn boot(&mut self, spec: &Spec) -> Result<(), MachineError>;

    fn order(&self, order: Order);

    /// Kill it at once, whatever it is waiting for.
    fn kill(&self);

    /// End it, and wait until it is gone.
    fn end(&mut self);

    /// Until when output may leave.
    fn permit(&self, permit: Permit);

    /// Set what happens to output; in force when this returns.
    fn set_output(&self, policy: OutputPolicy) -> Result<(), RelayError>;

    /// Let the output of all epochs up to `through` leave.
    fn release(&self, through: Epoch) -> Result<(), RelayError>;

    /// Tell the network that the guest is here.
    fn announce(&self, addresses: &LearnedAddresses) -> Result<(), RelayError>;

    /// What it goes by on the network.
    fn learned_addresses(&self) -> Result<LearnedAddresses, RelayError>;

    /// Why its network reaches nobody now, if that is so.
    fn port_fault(&mut self) -> Option<PortFault>;

    /// Frames that wait, and their bytes.
    fn held(&self) -> (u64, u64);

    /// Why a disk takes no writes now, if that is so.
    fn disk_fault(&self) -> Option<String>;
}

/// Why a machine cannot be had here.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error(transparent)]
    Address(#[from] HardwareAddressError),
    #[error(transparent)]
    Tap(#[from] TapError),
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error(transparent)]
    Disks(#[from] DisksError),
    #[error("out of resources of the host: {0}")]
    Host(#[from] io::Error),
}

/// What a guest is ordered to do.
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
    /// Output waits that came after the cut of this epoch: where epochs are cut on demand, the next one is.
    AwaitsCut {
        after: Epoch,
    },
    /// The standby has one more part of the copy in advance in its memory.
    CopyHeld {
        term: Term,
    },
    /// The standby wants these blocks of a disk, of those that it was last asked about.
    DiskWanted(DiskWanted),
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

pub enum GuestEvent {
    /// It is there, and stands.
    Ready(GuestFacts),
    /// There is none.
    NoGuest(CaptureError),
    /// The copy in advance is complete, or goes on without an end in sight.
    Advanced(Advance),
    /// All disks were compared with those of the standby, and what differed was copied.
    DisksCopied {
        compared_bytes: u64,
        copied_bytes: u64,
    },
    /// An epoch was captured and is encoded next. After the last one the guest was left standing.
    Captured {
        epoch: Epoch,
        is_last: bool,
    },
    /// Capture does not work any more; what was captured so far is whole. The output was cut last at `cut`,
    /// perhaps for an epoch that was then not captured. `is_lost`: the guest is beyond help here, as its QEMU
    /// does not answer, or will not let it go on.
    CaptureFailed {
        reason: String,
        cut: Epoch,
        is_lost: bool,
    },
    /// So many bytes of memory or disks, a part of the full copy, are with the link, or equal at the standby.
    PartShipped {
        raw_bytes: u64,
    },
    /// An epoch is with the link, its last frame since this moment.
    EpochShipped {
        row: EpochRow,
        at: Duration,
    },
    /// Nothing more can be sent on this link.
    ShippingFailed(String),
    /// A state was loaded, and it stands.
    Loaded,
    Stopped,
    Continued,
    /// What QEMU has told unasked, taken off its queue.
    Noticed(Notice),
    /// Why QEMU has ended; none if it did not say.
    Shutdown(Option<Shutdown>),
    /// The process of its QEMU has ended.
    Exited(ExitStatus),
    /// Of its network.
    Relay(RelayEvent),
}

/// How the copy in advance went.
#[derive(Debug, Clone, Copy)]
pub struct Advance {
    /// Rounds since it was begun, or tried again.
    pub rounds: u32,
    /// Pages of the last one, and how long it took.
    pub pages: u64,
    /// From finding them to the standby's word that it has them in its memory.
    pub took: Duration,
    /// How long the guest would stand for as many pages, at least.
    pub pause: Duration,
    /// How long it stood as it was held back, so that rounds become short.
    pub held_back: Duration,
    /// Whether rounds became short, and the guest was not held back for that.
    pub converges: bool,
    /// Whether the first whole epoch follows.
    pub goes_on: bool,
}

impl Advance {
    /// What [`Advance::remark`] begins with.
    pub const DOES_NOT_CONVERGE: &str = "the copy in advance does not converge";

    /// What is to be said of a copy whose rounds do not become short.
    pub fn remark(&self, longest_first_pause: Duration) -> Option<String> {
        let Self { pages, took, pause, held_back, converges, goes_on, .. } = self;
        let although = if held_back.is_zero() {
            String::new()
        } else {
            format!(", although the guest was held back for {} ms", held_back.as_millis())
        };
        let what = format!(
            "{}: {pages} pages are written while as many are shipped, which takes {} ms{although}; for the first epoch \
             the guest stands for some {} ms, and its output waits until that is shipped",
            Self::DOES_NOT_CONVERGE,
            took.as_millis(),
            pause.as_millis()
        );
        let hint = "have it write less, or give a faster link or a larger `longest_first_pause`";
        let limit = longest_first_pause.as_millis();
        match (converges, goes_on) {
            (true, _) => None,
            (false, true) => Some(what),
            (false, false) => Some(format!(
                "{what}, longer than {limit} ms, so it stays unprotected and is tried again (hint: {hint})"
            )),
        }
    }
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
    #[error("the disk image {image} cannot be read: {source}")]
    Disk { image: PathBuf, source: io::Error },
    #[error("no thread can be started that reads the disks: {0}")]
    Comparing(#[source] io::Error),
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

/// What is known of a guest as soon as its QEMU answers.
pub struct GuestFacts {
    /// The version of QEMU with that of its package.
    pub qemu_version: String,
    pub qemu_pid: u32,
    pub ram: Arc<RamFile>,
    pub ram_blocks: Vec<RamBlock>,
    /// How written pages are found.
    pub tracker: &'static str,
    /// Better ways that were refused, in sentences.
    pub refused_trackers: Vec<String>,
}

impl GuestFacts {
    /// What of it is not as wanted, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let remark = |refused| format!("written pages are found by {}: {refused}", self.tracker);
        self.refused_trackers.iter().map(remark).collect()
    }
}
