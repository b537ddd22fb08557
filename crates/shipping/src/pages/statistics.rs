//! What became of the pages of an epoch.

use std::ops::AddAssign;

use serde::Serialize;

use crate::page::PAGE_BYTES;

/// Pages by how they were shipped, and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct EncodeStatistics {
    pub zero_pages: u64,
    /// Pages that were written with what they held already.
    pub same_pages: u64,
    /// Pages shipped as differences from what was shipped before.
    pub delta_pages: u64,
    /// Pages shipped as they are.
    pub raw_pages: u64,
    /// Batches whose contents were compressed.
    pub compressed_batches: u64,
    /// Batches whose contents were not, because they did not become smaller, or had none.
    pub stored_batches: u64,
    /// All bytes that go over the line for the epoch: frames with their headers, device state included.
    pub shipped_bytes: u64,
    /// Those of them that carry what was written of the disks.
    pub disk_bytes: u64,
    /// Those of them that carry device state.
    pub device_bytes: u64,
}

impl EncodeStatistics {
    pub fn pages(&self) -> u64 {
        self.zero_pages + self.same_pages + self.delta_pages + self.raw_pages
    }

    /// The length of all pages as they are.
    pub fn raw_bytes(&self) -> u64 {
        self.pages() * PAGE_BYTES as u64
    }
}

impl AddAssign for EncodeStatistics {
    fn add_assign(&mut self, other: Self) {
        self.zero_pages += other.zero_pages;
        self.same_pages += other.same_pages;
        self.delta_pages += other.delta_pages;
        self.raw_pages += other.raw_pages;
        self.compressed_batches += other.compressed_batches;
        self.stored_batches += other.stored_batches;
        self.shipped_bytes += other.shipped_bytes;
        self.disk_bytes += other.disk_bytes;
        self.device_bytes += other.device_bytes;
    }
}
