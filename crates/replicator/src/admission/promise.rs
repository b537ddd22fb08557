//! What memory is promised to a member of a host: in a file of its folder, which whoever wants memory there counts as
//! long as the member lives. `stealtime protect start` reads it, too (`state.py`).

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{read, write};

const FILE: &str = "promise.json";

/// A promise that has changed by less is not written anew.
const STEP_BYTES: u64 = 4 << 20;

/// What a member was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Promise {
    /// Memory that it may use and does not use yet.
    pub bytes: u64,
    /// Whether all of its machine's memory is on the way.
    pub copies: bool,
}

impl Promise {
    /// That of the member in a folder.
    pub fn of(member_folder: &Path) -> Option<Self> {
        read(&member_folder.join(FILE))
    }
}

/// The promise to a member; withdrawn with it.
#[derive(Debug)]
pub struct Promised {
    path: PathBuf,
    needed: u64,
    used: u64,
    /// As it is written.
    promise: Promise,
}

impl Promised {
    /// Promise so many bytes to the member that lives in a folder.
    pub fn to(member_folder: &Path, bytes: u64) -> io::Result<Self> {
        Self::make(member_folder, Promise { bytes, copies: false })
    }

    pub(super) fn make(member_folder: &Path, promise: Promise) -> io::Result<Self> {
        let path = member_folder.join(FILE);
        write(&path, &promise)?;
        Ok(Self { path, needed: promise.bytes, used: 0, promise })
    }

    pub(super) fn copies(&self) -> bool {
        self.promise.copies
    }

    /// All memory of its machine is here, or not copied any more.
    pub(super) fn copied(&mut self) {
        if self.promise.copies {
            self.promise.copies = false;
            self.keep();
        }
    }

    /// The machine's memory takes so many bytes by now. Pages of zeros take none until the guest writes there, so that
    /// a machine whose memory is all here may still need most of it.
    pub fn uses(&mut self, bytes: u64) {
        self.used = bytes;
        let left = self.needed.saturating_sub(bytes);
        if left.abs_diff(self.promise.bytes) >= STEP_BYTES || (left == 0 && self.promise.bytes > 0) {
            self.promise.bytes = left;
            self.keep();
        }
    }

    /// From now on it needs so many bytes in all.
    pub fn needs(&mut self, bytes: u64) {
        self.needed = bytes;
        self.uses(self.used);
    }

    /// If it cannot be written, others count what was written before.
    fn keep(&self) {
        let _ = write(&self.path, &self.promise);
    }
}

impl Drop for Promised {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
