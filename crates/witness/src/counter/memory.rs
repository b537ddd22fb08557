//! Pages that tell by themselves whether they are the right ones of the right time.
//!
//! Every word of a page follows from its number and its generation, that is how often it was rewritten; the
//! generation that a page must have follows from the number of steps (`order`). So verifying finds a flipped
//! bit, a page at the place of another, and also what a checksum inside the page would not find: an *older*
//! content of the same page, which is what a checkpoint leaves behind that has missed a page.
//!
//! A rewritten page changes in its first `fill` bytes; the others stay, as in a program that updates records,
//! and are verified all the same.

use std::hint::black_box;

use crate::counter::ledger::mix;
use crate::counter::order::Order;

/// The size of a page.
pub const PAGE_BYTES: usize = 4096;

const PAGE_WORDS: usize = PAGE_BYTES / size_of::<u64>();

/// Odd, so that the words of a page are all different; near 2^64 divided by the golden ratio.
const WORD_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where on the machine a page begins, so that rewriting one dirties one.
#[repr(align(4096))]
struct Page([u64; PAGE_WORDS]);

/// What was found at the place of what had to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    pub page: u64,
    /// How often it had been rewritten.
    pub generation: u64,
    /// The first wrong word.
    pub word: usize,
    pub wanted: u64,
    pub found: u64,
}

/// The pages and how many steps were made over them.
pub struct PatternMemory {
    pages: Vec<Page>,
    order: Order,
    fill_words: usize,
    steps: u64,
}

impl PatternMemory {
    /// So many pages, all written once; a step rewrites the first `fill_bytes` of a page. Without
    /// any there is nothing to step over.
    pub fn new(pages: usize, fill_bytes: usize) -> Self {
        let fill_words = fill_bytes.div_ceil(size_of::<u64>()).clamp(1, PAGE_WORDS);
        let written = |page| {
            let seeds = Seeds::of(page, 0);
            Page(std::array::from_fn(|word| seeds.word(word, fill_words)))
        };
        let order = Order::of(pages.max(1) as u64);
        Self { pages: (0..pages as u64).map(written).collect(), order, fill_words, steps: 0 }
    }

    /// How many pages there are.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Verifies the next page in the order, then rewrites it.
    pub fn step(&mut self) -> Result<(), Mismatch> {
        let page = self.order.page(self.steps);
        // First: what is rewritten can no longer be found wrong.
        let verified = self.verify(page);
        let generation = self.order.generation(page, self.steps) + 1;
        let seeds = Seeds::of(page, generation);
        let fill_words = self.fill_words;
        for (word, place) in self.words_mut(page)[..fill_words].iter_mut().enumerate() {
            *place = seeds.word(word, fill_words);
        }
        self.steps += 1;
        verified
    }

    /// Compares a page with what it must be now.
    pub fn verify(&self, page: u64) -> Result<(), Mismatch> {
        let generation = self.order.generation(page, self.steps);
        let seeds = Seeds::of(page, generation);
        // The compiler must not conclude from what was written what will be read.
        let words = black_box(self.words(page));
        let (changing, staying) = words.split_at(self.fill_words);
        let differs = |seed: u64, part: &[u64], first: usize| {
            // Without a branch for each word, which a translated guest would pay for dearly.
            part.iter().enumerate().fold(0, |bits, (at, &found)| bits | (found ^ word_of(seed, first + at))) != 0
        };
        if !differs(seeds.changing, changing, 0) && !differs(seeds.staying, staying, self.fill_words) {
            return Ok(());
        }
        let wanted = |word| seeds.word(word, self.fill_words);
        let word = (0..PAGE_WORDS).find(|&word| words[word] != wanted(word)).unwrap_or_default();
        Err(Mismatch { page, generation, word, wanted: wanted(word), found: words[word] })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the number of a page is below that of the pages")]
    fn words(&self, page: u64) -> &[u64; PAGE_WORDS] {
        &self.pages[page as usize].0
    }

    #[expect(clippy::cast_possible_truncation, reason = "the number of a page is below that of the pages")]
    fn words_mut(&mut self, page: u64) -> &mut [u64; PAGE_WORDS] {
        &mut self.pages[page as usize].0
    }
}

/// Where the words of a page start from: incompressible, yet one addition for each.
struct Seeds {
    changing: u64,
    staying: u64,
}

impl Seeds {
    fn of(page: u64, generation: u64) -> Self {
        let staying = mix(page);
        Self { changing: mix(staying ^ mix(generation.wrapping_add(1))), staying }
    }

    fn word(&self, word: usize, fill_words: usize) -> u64 {
        word_of(if word < fill_words { self.changing } else { self.staying }, word)
    }
}

fn word_of(seed: u64, word: usize) -> u64 {
    seed.wrapping_add(WORD_STEP.wrapping_mul(word as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mismatches(memory: &PatternMemory) -> Vec<Mismatch> {
        (0..memory.len() as u64).filter_map(|page| memory.verify(page).err()).collect()
    }

    #[test]
    fn a_counter_needs_no_memory() {
        assert_eq!(PatternMemory::new(0, 256).len(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn untouched_memory_verifies_and_a_flipped_bit_is_found(
            pages in 1..20_usize, fill_bytes in 1..=PAGE_BYTES, steps in 0..100_usize,
            page in 0..20_usize, word in 0..PAGE_WORDS, bit in 0..64,
        ) {
            let mut memory = PatternMemory::new(pages, fill_bytes);
            for _ in 0..steps {
                prop_assert_eq!(memory.step(), Ok(()));
            }
            prop_assert_eq!(mismatches(&memory), vec![]);
            let page = page % pages;
            memory.pages[page].0[word] ^= 1_u64 << bit;
            let found = mismatches(&memory);
            prop_assert_eq!(found.len(), 1, "{:?}", found);
            prop_assert_eq!((found[0].page, found[0].word), (page as u64, word));
            // Rewriting must not hide it.
            let stepped = (0..pages).filter(|_| memory.step().is_err()).count();
            prop_assert_eq!(stepped, 1);
        }

        #[test]
        fn an_older_content_of_a_page_is_found(pages in 1..20_usize, fill_bytes in 1..=PAGE_BYTES, page in 0..20_usize) {
            let mut memory = PatternMemory::new(pages, fill_bytes);
            let page = page % pages;
            let old = memory.pages[page].0;
            for _ in 0..pages {
                prop_assert_eq!(memory.step(), Ok(()));
            }
            memory.pages[page].0 = old;
            let found: Vec<u64> = mismatches(&memory).iter().map(|found| found.page).collect();
            prop_assert_eq!(found, vec![page as u64]);
        }
    }

    #[test]
    fn two_exchanged_pages_are_both_found() {
        let mut memory = PatternMemory::new(8, 64);
        memory.pages.swap(2, 5);
        let found: Vec<u64> = mismatches(&memory).iter().map(|found| found.page).collect();
        assert_eq!(found, [2, 5]);
    }

    #[test]
    fn a_step_changes_as_much_of_one_page_as_was_asked_for() {
        let mut memory = PatternMemory::new(4, 256);
        let before: Vec<[u64; PAGE_WORDS]> = memory.pages.iter().map(|page| page.0).collect();
        memory.step().unwrap();
        let changed = |page: usize| (0..PAGE_WORDS).filter(|&w| memory.pages[page].0[w] != before[page][w]).count();
        let mut counts: Vec<usize> = (0..4).map(changed).collect();
        counts.sort_unstable();
        assert_eq!(counts, [0, 0, 0, 32]);
    }
}
