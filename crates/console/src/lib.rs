//! How the commands of the agent's binary speak without a control plane: documents on standard output, remarks on
//! standard error, exit codes; and how they read sizes and durations.

// Where nobody reads any more `eprintln!` panics; see `remarks`.
#![deny(clippy::print_stderr)]

pub mod document;
pub mod quantities;
pub mod remarks;
