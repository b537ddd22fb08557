//! The copy of the disks in advance, while the guest runs: block by block where the standby's image differs, then what
//! was written meanwhile, until little is left; from then on all writes are kept.

use std::num::NonZeroU64;
use std::time::Duration;

use stealtime_disk::{BLOCK_BYTES, Blocks, Content, WINDOW_BLOCKS, Write};
use stealtime_shipping::{DiskDigests, DiskWanted, EpochBegin};

use super::Engine;
use super::advance::BrokenOff;
use crate::clock::now;
use crate::encoder::{DiskParcel, Parcel};
use crate::guest::{CaptureError, GuestEvent};

/// Few enough to be read and shipped while writes are already kept in memory: 16 MiB.
const LAST_BLOCKS: usize = 256;

/// When the next blocks may go, so that no more than so many bytes go a second.
#[derive(Debug)]
struct Pace {
    bytes_per_s: Option<NonZeroU64>,
    begun: Duration,
    bytes: u64,
}

impl Pace {
    fn begin(bytes_per_s: Option<NonZeroU64>) -> Self {
        Self { bytes_per_s, begun: now(), bytes: 0 }
    }

    /// How many blocks go at once: a tenth of a second of them.
    fn blocks(&self) -> usize {
        let fitting = |rate: NonZeroU64| usize::try_from(rate.get() / 10 / BLOCK_BYTES).unwrap_or(LAST_BLOCKS);
        self.bytes_per_s.map_or(LAST_BLOCKS, fitting).clamp(1, LAST_BLOCKS)
    }

    /// The moment at which all that has gone so far may have gone.
    fn next(&self) -> Duration {
        let needed_ns =
            self.bytes_per_s.map_or(0, |rate| u128::from(self.bytes) * 1_000_000_000 / u128::from(rate.get()));
        self.begun + Duration::from_nanos(u64::try_from(needed_ns).unwrap_or(u64::MAX))
    }
}

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
        let mut pace = Pace::begin(self.settings.disk_copy_bytes_per_s);
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
                if let Some(is_end) = self.ship_blocks(head, &blocks, &mut pace)? {
                    return Ok(Some(is_end));
                }
                self.tell(GuestEvent::PartShipped { raw_bytes: (count * BLOCK_BYTES).min(image.bytes()) });
            }
        }
        for _ in 0..ROUNDS {
            let blocks = self.settings.disks.recorder.take_blocks();
            let is_last = blocks.len() <= LAST_BLOCKS;
            copied += blocks.len();
            if let Some(is_end) = self.ship_blocks(head, &blocks, &mut pace)? {
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
        // The machine is about to be protected: nothing waits for a rate any more.
        let mut pace = Pace::begin(None);
        // Those of the rounds of the memory; what is left after them are the few that were written meanwhile.
        let earlier = self.settings.disks.recorder.take_blocks();
        if let Some(is_end) = self.ship_blocks(head, &earlier, &mut pace)? {
            return Ok(Some(is_end));
        }
        let last = self.settings.disks.recorder.keep_writes();
        self.ship_blocks(head, &last, &mut pace)
    }

    fn ship_blocks(&mut self, head: EpochBegin, blocks: &Blocks, pace: &mut Pace) -> Result<BrokenOff, CaptureError> {
        let all: Vec<_> = blocks.iter().collect();
        for part in all.chunks(pace.blocks()) {
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
                if let Content::Data(data) = &content {
                    pace.bytes += data.len() as u64;
                }
                writes.push(Write { disk, offset: block * BLOCK_BYTES, content });
            }
            if let Some(is_end) = self.pass_on(Parcel::Disk(DiskParcel::Part { head, writes }))? {
                return Ok(Some(is_end));
            }
            if let Some(is_end) = self.await_held()? {
                return Ok(Some(is_end));
            }
            if let Some(is_end) = self.hear_until(pace.next(), |_| Ok(false))? {
                return Ok(Some(is_end));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_by_small_parts_and_without_one_nothing_waits() {
        let pace = |bytes_per_s: Option<u64>, bytes| Pace {
            bytes_per_s: bytes_per_s.map(|rate| NonZeroU64::new(rate).unwrap()),
            begun: Duration::from_secs(7),
            bytes,
        };
        for (bytes_per_s, blocks) in [(1, 1), (10 * BLOCK_BYTES, 1), (100 * BLOCK_BYTES, 10), (1 << 40, LAST_BLOCKS)] {
            assert_eq!(pace(Some(bytes_per_s), 0).blocks(), blocks, "{bytes_per_s}");
        }
        assert_eq!(pace(Some(1 << 20), 3 << 19).next(), Duration::from_millis(8_500));
        let unlimited = pace(None, u64::MAX);
        assert_eq!((unlimited.blocks(), unlimited.next()), (LAST_BLOCKS, Duration::from_secs(7)));
    }
}
