//! What a load does over and over.

use stealtime_wire::WorkUnit;

/// A kind of work, cut into steps short enough to look at the clock between them.
pub trait Work {
    /// What the work is counted in.
    const UNIT: WorkUnit;

    /// Does the next step; gives how much work that was. Allocates nothing.
    fn step(&mut self) -> u64;
}
