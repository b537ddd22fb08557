//! The hashes that say what an encoded epoch decodes to (XXH3-64: against damage and mistakes; against malice
//! stands the transport).

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::message::EpochBegin;
use crate::page::Page;

/// The hash of a batch: of the index and the content of each of its pages.
#[derive(Default)]
pub struct BatchHash {
    indices_and_hashes: Vec<u8>,
}

impl BatchHash {
    pub fn add(&mut self, index: u64, page: &Page) {
        self.indices_and_hashes.extend_from_slice(&index.to_le_bytes());
        self.indices_and_hashes.extend_from_slice(&xxh3_64(page).to_le_bytes());
    }

    /// The hash of the pages that were added, and none from here on.
    pub fn take(&mut self) -> u64 {
        let hash = xxh3_64(&self.indices_and_hashes);
        self.indices_and_hashes.clear();
        hash
    }
}

/// The digest of an epoch: of its head, the hashes of its batches, what it has of the disks and its device state.
pub struct EpochDigest(Xxh3);

impl EpochDigest {
    /// The digest of an epoch of which only the head is known.
    pub fn new(begin: &EpochBegin) -> Self {
        let mut digest = Xxh3::new();
        for number in [begin.term.0, begin.epoch.0, u64::from(begin.full), begin.pages, begin.device_bytes] {
            digest.update(&number.to_le_bytes());
        }
        // A machine without disks is digested as one always was.
        if begin.disk_bytes > 0 {
            digest.update(&begin.disk_bytes.to_le_bytes());
        }
        Self(digest)
    }

    /// Adds the hash of the next batch.
    pub fn batch(&mut self, hash: u64) {
        self.0.update(&hash.to_le_bytes());
    }

    /// Adds the next bytes of what the disks have.
    pub fn disks(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the next bytes of the device state.
    pub fn devices(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was added.
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}
