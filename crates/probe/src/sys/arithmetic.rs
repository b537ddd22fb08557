//! The arithmetic of a load: as fixed as [`super::busy_loop`], but busy with memory of the first-level cache
//! too.

use std::arch::asm;

/// Multiplies and adds once to each word, in place.
///
/// Seven instructions a word, written in assembly so that every compiler makes the same machine code of it
/// and the same binary does the same work natively and in every guest. The words do not depend on each other,
/// so that the multiplier, the adder, the load and the store unit are all kept busy. The multiplier is
/// Knuth's (MMIX).
#[inline(always)]
pub fn multiply_and_add(words: &mut [u64]) {
    let range = words.as_mut_ptr_range();
    if range.is_empty() {
        return;
    }
    // SAFETY: reads and writes exactly the words of the exclusively borrowed slice, which is not empty.
    unsafe {
        asm!(
            "2:",
            "mov {value}, [{word}]",
            "imul {value}, {factor}",
            "add {value}, {factor}",
            "mov [{word}], {value}",
            "add {word}, 8",
            "cmp {word}, {end}",
            "jb 2b",
            value = out(reg) _,
            word = inout(reg) range.start => _,
            factor = in(reg) 6_364_136_223_846_793_005_u64,
            end = in(reg) range.end,
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_worked_on_once_and_none_beside_them() {
        let factor = 6_364_136_223_846_793_005_u64;
        let mut words: Vec<u64> = (0..10).collect();
        multiply_and_add(&mut words[2..8]);
        for (index, &word) in (0_u64..).zip(&words) {
            let worked = index.wrapping_mul(factor).wrapping_add(factor);
            assert_eq!(word, if (2..8).contains(&index) { worked } else { index }, "word {index}");
        }
        multiply_and_add(&mut []);
    }
}
