//! The load `cpu`: endless arithmetic that fits the first-level cache.
//!
//! The paper's neighbour is "an infinite loop of mathematical calculations" whose program "is quite small and
//! fits in the core cache together with its data" (Fayyad-Kazan, Perneel, Timmerman, GJCST-H 13(2), 2013,
//! scenario 3 and the discussion of scenario 5). **One loop** is one pass over 2048 words of 8 bytes: each is
//! loaded, multiplied, added to and stored ([`crate::sys::multiply_and_add`], seven instructions a word):
//! 14336 instructions, 32 KiB of traffic with the first-level cache, none with anything beyond it.

use stealtime_wire::WorkUnit;

use crate::load::work::Work;
use crate::sys::multiply_and_add;

/// 16 KiB: half of the smallest first-level data cache of today's x86-64 processors (32 KiB).
const WORDS: usize = 2048;

/// What it works on.
pub const WORKED_ON_BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

/// Between two looks at the clock: some microseconds natively, tenths of a millisecond in a translated guest.
const LOOPS_A_STEP: u64 = 4;

/// The words that are worked on.
pub struct CpuWork {
    words: Vec<u64>,
}

impl CpuWork {
    /// Makes the words present.
    pub fn new() -> Self {
        Self { words: (1..=WORDS as u64).collect() }
    }
}

impl Work for CpuWork {
    const UNIT: WorkUnit = WorkUnit::Loops;

    #[inline(always)]
    fn step(&mut self) -> u64 {
        for _ in 0..LOOPS_A_STEP {
            multiply_and_add(&mut self.words);
        }
        LOOPS_A_STEP
    }
}
