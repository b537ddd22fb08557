//! Written pages by comparison with a copy: needs nothing of the kernel, but reads all memory each time.
//!
//! The copy is what was *staged* of each page, not what the page held at some moment: a page that was
//! changed, staged and changed back is as it was, and yet not as it was staged.

use std::sync::Arc;

use super::{TrackError, WriteTracker};
use crate::pages::{PAGE_BYTES, PageRange, StagedPages, append};
use crate::ram::RamFile;

const ZERO_PAGE: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// What was last staged of a page.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Staged {
    /// Nothing since the tracker was armed.
    Nothing,
    /// Zeros: nothing is kept of them.
    Zeros,
    /// What the copy holds.
    Content,
}

/// Keeps a copy of what was staged of the guest's memory.
pub struct ShadowCompare {
    ram: Arc<RamFile>,
    copy: Vec<u8>,
    staged: Vec<Staged>,
}

impl ShadowCompare {
    /// Keeps a copy of `ram` to compare with.
    pub fn new(ram: Arc<RamFile>) -> Self {
        let pages = usize::try_from(ram.len_pages()).unwrap_or(usize::MAX);
        // Zeros come from the kernel untouched, so that pages the guest never uses cost no memory here
        // either.
        Self { ram, copy: vec![0; pages * PAGE_BYTES], staged: vec![Staged::Nothing; pages] }
    }

    fn differs(&self, index: u64) -> Result<bool, TrackError> {
        let (copy, _) = self.copy.as_chunks::<PAGE_BYTES>();
        let before = match self.staged[position(index)] {
            Staged::Nothing => return Ok(true),
            Staged::Zeros => &ZERO_PAGE,
            Staged::Content => &copy[position(index)],
        };
        Ok(!self.ram.page_equals(index, before)?)
    }
}

fn position(index: u64) -> usize {
    usize::try_from(index).expect("a page of memory that is mapped")
}

impl WriteTracker for ShadowCompare {
    fn name(&self) -> &'static str {
        "shadow"
    }

    fn arm(&mut self) -> Result<(), TrackError> {
        self.staged.fill(Staged::Nothing);
        Ok(())
    }

    fn collect(&mut self, written: &mut Vec<PageRange>) -> Result<(), TrackError> {
        let mut next = 0;
        let end = PageRange { first: self.ram.len_pages(), count: 0 };
        for populated in self.ram.populated()?.into_iter().chain([end]) {
            // Pages without memory are zero; looking at them would give them some.
            for index in next..populated.first {
                if self.staged[position(index)] != Staged::Zeros {
                    append(written, PageRange { first: index, count: 1 });
                }
            }
            for index in populated.indices() {
                if self.differs(index)? {
                    append(written, PageRange { first: index, count: 1 });
                }
            }
            next = populated.end();
        }
        Ok(())
    }

    fn staged(&mut self, pages: &StagedPages, from: usize) {
        let (copies, _) = self.copy.as_chunks_mut::<PAGE_BYTES>();
        for (index, page) in pages.iter().skip(from) {
            self.staged[position(index)] = if *page == ZERO_PAGE {
                Staged::Zeros
            } else {
                copies[position(index)] = *page;
                Staged::Content
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracked::TrackedMemory;

    const PAGES: u64 = 32;

    fn tracked() -> (Arc<RamFile>, TrackedMemory) {
        let ram = Arc::new(RamFile::anonymous("test", PAGES * PAGE_BYTES as u64).unwrap());
        let shadow = Box::new(ShadowCompare::new(Arc::clone(&ram)));
        (Arc::clone(&ram), TrackedMemory::new(ram, shadow))
    }

    fn collect(tracked: &mut TrackedMemory) -> Vec<PageRange> {
        let mut written = Vec::new();
        tracked.collect(&mut written).unwrap();
        written
    }

    fn stage(tracked: &mut TrackedMemory, first: u64, count: u64) {
        tracked.stage(&[PageRange { first, count }], &mut StagedPages::default()).unwrap();
    }

    #[test]
    fn a_page_is_told_until_it_is_staged_as_it_is() {
        let (ram, mut tracked) = tracked();
        ram.write_page(1, &[1; PAGE_BYTES]).unwrap();
        tracked.arm().unwrap();
        assert_eq!(collect(&mut tracked), [PageRange { first: 0, count: PAGES }], "nothing was staged yet");
        stage(&mut tracked, 0, PAGES);
        assert_eq!(collect(&mut tracked), []);
        ram.write_page(1, &[1; PAGE_BYTES]).unwrap();
        ram.write_page(5, &[5; PAGE_BYTES]).unwrap();
        ram.write_page(6, &[6; PAGE_BYTES]).unwrap();
        for _ in 0..2 {
            assert_eq!(collect(&mut tracked), [PageRange { first: 5, count: 2 }]);
        }
        stage(&mut tracked, 5, 2);
        assert_eq!(collect(&mut tracked), []);
        tracked.arm().unwrap();
        assert_eq!(collect(&mut tracked), [PageRange { first: 0, count: PAGES }], "a new copy begins");
    }

    #[test]
    fn pages_that_never_had_memory_are_not_given_any() {
        let (ram, mut tracked) = tracked();
        ram.write_page(7, &[7; PAGE_BYTES]).unwrap();
        let populated = ram.populated().unwrap();
        tracked.arm().unwrap();
        collect(&mut tracked);
        assert_eq!(ram.populated().unwrap(), populated);
    }

    #[test]
    fn a_page_that_was_given_back_is_zero_and_is_told() {
        let (ram, mut tracked) = tracked();
        ram.write_page(4, &[4; PAGE_BYTES]).unwrap();
        tracked.arm().unwrap();
        stage(&mut tracked, 0, PAGES);
        ram.punch_hole(PageRange { first: 3, count: 4 }).unwrap();
        assert_eq!(collect(&mut tracked), [PageRange { first: 4, count: 1 }], "the others are zero as before");
        stage(&mut tracked, 4, 1);
        assert_eq!(collect(&mut tracked), []);
    }
}
