//! Where the stager finds the earlier content of pages.

use super::{StagedEpoch, StagedPage};
use crate::page::{PAGE_BYTES, Page};

/// The content of the standby's memory after some epoch.
pub trait PageSource {
    /// Copies the page `index`, which is below the limit that the stager was given.
    fn page(&self, index: u64, into: &mut Page);
}

impl PageSource for [u8] {
    fn page(&self, index: u64, into: &mut Page) {
        let from = usize::try_from(index).ok().and_then(|index| index.checked_mul(PAGE_BYTES));
        match from.and_then(|from| self.get(from..)?.first_chunk()) {
            Some(page) => *into = *page,
            None => into.fill(0),
        }
    }
}

impl PageSource for Vec<u8> {
    fn page(&self, index: u64, into: &mut Page) {
        self.as_slice().page(index, into);
    }
}

/// A base with epochs on top that are staged and not applied to it yet: what the next epoch is to be decoded
/// against.
pub struct Layers<'base, Epochs> {
    base: &'base dyn PageSource,
    newest_first: Epochs,
}

impl<'base, 'epochs, Epochs: Iterator<Item = &'epochs StagedEpoch> + Clone> Layers<'base, Epochs> {
    /// Puts epochs on top of `base`; the first of them is the last that was staged.
    pub fn new(base: &'base dyn PageSource, newest_first: Epochs) -> Self {
        Self { base, newest_first }
    }
}

impl<'epochs, Epochs: Iterator<Item = &'epochs StagedEpoch> + Clone> PageSource for Layers<'_, Epochs> {
    fn page(&self, index: u64, into: &mut Page) {
        match self.newest_first.clone().find_map(|epoch| epoch.find(index)) {
            Some(StagedPage::Zero) => into.fill(0),
            Some(StagedPage::Content(page)) => *into = *page,
            None => self.base.page(index, into),
        }
    }
}
