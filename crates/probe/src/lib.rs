//! What is measured inside a machine under test, and the proof that the measuring itself can be trusted.
//!
//! Each probe's module head defines it exactly: the first and the last instruction of the measured interval,
//! the clock, the floor and the limits. Memory for samples is allocated by the measuring thread after it is
//! pinned, locked and pre-faulted; while measuring nothing is allocated or written but the samples
//! ([`recorder`]).

// Where nobody reads any more `eprintln!` panics, and with it a measurement.
#![deny(clippy::print_stderr)]

pub mod clock;
mod contend;
pub mod disk;
mod error;
mod evidence;
pub mod facts;
mod findings;
mod further;
pub mod guest_exit;
pub mod injection;
pub mod keeping;
mod kernel_notes;
pub mod load;
mod measuring;
mod needs;
pub mod net;
pub mod observer;
mod place_watch;
pub mod preflight;
mod probe;
pub mod processor_sets;
mod processors;
pub mod quota;
pub mod recorder;
mod registry;
mod request;
mod requests;
mod rows;
mod rtload;
mod run;
pub mod running;
pub mod samples;
pub mod scheduling;
mod side_list;
mod stage;
pub mod steal;
mod switch;
mod sys;
pub mod thread_times;
mod threshold;
pub mod throttling;
pub mod tick;
pub mod time_line;
mod trial;
pub mod wakeup;

pub use error::TrialError;
pub use rows::{Iteration, Job, Reading, Rows};
pub use run::run_trial;
pub use running::{Recording, RunningTrial};
pub use trial::Trial;
