//! Memory that a device transfers from and to: a piece for each transfer that may be under way.

use std::io;

use super::mapping::Mapping;

/// Pieces of one length, page after page, present from the start.
pub struct TransferBuffers {
    memory: Mapping,
    piece_bytes: usize,
}

impl TransferBuffers {
    /// Fills them from `seed`, so that what is written is neither zero nor the same.
    pub fn new(count: usize, piece_bytes: usize, seed: u64) -> io::Result<Self> {
        let bytes = count.checked_mul(piece_bytes).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let mut memory = Mapping::new(bytes.div_ceil(size_of::<u64>()))?;
        let mut state = seed;
        for cell in memory.cells_mut() {
            state = next_random(state);
            *cell = mixed(state);
        }
        Ok(Self { memory, piece_bytes })
    }

    pub fn count(&self) -> usize {
        size_of_val(self.memory.cells()) / self.piece_bytes
    }

    pub fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// Where piece `number` begins; the device may write there as long as `self` lives.
    pub(super) fn start_of(&mut self, number: usize) -> *mut u8 {
        assert!(number < self.count());
        let first = self.memory.cells_mut().as_mut_ptr().cast::<u8>();
        // SAFETY: the assertion above: the piece lies within the mapping.
        unsafe { first.add(number * self.piece_bytes) }
    }
}

/// The step of `SplitMix64` (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
pub fn next_random(state: u64) -> u64 {
    state.wrapping_add(0x9e37_79b9_7f4a_7c15)
}

/// Its output function.
pub fn mixed(state: u64) -> u64 {
    let value = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
