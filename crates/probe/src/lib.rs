//! What is measured inside a machine under test, and the proof that the measuring itself can be trusted.
//!
//! Each probe's module head defines it exactly: the first and the last instruction of the measured interval, the
//! clock, the floor and the limits. Memory for samples is allocated by the measuring thread after it is pinned,
//! locked and pre-faulted; while measuring nothing is allocated or written but the samples ([`recorder`]).

pub mod clock;
pub mod facts;
mod findings;
pub mod guest_exit;
pub mod injection;
pub mod load;
pub mod observer;
pub mod preflight;
pub mod recorder;
mod request;
pub mod scheduling;
mod steal;
pub mod switch;
mod sys;
pub mod throttling;
pub mod tick;
pub mod trial;
pub mod wakeup;

pub use recorder::{Recording, RunningTrial};
pub use request::TrialError;
pub use trial::{Trial, run_trial};
