//! The copy of the disks in advance, while the guest runs: block by block where the standby's image differs, then what
//! was written meanwhile, until little is left; from then on all writes are kept.

use std::time::Duration;

use stealtime_disk::{BLOCK_BYTES, Blocks, Content, WINDOW_BLOCKS, Write};
use stealtime_shipping::{DiskDigests, DiskWanted, EpochBegin};

use super::Engine;
use super::advance::BrokenOff;
use crate::encoder::{DiskParcel, Parcel};
use crate::guest::{CaptureError, GuestEvent};

/// Few enough to be read and shipped while writes are already kept in memory: 16 MiB.
const LAST_BLOCKS: usize = 256;

/// A guest that writes faster than is shipped would be copied for ever: after so many rounds what is left goes as it
/// is.
const ROUNDS: u32 = 20;

impl Engine {
    /// From here on it is noted which blocks are written.
    pub(super) fn note_disks(&self) {
        if !self.settings.disks.is_empty() {
            self.settings.disks.recorder.note_blocks();
        }
    }

    /// The standby has said what differs.
    pub(super) fn hear_what_is_wanted(&mut self, wanted: DiskWanted) {
        if wanted.term == self.copies.term {
            self.wanted = Some(wanted.blocks);
        }
    }

    /// Ship each block that is another one at the standby.
    pub(super) fn copy_disks(&mut self, head: EpochBegin) -> Result<BrokenOff, CaptureError> {
        let images: Vec<_> = self.settings.disks.images().cloned().collect();
        let mut copied = 0;
        for (disk, image) in (0..).zip(&images) {
            for first in (0..image.blocks()).step_by(usize::try_from(WINDOW_BLOCKS).unwrap_or(1)) {
                let count = WINDOW_BLOCKS.min(image.blocks() - first);
                let failed = |source| CaptureError::Disk { image: image.path().to_owned(), source };
                let digests = image.digests(first, count).map_err(failed)?;
                self.wanted = None;
                let question = DiskParcel::Digests(DiskDigests { term: head.term, disk, first, digests });
                if let Some(is_end) = self.pass_on(Parcel::Disk(question))? {
                    return Ok(Some(is_end));
                }
                let answered = |engine: &mut Self| Ok(engine.wanted.is_some());
                if let Some(is_end) = self.hear_until(Duration::MAX, answered)? {
                    return Ok(Some(is_end));
                }
                let mut blocks = Blocks::default();
                for block in self.wanted.take().unwrap_or_default() {
                    // What it was not asked about is none of its business.
                    if (first..first + count).contains(&block) {
                        blocks.add(disk, block * BLOCK_BYTES, 1);
                    }
                }
                copied += blocks.len();
                if let Some(is_end) = self.ship_blocks(head, &blocks)? {
                    return Ok(Some(is_end));
                }
                self.tell(GuestEvent::PartShipped { raw_bytes: (count * BLOCK_BYTES).min(image.bytes()) });
            }
        }
        for _ in 0..ROUNDS {
            let blocks = self.settings.disks.recorder.take_blocks();
            let is_last = blocks.len() <= LAST_BLOCKS;
            copied += blocks.len();
            if let Some(is_end) = self.ship_blocks(head, &blocks)? {
                return Ok(Some(is_end));
            }
            if is_last {
                break;
            }
        }
        if !images.is_empty() {
            let compared_bytes = images.iter().map(|image| image.bytes()).sum();
            let copied_bytes = copied as u64 * BLOCK_BYTES;
            self.tell(GuestEvent::DisksCopied { compared_bytes, copied_bytes });
        }
        Ok(None)
    }

    /// Keep writes from now on, and ship the blocks that were written before. What is read of a block may have later
    /// writes in it already: those come again, and in their order.
    pub(super) fn copy_last_blocks(&mut self, head: EpochBegin) -> Result<BrokenOff, CaptureError> {
        if self.settings.disks.is_empty() {
            return Ok(None);
        }
        // Those of the rounds of the memory; what is left after them are the few that were written meanwhile.
        let earlier = self.settings.disks.recorder.take_blocks();
        if let Some(is_end) = self.ship_blocks(head, &earlier)? {
            return Ok(Some(is_end));
        }
        let last = self.settings.disks.recorder.keep_writes();
        self.ship_blocks(head, &last)
    }

    fn ship_blocks(&mut self, head: EpochBegin, blocks: &Blocks) -> Result<BrokenOff, CaptureError> {
        let all: Vec<_> = blocks.iter().collect();
        for part in all.chunks(LAST_BLOCKS) {
            let mut writes = Vec::with_capacity(part.len());
            for &(disk, block) in part {
                let Some(image) = self.settings.disks.image(disk) else { continue };
                let mut content = Vec::new();
                let failed = |source| CaptureError::Disk { image: image.path().to_owned(), source };
                image.read_block(block, &mut content).map_err(failed)?;
                let content = if content.iter().all(|byte| *byte == 0) {
                    Content::Zeroes(content.len() as u64)
                } else {
                    Content::Data(content)
                };
                writes.push(Write { disk, offset: block * BLOCK_BYTES, content });
            }
            if let Some(is_end) = self.pass_on(Parcel::Disk(DiskParcel::Part { head, writes }))? {
                return Ok(Some(is_end));
            }
            if let Some(is_end) = self.await_held()? {
                return Ok(Some(is_end));
            }
        }
        Ok(None)
    }
}
