//! Which pages of the guest's memory were written since the last time.

mod choice;
mod shadow;
mod soft_dirty;
mod userfault;

use std::io;

use crate::pages::{PageRange, StagedPages};
use crate::ram::RamError;

pub use choice::{TrackerChoice, TrackerKind, TrackerRefusal, choose_tracker};
pub use shadow::ShadowCompare;
pub use soft_dirty::SoftDirtyTracker;
pub use userfault::UserfaultTracker;

/// Why it cannot be told which pages were written. After an error all pages must be taken for written.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    #[error("the tracker `{tracker}` cannot {action}")]
    System { tracker: &'static str, action: &'static str, source: io::Error },
    #[error("the tracker `{tracker}` cannot be used: {reason}")]
    Unusable { tracker: &'static str, reason: String },
    #[error(transparent)]
    Ram(#[from] RamError),
}

/// Tells which pages were written; see [`crate::TrackedMemory`] for what holds of it as a whole.
pub trait WriteTracker: Send {
    /// For messages and results.
    fn name(&self) -> &'static str;
    /// Begin: what is written from here on is collected. A full copy must be staged after this, not before.
    fn arm(&mut self) -> Result<(), TrackError>;
    /// Append the pages that were written since `arm` or the last `collect`, in order, and begin anew with
    /// them.
    ///
    /// More pages than were written may be told, never fewer. Ranges that `written` already holds stay.
    fn collect(&mut self, written: &mut Vec<PageRange>) -> Result<(), TrackError>;
    /// Whether a write during `collect` may be lost, so that the guest must stand still for it.
    fn collects_at_standstill_only(&self) -> bool {
        false
    }
    /// Hear what was copied aside: the pages of `pages` from position `from` on. A guest that runs may have
    /// changed them before, while and after they were copied.
    fn staged(&mut self, _pages: &StagedPages, _from: usize) {}
}
