//! The output of a guest, held until the epoch that made it is acknowledged.
//!
//! [`Hold`] is the queue: frames go in as the guest sends them, a cut closes an epoch while the guest is
//! stopped, and whole epochs come out, in order, once the standby acknowledged them. It does no input or
//! output. [`Relay`] is the thread that moves frames between QEMU's socket and a [`Tap`] through that queue.
//! [`BypassRules`] say which flows need not wait, and what may never be such a flow.
//!
//! Everything fails closed: the held frames live in this process alone, so they end with it.

mod addresses;
mod announcement;
mod bypass;
mod classifier;
mod framing;
mod hold;
mod outlet;
mod port;
mod port_watch;
mod relay;
mod relay_event;
mod relay_state;
mod statistics;
mod sys;
mod tap;

pub use addresses::{HardwareAddress, HardwareAddressError, LearnedAddresses, VlanAddresses};
pub use announcement::{Announcement, ROUNDS};
pub use bypass::{BypassError, BypassRule, BypassRules, NEVER_BYPASS_PORTS, PortRange};
pub use framing::{FramingError, InputQueue, MAXIMUM_FRAME_BYTES, OutputReader};
pub use hold::{Cut, Delivery, Hold, HoldError, HoldLimits, Progress, ReleasedEpoch, Verdict};
pub use outlet::Gate;
pub use port::FramePort;
pub use port_watch::{PortFault, PortWatch};
pub use relay::{Relay, RelayError, RelaySettings};
pub use relay_event::RelayEvent;
pub use relay_state::DrainedCut;
pub use statistics::{HeldTime, HoldStatistics, RelayStatistics, Traffic};
pub use tap::{Tap, TapError, TapSettings};
