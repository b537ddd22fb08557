//! Is a task set schedulable on one CPU, with what margin, and which overhead costs most?
//!
//! Pure computation over whole nanoseconds: nothing here reads a clock or a file. Results are exact, or rounded
//! towards the longer response; what overflows, diverges or was not observed is an [`Error`] and no verdict.
//! `docs/schedulability.md` defines every bound with its source.

mod analysis;
mod arrivals;
mod charging;
mod curve;
mod edf;
mod edf_blocking;
mod edf_profile;
mod edf_windows;
mod equal_priorities;
mod error;
mod fixed_priority;
pub mod generate;
mod load;
mod margin;
mod overheads;
mod response;
mod sensitivity;
mod supply;
mod task;
mod utilization;
mod workload;

pub use analysis::{DemandDetails, Policy, Question, Verdict};
pub use arrivals::Interference;
pub use charging::{Accounting, charge_earliest_deadline, charge_fixed_priority};
pub use curve::{Condition, Counted, Population, count_schedulable};
pub use edf::{Demand, demand_verdict};
pub use edf_blocking::{BlockedQuestion, BlockingLevel};
pub use edf_profile::edf_responses;
pub use edf_windows::{Window, deciding_window};
pub use error::{Error, RecipeError};
pub use fixed_priority::Solver;
pub use load::Load;
pub use margin::{Influence, Margin, PARTS_PER_MILLION, influences, largest_scale, smallest_budget};
pub use overheads::{Interrupts, Overhead, Overheads};
pub use response::Response;
pub use sensitivity::{Sensitivity, largest_scale_blocked, sensitivity};
pub use supply::{Combined, Constrained, Dedicated, Envelope, Linear, Observed, Part, Periodic, Supply, Windows};
pub use task::{LONGEST_NS, Task};
pub use utilization::{Utilization, exceeds_one};
pub use workload::Workload;
