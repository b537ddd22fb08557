//! The tasks of a running program, from the trace of its kernel: when their jobs arrive, what these take, and whether
//! they wait in between.
//!
//! Three steps, each of which says what it could not tell:
//!
//! 1. [`follow`]: the events of a trace become the *activations* of each thread, from a wake-up to the next wait, with
//!    the time that it ran, without interrupts, and without what the host took where that is known.
//! 2. [`arrival`]: which activations begin a job? Those whose timer the program set on a grid, or whose wake-ups lie on
//!    one beyond chance; else all of them, and the task is sporadic.
//! 3. [`task`]: jobs, with their costs, the waits inside them, and figures over all of them.
//!
//! Nothing is assumed of a program but that a job ends by waiting. Times are in cycles of the trace's clock, results
//! in ns.

pub mod activation;
pub mod arrival;
mod clock;
mod error;
mod follow;
mod grid;
mod meter;
mod sporadic;
mod taken;
pub mod task;

pub use activation::{Activation, Thread};
pub use arrival::{Arrivals, Kind};
pub use clock::Clock;
pub use error::ExtractError;
pub use follow::{Trace, follow};
pub use sporadic::{CurvePoint, Sporadic};
pub use taken::Taken;
pub use task::{Job, Task, tasks};
