//! The guest on this host, as its member sees it: what the member has it do, and what it hears of it.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use stealtime_capture::{Notice, RamFile, Shutdown};
use stealtime_outputhold::{LearnedAddresses, PortFault, RelayError, RelayEvent};
use stealtime_shipping::RamBlock;
use stealtime_succession::{Epoch, OutputPolicy, Permit};

use crate::engine::{Advance, CaptureError, Order};
use crate::epoch_log::EpochRow;
use crate::machine::MachineError;
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
}

/// What is heard of a guest.
pub enum GuestEvent {
    /// It is there, and stands.
    Ready(GuestFacts),
    /// There is none.
    NoGuest(CaptureError),
    /// The copy in advance is complete, or goes on without an end in sight.
    Advanced(Advance),
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
    /// So many bytes of memory, a part of the full copy, are with the link.
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

/// What is known of a guest as soon as its QEMU answers.
pub struct GuestFacts {
    /// The version of QEMU with that of its package.
    pub qemu_version: String,
    pub qemu_pid: u32,
    pub ram: Arc<RamFile>,
    /// All its memory blocks.
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
