//! Which pages of the guest's memory were written since the last time.

mod choice;
mod shadow;
mod soft_dirty;
mod userfault;

use std::io;

use crate::pages::PageRange;
use crate::ram::RamError;

pub use choice::{TrackerChoice, TrackerKind, TrackerRefusal, choose_tracker};
pub use shadow::ShadowCompare;
pub use soft_dirty::SoftDirtyTracker;
pub use userfault::UserfaultTracker;

/// Why it cannot be told which pages were written. After an error all pages must be taken for written.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    /// A system call failed.
    #[error("the tracker `{tracker}` cannot {action}")]
    System {
        /// Which tracker.
        tracker: &'static str,
        /// What it tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// This kernel or machine does not have what the tracker needs.
    #[error("the tracker `{tracker}` cannot be used: {reason}")]
    Unusable {
        /// Which tracker.
        tracker: &'static str,
        /// Why.
        reason: String,
    },
    /// The guest's memory cannot be read.
    #[error(transparent)]
    Ram(#[from] RamError),
}

/// Tells which pages were written.
pub trait WriteTracker: Send {
    /// For messages and results.
    fn name(&self) -> &'static str;
    /// Begin: what is written from here on is collected. A full copy must be taken after this, not before.
    fn arm(&mut self) -> Result<(), TrackError>;
    /// Append the pages that were written since `arm` or the last `collect`, in order, and begin anew with them.
    ///
    /// The guest must be stopped from before this call to after the copy of the pages. More pages than were written may
    /// be told, never fewer. Ranges that `written` already holds stay.
    fn collect(&mut self, written: &mut Vec<PageRange>) -> Result<(), TrackError>;
}
