//! Pages of the guest's memory by their number in the file.

/// Size of a page, of the guest and of the host.
pub const PAGE_BYTES: usize = 4096;

/// A run of pages by their index in the RAM file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageRange {
    /// The first page.
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

/// Copies of pages, taken while the guest was stopped. Kept from epoch to epoch, so that nothing is allocated in a pause.
#[derive(Clone, Debug, Default)]
pub struct StagedPages {
    /// Their indices, in the order of `content`.
    pub indices: Vec<u64>,
    /// Their bytes: `indices.len() * PAGE_BYTES`.
    pub content: Vec<u8>,
}

impl StagedPages {
    /// With room for `pages` pages, touched, so that the first pause does not pay for them.
    pub fn with_room_for(pages: usize) -> Self {
        let mut content = vec![1_u8; pages * PAGE_BYTES];
        content.clear();
        Self { indices: Vec::with_capacity(pages), content }
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
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.indices.iter().copied().zip(self.content.chunks_exact(PAGE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
