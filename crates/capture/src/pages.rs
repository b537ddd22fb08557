//! Pages of the guest's memory by their number in the file.

use crate::sys::prefer_huge_pages;

/// Size of a page, of the guest and of the host.
pub const PAGE_BYTES: usize = 4096;

/// A run of pages by their index in the RAM file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRange {
    pub first: u64,
    /// How many; never 0.
    pub count: u64,
}

impl PageRange {
    /// The page after the last one.
    pub fn end(self) -> u64 {
        self.first + self.count
    }

    /// The index of each page in it.
    pub fn indices(self) -> std::ops::Range<u64> {
        self.first..self.end()
    }
}

/// How many pages the ranges hold together.
pub fn count_pages(ranges: &[PageRange]) -> u64 {
    ranges.iter().map(|range| range.count).sum()
}

/// Append `range`, joined to the last one if it follows it immediately.
pub(crate) fn append(ranges: &mut Vec<PageRange>, range: PageRange) {
    match ranges.last_mut() {
        Some(last) if last.end() == range.first => last.count += range.count,
        _ => ranges.push(range),
    }
}

/// Copies of pages, taken while the guest was stopped. Kept from epoch to epoch, so that nothing is allocated
/// in a pause.
#[derive(Clone, Debug, Default)]
pub struct StagedPages {
    /// Their indices, in the order of `content`.
    pub indices: Vec<u64>,
    /// Their bytes: `indices.len() * PAGE_BYTES`.
    pub content: Vec<u8>,
}

impl StagedPages {
    /// Empty it and make room for at least `pages` pages, touched, so that no pause pays for them.
    pub fn clear_with_room_for(&mut self, pages: usize) {
        self.clear();
        if self.room() < pages {
            // What was there is given back first: its content is of no use, and need not be moved.
            self.content = Vec::new();
            self.content = Vec::with_capacity(pages * PAGE_BYTES);
            prefer_huge_pages(self.content.spare_capacity_mut());
            for page in self.content.spare_capacity_mut().chunks_mut(PAGE_BYTES) {
                page[0].write(1);
            }
            self.indices.reserve(pages);
        }
    }

    /// Make room for so many more pages at once, of which the new ones are not touched.
    pub(crate) fn reserve(&mut self, more: usize) {
        // What is touched stays so: large memory is moved by its page table.
        self.content.reserve_exact(more * PAGE_BYTES);
        self.indices.reserve(more);
    }

    /// For how many pages there is room without asking the kernel for more.
    pub fn room(&self) -> usize {
        self.content.capacity() / PAGE_BYTES
    }

    /// Empty it; the room stays.
    pub fn clear(&mut self) {
        self.indices.clear();
        self.content.clear();
    }

    /// How many pages it holds.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Each page with its index.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8; PAGE_BYTES])> {
        self.indices.iter().copied().zip(self.content.as_chunks::<PAGE_BYTES>().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_once_and_kept() {
        let mut staged = StagedPages::default();
        staged.clear_with_room_for(10);
        assert!(staged.is_empty() && staged.room() >= 10 && staged.indices.capacity() >= 10);
        let before = staged.content.as_ptr();
        staged.indices.push(3);
        staged.content.extend([7; PAGE_BYTES]);
        staged.clear_with_room_for(4);
        assert!(staged.is_empty() && staged.room() >= 10 && staged.content.as_ptr() == before);
    }

    #[test]
    fn more_room_keeps_what_is_there() {
        let mut staged = StagedPages::default();
        staged.indices.push(3);
        staged.content.extend([7; PAGE_BYTES]);
        staged.reserve(1500);
        assert!(staged.room() > 1500 && staged.indices.capacity() > 1500);
        assert_eq!(staged.iter().collect::<Vec<_>>(), [(3, &[7; PAGE_BYTES])]);
    }

    #[test]
    fn ranges_that_touch_are_joined_and_others_are_not() {
        let mut ranges = Vec::new();
        for (first, count) in [(0, 2), (2, 1), (4, 1), (5, 3)] {
            append(&mut ranges, PageRange { first, count });
        }
        assert_eq!(ranges, [PageRange { first: 0, count: 3 }, PageRange { first: 4, count: 4 }]);
        assert_eq!(count_pages(&ranges), 7);
        assert_eq!(ranges[1].indices().collect::<Vec<_>>(), [4, 5, 6, 7]);
    }
}
