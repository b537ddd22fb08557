//! Written pages by comparison with a copy: needs nothing of the kernel and misses nothing, but reads all memory.
//!
//! The fallback, and the oracle that the other trackers are held against.

use std::collections::HashSet;
use std::sync::Arc;

use super::{TrackError, WriteTracker};
use crate::pages::{PAGE_BYTES, PageRange, append};
use crate::ram::RamFile;

/// Keeps a copy of the guest's memory.
pub struct ShadowCompare {
    ram: Arc<RamFile>,
    copy: Vec<u8>,
    /// Pages that had memory when they were last looked at; all others are zero in the copy.
    populated: Vec<PageRange>,
}

impl ShadowCompare {
    /// Compare with `ram`, which is taken to be all zeros until `arm`.
    pub fn new(ram: Arc<RamFile>) -> Self {
        let bytes = usize::try_from(ram.len_bytes()).unwrap_or(usize::MAX);
        // Zeros come from the kernel untouched, so that pages the guest never uses cost no memory here either.
        Self { ram, copy: vec![0; bytes], populated: Vec::new() }
    }

    /// As an oracle: bring the copy up to date and give the pages that changed although `told` does not name them.
    pub fn missed(&mut self, told: &[PageRange]) -> Result<Vec<u64>, TrackError> {
        let mut changed = Vec::new();
        self.collect(&mut changed)?;
        let told: HashSet<u64> = told.iter().flat_map(|range| range.indices()).collect();
        Ok(changed.iter().flat_map(|range| range.indices()).filter(|index| !told.contains(index)).collect())
    }

    /// The content of a page as it was last seen.
    pub fn page(&self, index: u64) -> Option<&[u8; PAGE_BYTES]> {
        let (pages, _) = self.copy.as_chunks::<PAGE_BYTES>();
        pages.get(usize::try_from(index).ok()?)
    }

    fn update(&mut self, range: PageRange, changed: &mut Vec<PageRange>) -> Result<(), TrackError> {
        let (pages, _) = self.copy.as_chunks_mut::<PAGE_BYTES>();
        let mut fresh = Vec::with_capacity(PAGE_BYTES);
        for (page, index) in
            pages.iter_mut().skip(usize::try_from(range.first).unwrap_or(usize::MAX)).zip(range.indices())
        {
            if !self.ram.page_equals(index, page)? {
                fresh.clear();
                self.ram.copy_page_into(index, &mut fresh)?;
                page.copy_from_slice(&fresh);
                append(changed, PageRange { first: index, count: 1 });
            }
        }
        Ok(())
    }

    /// Pages that had memory and have none any more are zero now; looking at them would give them memory again.
    fn forget(&mut self, range: PageRange, changed: &mut Vec<PageRange>) {
        let (pages, _) = self.copy.as_chunks_mut::<PAGE_BYTES>();
        for (page, index) in
            pages.iter_mut().skip(usize::try_from(range.first).unwrap_or(usize::MAX)).zip(range.indices())
        {
            if page.iter().any(|&byte| byte != 0) {
                page.fill(0);
                append(changed, PageRange { first: index, count: 1 });
            }
        }
    }
}

impl WriteTracker for ShadowCompare {
    fn name(&self) -> &'static str {
        "shadow"
    }

    fn arm(&mut self) -> Result<(), TrackError> {
        self.collect(&mut Vec::new())
    }

    fn collect(&mut self, written: &mut Vec<PageRange>) -> Result<(), TrackError> {
        let populated = self.ram.populated()?;
        let mut changed = Vec::new();
        for range in difference(&self.populated, &populated) {
            self.forget(range, &mut changed);
        }
        for &range in &populated {
            self.update(range, &mut changed)?;
        }
        self.populated = populated;
        changed.sort_unstable();
        for range in changed {
            append(written, range);
        }
        Ok(())
    }
}

/// The pages of `before` that are not in `after`; both in order.
fn difference(before: &[PageRange], after: &[PageRange]) -> Vec<PageRange> {
    let mut gone = Vec::new();
    let mut after = after.iter().copied().peekable();
    for range in before {
        let mut first = range.first;
        while let Some(&kept) = after.peek() {
            if kept.first >= range.end() {
                break;
            }
            if kept.first > first {
                gone.push(PageRange { first, count: kept.first - first });
            }
            first = first.max(kept.end());
            if kept.end() > range.end() {
                break;
            }
            after.next();
        }
        if first < range.end() {
            gone.push(PageRange { first, count: range.end() - first });
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges_of(pages: &[bool]) -> Vec<PageRange> {
        let mut ranges = Vec::new();
        for (index, _) in (0..).zip(pages).filter(|(_, present)| **present) {
            append(&mut ranges, PageRange { first: index, count: 1 });
        }
        ranges
    }

    proptest! {
        #[test]
        fn the_difference_is_what_only_the_first_has(pages in prop::collection::vec(any::<(bool, bool)>(), 0..40)) {
            let before: Vec<bool> = pages.iter().map(|pair| pair.0).collect();
            let after: Vec<bool> = pages.iter().map(|pair| pair.1).collect();
            let only_before: Vec<bool> = pages.iter().map(|pair| pair.0 && !pair.1).collect();
            let gone = difference(&ranges_of(&before), &ranges_of(&after));
            let expected: Vec<u64> = ranges_of(&only_before).iter().flat_map(|range| range.indices()).collect();
            prop_assert_eq!(gone.iter().flat_map(|range| range.indices()).collect::<Vec<_>>(), expected);
        }
    }

    fn ram() -> Arc<RamFile> {
        Arc::new(RamFile::anonymous("test", 32 * PAGE_BYTES as u64).unwrap())
    }

    #[test]
    fn changed_pages_are_told_once() {
        let ram = ram();
        ram.write_page(1, &[1; PAGE_BYTES]).unwrap();
        let mut shadow = ShadowCompare::new(Arc::clone(&ram));
        shadow.arm().unwrap();
        ram.write_page(1, &[1; PAGE_BYTES]).unwrap();
        ram.write_page(5, &[5; PAGE_BYTES]).unwrap();
        ram.write_page(6, &[6; PAGE_BYTES]).unwrap();
        let mut written = Vec::new();
        shadow.collect(&mut written).unwrap();
        assert_eq!(written, [PageRange { first: 5, count: 2 }]);
        written.clear();
        shadow.collect(&mut written).unwrap();
        assert_eq!(written, []);
        assert_eq!(shadow.page(6), Some(&[6; PAGE_BYTES]));
    }

    #[test]
    fn a_page_that_was_given_back_has_changed_and_gets_no_memory() {
        let ram = ram();
        ram.write_page(3, &[3; PAGE_BYTES]).unwrap();
        let mut shadow = ShadowCompare::new(Arc::clone(&ram));
        shadow.arm().unwrap();
        ram.punch_hole(PageRange { first: 0, count: 32 }).unwrap();
        let mut written = Vec::new();
        shadow.collect(&mut written).unwrap();
        assert_eq!(written, [PageRange { first: 3, count: 1 }]);
        assert_eq!(ram.populated().unwrap(), []);
    }

    #[test]
    fn the_oracle_names_what_was_not_told() {
        let ram = ram();
        let mut shadow = ShadowCompare::new(Arc::clone(&ram));
        for index in [2, 3, 9] {
            ram.write_page(index, &[1; PAGE_BYTES]).unwrap();
        }
        assert_eq!(shadow.missed(&[PageRange { first: 3, count: 1 }]).unwrap(), [2, 9]);
        assert_eq!(shadow.missed(&[]).unwrap(), [0_u64; 0]);
    }
}
