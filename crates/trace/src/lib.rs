//! The kernel's own events: switches, interrupts, virtual machine exits, on the time-stamp
//! counter.
//!
//! The kernel writes its events into a ring buffer for each CPU (tracefs, `Documentation/trace/ftrace.rst`).
//! An [`Instance`] is a set of such buffers of our own, with the clock `x86-tsc`, so that events carry the
//! same counter as the samples of a probe. The buffers are read in binary, page by page ([`page`]); the
//! events' layouts come from the running kernel ([`format`]). Pages are kept as they are and understood only
//! afterwards ([`Recorded`]), so that reading costs little more than copying.
//!
//! Some moments have no event; for two of them the kernel makes one, asked by a program of ours ([`scheduler`]).
//!
//! Nothing is lost in silence: what the kernel overwrote before it was read is counted twice over, by the
//! flags of the pages and by the kernel's own statistics, and stands in the rows as [`row::Kind::Lost`].

pub mod error;
pub mod format;
pub mod groups;
pub mod instance;
pub mod mark;
pub mod page;
pub mod processes;
pub mod recorded;
pub mod recorder;
pub mod row;
pub mod rows;
pub mod scheduler;
pub mod spool;
mod sys;
pub mod tracefs;
pub mod vocabulary;

pub use error::TraceError;
pub use instance::{Instance, remove_leftovers};
pub use recorded::Recorded;
pub use recorder::{Recorder, Switch};
pub use row::{Kind, NO_NAME, Row};
pub use tracefs::Tracefs;
