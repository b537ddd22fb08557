//! What was counted, written to a disk as well, and read from it again: past the kernel's page cache, which is memory.
//!
//! Each total has a block of its own, whose every word follows from it; the disk has room for the newest ones, and
//! goes round. So what must be in each block follows from the total alone. A block that misses a write shows, and so
//! does one that has a write of a later total: one that the disk has and the memory has forgotten.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::counter::ledger::mix;

/// What is written at once: a block of the page cache and of most file systems.
const BLOCK_BYTES: usize = 4096;

/// So many totals are remembered: 8 MiB, which are read in some 100 ms.
const MOST_BLOCKS: u64 = 2048;

/// How long a machine that boots may take until its kernel has found the disk.
const FOUND_WITHIN: Duration = Duration::from_secs(10);

/// A disk that holds the newest totals.
#[derive(Debug)]
pub struct DiskLedger {
    file: File,
    blocks: u64,
    /// Twice a block, so that an aligned one is in it.
    room: Vec<u8>,
}

impl DiskLedger {
    /// Open a disk, or a file whose file system can do without the page cache.
    pub fn open(path: &Path) -> io::Result<Self> {
        let until = Instant::now() + FOUND_WITHIN;
        let mut file = loop {
            match OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                opened => break opened?,
            }
        };
        let bytes = file.seek(SeekFrom::End(0))?;
        let blocks = (bytes / BLOCK_BYTES as u64).min(MOST_BLOCKS);
        if blocks == 0 {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("it has {bytes} bytes, less than a block")));
        }
        Ok(Self { file, blocks, room: vec![0; 2 * BLOCK_BYTES] })
    }

    fn block(&mut self) -> &mut [u8] {
        let begin = self.room.as_ptr().align_offset(BLOCK_BYTES);
        &mut self.room[begin..begin + BLOCK_BYTES]
    }

    /// Write a total, and wait until the disk says that it has it.
    pub fn record(&mut self, total: u64) -> io::Result<()> {
        let place = total % self.blocks;
        let block = self.block();
        for (word, bytes) in words_of(total).zip(block.as_chunks_mut().0) {
            *bytes = word;
        }
        let begin = self.room.as_ptr().align_offset(BLOCK_BYTES);
        self.file.write_all_at(&self.room[begin..begin + BLOCK_BYTES], place * BLOCK_BYTES as u64)?;
        self.file.sync_data()
    }

    /// Read all that must be there after this total; gives how many blocks were looked at, and which of them are
    /// wrong.
    pub fn verify(&mut self, total: u64) -> io::Result<(u64, Vec<u64>)> {
        let oldest = total.saturating_sub(self.blocks - 1).max(1);
        let mut wrong = Vec::new();
        for expected in oldest..=total {
            let place = expected % self.blocks;
            let begin = self.room.as_ptr().align_offset(BLOCK_BYTES);
            self.file.read_exact_at(&mut self.room[begin..begin + BLOCK_BYTES], place * BLOCK_BYTES as u64)?;
            if !words_of(expected).eq(self.block().as_chunks().0.iter().copied()) {
                wrong.push(place);
            }
        }
        Ok(((oldest..=total).count() as u64, wrong))
    }
}

fn words_of(total: u64) -> impl Iterator<Item = [u8; 8]> {
    (0..(BLOCK_BYTES / 8) as u64).map(move |word| mix(total ^ mix(word)).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(blocks: u64) -> (tempfile::NamedTempFile, DiskLedger) {
        // Where files are in memory alone there is no way around the page cache.
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(blocks * BLOCK_BYTES as u64).unwrap();
        let ledger = DiskLedger::open(file.path()).unwrap();
        (file, ledger)
    }

    #[test]
    fn what_was_recorded_is_there_and_nothing_later() {
        let (file, mut ledger) = ledger(8);
        for total in 1..=20 {
            ledger.record(total).unwrap();
            assert_eq!(ledger.verify(total).unwrap(), (total.min(8), vec![]), "{total}");
        }
        // The memory has forgotten the last one, or the disk has.
        assert_eq!(ledger.verify(19).unwrap(), (8, vec![20 % 8]));
        assert_eq!(ledger.verify(21).unwrap(), (8, vec![21 % 8]));
        file.as_file().write_all_at(b"x", 3 * BLOCK_BYTES as u64 + 77).unwrap();
        assert_eq!(ledger.verify(20).unwrap(), (8, vec![3]));
    }

    #[test]
    fn a_disk_without_room_for_a_block_is_none() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(512).unwrap();
        assert!(DiskLedger::open(file.path()).unwrap_err().to_string().contains("less than a block"));
    }
}
