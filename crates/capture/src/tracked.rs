//! The guest's memory, and which of its pages differ from what was staged of them.

use std::sync::Arc;

use crate::pages::{PageRange, StagedPages};
use crate::ram::{RamError, RamFile};
use crate::track::{TrackError, WriteTracker};

/// Memory that is tracked. Pages are staged through it alone, so that no tracker can miss what was staged.
///
/// Whoever applies all that was staged since [`TrackedMemory::arm`], in order, has the guest's memory once
/// the guest has stood still from before the last [`TrackedMemory::collect`] to after the staging of what
/// that told. The first staging after `arm` must be of all pages. Until that last time the guest may run.
pub struct TrackedMemory {
    ram: Arc<RamFile>,
    tracker: Box<dyn WriteTracker>,
}

impl TrackedMemory {
    pub fn new(ram: Arc<RamFile>, tracker: Box<dyn WriteTracker>) -> Self {
        Self { ram, tracker }
    }

    /// For messages and results.
    pub fn tracker_name(&self) -> &'static str {
        self.tracker.name()
    }

    /// Whether `collect` is right only while the guest stands still.
    pub fn collects_at_standstill_only(&self) -> bool {
        self.tracker.collects_at_standstill_only()
    }

    /// Begin. The guest may run.
    pub fn arm(&mut self) -> Result<(), TrackError> {
        self.tracker.arm()
    }

    /// Append the pages that may differ from what was last staged of them, in order, for one who stages them
    /// next. Ranges that `written` already holds stay.
    pub fn collect(&mut self, written: &mut Vec<PageRange>) -> Result<(), TrackError> {
        self.tracker.collect(written)
    }

    /// Append copies of all pages of `ranges` to `staged`.
    pub fn stage(&mut self, ranges: &[PageRange], staged: &mut StagedPages) -> Result<(), RamError> {
        let from = staged.len();
        self.ram.stage(ranges, staged)?;
        self.tracker.staged(staged, from);
        Ok(())
    }
}
