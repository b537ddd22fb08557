//! One bit for each of many numbers that come one after the other: an hour of probes of a millisecond is 450 kB.

/// A set of numbers, of which the first are taken.
#[derive(Debug, Clone, Default)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// Adds a number; gives whether it was new.
    pub fn add(&mut self, number: u64) -> bool {
        let (word, bit) = place(number);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    pub fn has(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.words.get(word).is_some_and(|found| found & bit != 0)
    }
}

fn place(number: u64) -> (usize, u64) {
    // No machine has memory for what would not fit.
    (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let mut bits = Bits::default();
        for number in [0, 63, 64, 1000] {
            assert!(!bits.has(number) && bits.add(number) && bits.has(number) && !bits.add(number), "{number}");
        }
        assert!(!bits.has(62) && !bits.has(65) && !bits.has(1_000_000));
    }
}
