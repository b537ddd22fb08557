//! What the standby's memory and disks are compared with while the guest is protected.
//!
//! Nothing waits for it. Some pages are read while the guest runs; the next epoch tells which of them were written
//! meanwhile. The others hold now what they held at its cut, and their digests go behind it. So with the blocks of the
//! disks, which are read by a thread of their own: a medium may be slow.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use stealtime_capture::{PageRange, RamFile, TrackerKind};
use stealtime_disk::{BlockDigest, Blocks, Image, Write};
use stealtime_shipping::{Comparison, PAGE_BYTES, page_digest};
use stealtime_succession::{Epoch, Term};

use crate::clock::now;

/// Each page is compared once in this time, unless the memory is larger than fits into [`PAGES_MAX`] an epoch.
const MEMORY_IN: Duration = Duration::from_secs(60);
const PAGES_MIN: u128 = 16;
/// 8 MiB an epoch, which take the engine a millisecond or two between two epochs.
const PAGES_MAX: u128 = 2048;

/// From one block of the disks to the next: 640 KiB a second.
const BLOCK_EVERY: Duration = Duration::from_millis(100);

/// How many pages are compared with each epoch.
fn pages_at_once(ram_pages: u64, interval: Duration) -> u64 {
    let needed = (u128::from(ram_pages) * interval.as_nanos()).div_ceil(MEMORY_IN.as_nanos());
    u64::try_from(needed.clamp(PAGES_MIN, PAGES_MAX)).unwrap_or(u64::MAX).min(ram_pages)
}

/// What was read since the last cut, and what comes next.
pub(super) struct Comparing {
    /// None: written pages are found by their content. Of one that was written and has its old content again at the cut
    /// nobody would know that it was read in between.
    ram: Option<Arc<RamFile>>,
    next_page: u64,
    pages: Vec<(u64, u64)>,
    disks: Option<DiskReading>,
}

impl Comparing {
    pub(super) fn new(ram: &Arc<RamFile>, tracker: &str, images: Vec<Arc<Image>>) -> io::Result<Self> {
        let ram = (tracker != TrackerKind::Shadow.name()).then(|| Arc::clone(ram));
        let disks = if images.is_empty() { None } else { Some(DiskReading::start(images)?) };
        Ok(Self { ram, next_page: 0, pages: Vec::new(), disks })
    }

    /// Read some pages, and have a block be read. The guest runs, and what it writes from here on is in the next epoch.
    pub(super) fn read(&mut self, epoch: Epoch, interval: Duration) {
        self.pages.clear();
        if let Some(ram) = &self.ram {
            let ram_pages = ram.len_pages();
            let mut content = Vec::with_capacity(PAGE_BYTES);
            for _ in 0..pages_at_once(ram_pages, interval) {
                let index = self.next_page;
                self.next_page = (index + 1) % ram_pages;
                content.clear();
                // What cannot be read is not compared.
                if ram.copy_page_into(index, &mut content).is_ok()
                    && let Ok(page) = content.as_slice().try_into()
                {
                    self.pages.push((index, page_digest(page)));
                }
            }
        }
        if let Some(disks) = &mut self.disks {
            disks.ask(epoch);
        }
    }

    /// The guest stands. A block that is read from here on may hold a write of the epoch after this one.
    pub(super) fn cut(&mut self) {
        if let Some(disks) = &mut self.disks {
            disks.cut();
        }
    }

    /// What was read between the cut before the last one and the last, and was not written meanwhile.
    ///
    /// `written`: the pages of this epoch, in order; `writes`: what was written of the disks in it.
    pub(super) fn take(&mut self, term: Term, epoch: Epoch, written: &[PageRange], writes: &[Write]) -> Comparison {
        let is_written = |index: u64| {
            let after = written.partition_point(|range| range.first <= index);
            after.checked_sub(1).is_some_and(|before| index < written[before].end())
        };
        let mut pages = std::mem::take(&mut self.pages);
        pages.retain(|(index, _)| !is_written(*index));
        let blocks = self.disks.as_mut().map_or_else(Vec::new, |disks| disks.take(epoch, writes));
        Comparison { term, epoch, pages, blocks }
    }

    /// What was read is of no use: another epoch than the next comes first.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
        if let Some(disks) = &mut self.disks {
            disks.asked_in = None;
        }
    }
}

/// A block of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    disk: u8,
    block: u64,
}

/// Blocks that a thread reads, one after the other.
struct DiskReading {
    /// How many blocks each disk has.
    blocks: Vec<u64>,
    next: Place,
    places: Sender<Place>,
    read: Receiver<(Place, io::Result<BlockDigest>)>,
    /// What the thread had read at the last cut.
    read_at_cut: Option<(Place, io::Result<BlockDigest>)>,
    /// The last epoch before the thread was asked; None: nothing is asked, or what comes is of no use.
    asked_in: Option<Epoch>,
    is_busy: bool,
    next_at: Duration,
}

impl DiskReading {
    fn start(images: Vec<Arc<Image>>) -> io::Result<Self> {
        let (places, to_read) = mpsc::channel::<Place>();
        let (tell, read) = mpsc::channel();
        let blocks = images.iter().map(|image| image.blocks()).collect();
        thread::Builder::new().name("disk-compare".to_owned()).spawn(move || {
            while let Ok(place) = to_read.recv() {
                let digests = images[usize::from(place.disk)].digests(place.block, 1);
                if tell.send((place, digests.map(|digests| digests[0]))).is_err() {
                    return;
                }
            }
        })?;
        let next = Place { disk: 0, block: 0 };
        Ok(Self { blocks, next, places, read, read_at_cut: None, asked_in: None, is_busy: false, next_at: now() })
    }

    fn ask(&mut self, epoch: Epoch) {
        if self.is_busy || now() < self.next_at {
            return;
        }
        let place = self.next;
        self.next = self.after(place);
        self.next_at = now() + BLOCK_EVERY;
        self.is_busy = self.places.send(place).is_ok();
        self.asked_in = Some(epoch);
    }

    fn after(&self, Place { disk, block }: Place) -> Place {
        if block + 1 < self.blocks[usize::from(disk)] {
            return Place { disk, block: block + 1 };
        }
        let next = usize::from(disk) + 1;
        Place { disk: u8::try_from(next % self.blocks.len()).unwrap_or(0), block: 0 }
    }

    fn cut(&mut self) {
        // One at most is under way.
        if self.read_at_cut.is_none() {
            self.read_at_cut = self.read.try_recv().ok();
        }
    }

    fn take(&mut self, epoch: Epoch, writes: &[Write]) -> Vec<(u8, u64, BlockDigest)> {
        let Some((place, digest)) = self.read_at_cut.take() else {
            return Vec::new();
        };
        self.is_busy = false;
        // Of one that was asked for before an earlier cut it is not known what was written in between.
        let is_of_this = self.asked_in.take().is_some_and(|asked| asked.next() == epoch);
        let mut written = Blocks::default();
        for write in writes {
            written.add(write.disk, write.offset, write.len());
        }
        let is_unchanged = !written.iter().any(|(disk, block)| Place { disk, block } == place);
        match digest {
            Ok(digest) if is_of_this && is_unchanged => vec![(place.disk, place.block, digest)],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use stealtime_disk::{Content, ImageFile};

    use super::*;

    const PAGES: u64 = 64;

    fn comparing(images: Vec<Arc<Image>>) -> Comparing {
        let ram = Arc::new(RamFile::anonymous("comparing", PAGES * PAGE_BYTES as u64).unwrap());
        Comparing::new(&ram, "userfault", images).unwrap()
    }

    #[test]
    fn memory_is_not_compared_where_written_pages_are_found_by_their_content() {
        let ram = Arc::new(RamFile::anonymous("comparing", PAGES * PAGE_BYTES as u64).unwrap());
        let mut comparing = Comparing::new(&ram, "shadow", Vec::new()).unwrap();
        comparing.read(Epoch(1), Duration::from_millis(100));
        assert!(comparing.take(Term(1), Epoch(2), &[], &[]).is_empty());
    }

    #[test]
    fn all_memory_is_compared_within_a_minute_unless_it_is_very_large() {
        let gib = (1 << 30) / PAGE_BYTES as u64;
        let interval = Duration::from_millis(100);
        assert_eq!(pages_at_once(gib, interval), gib.div_ceil(600));
        assert_eq!(pages_at_once(gib / 8, Duration::from_millis(5)), 16);
        assert_eq!(pages_at_once(64 * gib, interval), 2048);
        assert_eq!(pages_at_once(4, interval), 4);
    }

    #[test]
    fn what_was_written_meanwhile_is_not_compared() {
        let mut comparing = comparing(Vec::new());
        comparing.ram.as_ref().unwrap().write_page(3, &[7; PAGE_BYTES]).unwrap();
        comparing.read(Epoch(1), Duration::from_millis(100));
        let written = [PageRange { first: 1, count: 2 }, PageRange { first: 5, count: 1 }];
        let comparison = comparing.take(Term(1), Epoch(2), &written, &[]);
        let indices: Vec<u64> = comparison.pages.iter().map(|(index, _)| *index).collect();
        assert_eq!(indices, [0, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(comparison.pages[1].1, page_digest(&[7; PAGE_BYTES]));
        // The next ones come next, and from the end on the first ones.
        for (epoch, first) in [(2, 16), (3, 32), (4, 48), (5, 0)] {
            comparing.read(Epoch(epoch), Duration::from_millis(100));
            assert_eq!(comparing.take(Term(1), Epoch(epoch + 1), &[], &[]).pages[0].0, first);
        }
        comparing.read(Epoch(6), Duration::from_millis(100));
        comparing.forget();
        assert!(comparing.take(Term(1), Epoch(7), &[], &[]).is_empty());
    }

    /// Take until the thread has read.
    fn taken(comparing: &mut Comparing, asked: u64, cut: u64, writes: &[Write]) -> Vec<(u8, u64, BlockDigest)> {
        let disks = comparing.disks.as_mut().unwrap();
        disks.next_at = Duration::ZERO;
        disks.ask(Epoch(asked));
        while disks.is_busy {
            disks.cut();
            let blocks = disks.take(Epoch(cut), writes);
            if !disks.is_busy {
                return blocks;
            }
            thread::yield_now();
        }
        panic!("nothing was asked");
    }

    #[test]
    fn a_block_that_was_read_after_the_cut_is_not_compared() {
        let folder = tempfile::tempdir().unwrap();
        let file = ImageFile::raw(folder.path().join("a"));
        let image = Image::open_or_make(&file, stealtime_disk::BLOCK_BYTES).unwrap();
        let mut comparing = comparing(vec![Arc::new(image)]);
        comparing.cut();
        // The thread reads while the guest runs on and writes what belongs to the epoch after the one that is taken.
        let disks = comparing.disks.as_mut().unwrap();
        disks.ask(Epoch(4));
        for _ in 0..100 {
            assert_eq!(disks.take(Epoch(5), &[]), []);
            thread::sleep(Duration::from_millis(1));
        }
        disks.cut();
        assert_eq!(disks.take(Epoch(6), &[]), [], "a cut lies in between");
        assert!(!disks.is_busy, "the next one may be asked for");
    }

    #[test]
    fn a_block_is_compared_that_was_read_and_not_written_between_two_cuts() {
        let folder = tempfile::tempdir().unwrap();
        let images = [("a", 2), ("b", 1)].map(|(name, blocks)| {
            let bytes = blocks * stealtime_disk::BLOCK_BYTES;
            Arc::new(Image::open_or_make(&ImageFile::raw(folder.path().join(name)), bytes).unwrap())
        });
        let mut comparing = comparing(images.to_vec());
        let zero = images[0].digests(0, 1).unwrap()[0];
        let write = |disk, block| Write {
            disk,
            offset: block * stealtime_disk::BLOCK_BYTES + 9,
            content: Content::Data(b"x".to_vec()),
        };
        assert_eq!(taken(&mut comparing, 4, 5, &[write(0, 1), write(1, 0)]), [(0, 0, zero)]);
        assert_eq!(taken(&mut comparing, 5, 6, &[write(0, 1)]), [], "it was written");
        assert_eq!(taken(&mut comparing, 6, 7, &[]), [(1, 0, zero)]);
        assert_eq!(taken(&mut comparing, 7, 9, &[]), [], "a cut lies in between");
        assert_eq!(taken(&mut comparing, 9, 10, &[]), [(0, 1, zero)]);
    }
}
