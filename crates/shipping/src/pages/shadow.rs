//! What the standby holds, as far as it was shipped: as much memory as the guest has, touched only where
//! pages were.

use crate::page::{PAGE_BYTES, Page};

const BITS: usize = u64::BITS as usize;

/// The content of each page as it was last shipped.
pub struct Shadow {
    content: Vec<u8>,
    shipped: Vec<u64>,
}

impl Shadow {
    /// A shadow of `pages` pages of which none was shipped.
    pub fn new(pages: usize) -> Self {
        Self { content: vec![0; pages * PAGE_BYTES], shipped: vec![0; pages.div_ceil(BITS)] }
    }

    pub fn forget(&mut self) {
        self.shipped.fill(0);
    }

    /// What was last shipped of a page, if anything was.
    pub fn page(&self, index: usize) -> Option<&Page> {
        let shipped = self.shipped.get(index / BITS)? >> (index % BITS) & 1 == 1;
        self.content.get(index * PAGE_BYTES..)?.first_chunk().filter(|_| shipped)
    }

    /// Notes what is shipped of a page.
    pub fn store(&mut self, index: usize, page: &Page) {
        self.content[index * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(page);
        self.shipped[index / BITS] |= 1 << (index % BITS);
    }
}
