//! What a load does over and over.

/// A kind of work, cut into steps short enough to look at the clock between them.
pub trait Work {
    /// What the work is counted in.
    const UNIT: &'static str;

    /// Does the next step; gives how much work that was. Allocates nothing.
    fn step(&mut self) -> u64;
}
