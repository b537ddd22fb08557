//! A thread that thrashes the caches: a page at random, each word of it read, changed and written back.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::Mapping;

const WORDS_OF_A_PAGE: usize = 4096 / size_of::<u64>();

/// The memory of a polluter, present.
pub struct Polluter {
    memory: Mapping,
    random: u64,
}

impl Polluter {
    pub fn new(bytes: u64, number: u32) -> io::Result<Self> {
        let words = usize::try_from(bytes).unwrap_or(usize::MAX) / size_of::<u64>();
        let mut memory = Mapping::new(words)?;
        memory.touch();
        // Any odd start of its own: the pages need not be unpredictable, only far apart.
        Ok(Self { memory, random: u64::from(number) * 2 + 1 })
    }

    /// Thrashes until told to stop; gives the pages that it went through.
    pub fn pollute(mut self, stop: &AtomicBool) -> u64 {
        let mut pages = 0;
        while !stop.load(Ordering::Relaxed) {
            for word in self.page() {
                *word = word.wrapping_add(1);
            }
            pages += 1;
        }
        pages
    }

    fn page(&mut self) -> &mut [u64] {
        // Knuth's MMIX generator; the high half of it is the random one.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let words = self.memory.cells_mut();
        let pages = words.len().div_ceil(WORDS_OF_A_PAGE);
        let first = (self.random >> 32) as usize % pages * WORDS_OF_A_PAGE;
        let end = words.len().min(first + WORDS_OF_A_PAGE);
        &mut words[first..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_turn() {
        let mut polluter = Polluter::new(16 * 4096 + 8, 0).unwrap();
        for _ in 0..1000 {
            for word in polluter.page() {
                *word = 77;
            }
        }
        assert!(polluter.memory.cells().iter().all(|&word| word == 77));
    }

    #[test]
    fn it_stops_when_told() {
        assert_eq!(Polluter::new(4096, 0).unwrap().pollute(&AtomicBool::new(true)), 0);
    }
}
