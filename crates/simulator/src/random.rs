//! Random numbers: xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016).

/// A sequence of its own for each seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds are to have unlike sequences, and a state of 0 has none.
        let mut one = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            one.next();
        }
        one
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + ((u128::from(self.next()) * u128::from(most - least + 1)) >> 64) as u64
    }

    /// Whether something happens that happens `once` in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.between(1, times) == 1
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }
}
