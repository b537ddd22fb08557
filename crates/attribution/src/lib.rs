//! Which cause each stretch of a probe's lost time has, found from traces of the machine under test and of
//! its host.
//!
//! Everything here is pure: columns in, columns out. A layer is replayed once ([`attribute`] says what from)
//! into a sorted list of stretches with one cause each; then the spikes are laid over the lists. The parts of
//! a spike are never negative and add up to its excess over the floor, to the cycle. The rules, platform by
//! platform, are in `docs/attribution.md`.

mod attribute;
mod cause;
mod crossing;
mod follow;
mod mend;
mod naming;
mod offset;
mod processors;
mod reading;
mod scheduler;
mod sweep;
mod trace;
mod track;
mod user_mode;

pub use attribute::{Attribution, AttributionError, Labelled, VirtualCpus, World, attribute};
pub use cause::{Cause, CauseId, CauseTable, Kind, Layer};
pub use follow::Followed;
pub use offset::Offsets;
pub use reading::TraceError;
pub use sweep::{Parts, Segment, Spikes};
pub use trace::{EventKind, NO_NAME, Trace, TraceColumns};
pub use user_mode::UserMode;
