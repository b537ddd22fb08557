//! What the stager gives: an epoch to be acknowledged, and then applied.

use stealtime_disk::Write;
use stealtime_succession::{Epoch, Term};

use crate::page::{PAGE_BYTES, Page};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StagedPage<'epoch> {
    Zero,
    Content(&'epoch Page),
}

/// A whole epoch, decoded and verified, that is applied nowhere yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StagedEpoch {
    pub term: Term,
    pub epoch: Epoch,
    /// Whether it has every page of the RAM.
    pub full: bool,
    /// The pages with content, ascending.
    pub pages: Vec<u64>,
    /// Their content, one after the other.
    pub content: Vec<u8>,
    /// The pages of zeros, ascending.
    pub zero_pages: Vec<u64>,
    /// What was written of the disks, in that order.
    pub disks: Vec<Write>,
    /// The device state; empty in a copy in advance, from which nothing can be resumed.
    pub devices: Vec<u8>,
}

impl StagedEpoch {
    /// What this epoch has of a page, if anything.
    pub fn find(&self, index: u64) -> Option<StagedPage<'_>> {
        if let Ok(position) = self.pages.binary_search(&index) {
            return self.content[position * PAGE_BYTES..].first_chunk().map(StagedPage::Content);
        }
        self.zero_pages.binary_search(&index).is_ok().then_some(StagedPage::Zero)
    }

    pub fn contents(&self) -> impl Iterator<Item = (u64, &Page)> {
        self.pages.iter().copied().zip(self.content.as_chunks().0)
    }

    /// Whether a machine can be resumed from it.
    pub fn is_resumable(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Empties it and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.content.clear();
        self.zero_pages.clear();
        self.disks.clear();
        self.devices.clear();
    }
}
