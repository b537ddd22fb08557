//! A page as the words in which it differs from its earlier content (XOR and run lengths, as in `RemusDB`,
//! VLDB J. 2013).
//!
//! A difference is a list of runs: how many words of eight bytes are changed, how many equal ones are before
//! them, and the XOR of the changed ones. A run of none ends the list.

use super::varint;
use crate::page::{PAGE_BYTES, Page};

const WORD_BYTES: usize = 8;
const PAGE_WORDS: usize = PAGE_BYTES / WORD_BYTES;

/// In the place of a run's changed words: there are no more runs.
const RUNS_END: u64 = 0;

fn word(page: &Page, number: usize) -> u64 {
    let from = number * WORD_BYTES;
    u64::from_ne_bytes(std::array::from_fn(|offset| page[from + offset]))
}

/// Appends the difference that makes `after` out of `before`; false, and nothing appended, if they are the
/// same.
pub fn encode(before: &Page, after: &Page, difference: &mut Vec<u8>) -> bool {
    let mut told = 0;
    let mut number = 0;
    while number < PAGE_WORDS {
        if word(before, number) == word(after, number) {
            number += 1;
            continue;
        }
        let first = number;
        while number < PAGE_WORDS && word(before, number) != word(after, number) {
            number += 1;
        }
        varint::push(difference, (number - first) as u64);
        varint::push(difference, (first - told) as u64);
        for changed in first..number {
            difference.extend_from_slice(&(word(before, changed) ^ word(after, changed)).to_ne_bytes());
        }
        told = number;
    }
    if told > 0 {
        varint::push(difference, RUNS_END);
    }
    told > 0
}

/// Takes a difference from the front of `bytes` and applies it to `page`; `None` if it is no difference of a
/// page, or one that [`encode`] would not write.
pub fn apply(bytes: &mut &[u8], page: &mut Page) -> Option<()> {
    let mut told = 0_usize;
    loop {
        let changed = usize::try_from(varint::take(bytes)?).ok()?;
        if changed == 0 {
            return (told > 0).then_some(());
        }
        let equal = usize::try_from(varint::take(bytes)?).ok()?;
        let first = told.checked_add(equal)?;
        let end = first.checked_add(changed).filter(|&end| end <= PAGE_WORDS)?;
        let (xor, rest) = bytes.split_at_checked(changed * WORD_BYTES)?;
        *bytes = rest;
        for (byte, flipped) in page[first * WORD_BYTES..end * WORD_BYTES].iter_mut().zip(xor) {
            *byte ^= flipped;
        }
        told = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn changed(before: &Page, writes: &[(usize, u8)]) -> Page {
        let mut after = *before;
        for &(offset, value) in writes {
            after[offset] = value;
        }
        after
    }

    proptest! {
        #[test]
        fn a_difference_makes_the_later_page_out_of_the_earlier(
            fill: u8,
            writes in vec((0..PAGE_BYTES, any::<u8>()), 0..600),
            rest: Vec<u8>,
        ) {
            let before = [fill; PAGE_BYTES];
            let after = changed(&before, &writes);
            let mut bytes = Vec::new();
            prop_assert_eq!(encode(&before, &after, &mut bytes), before != after);
            prop_assert_eq!(bytes.is_empty(), before == after);
            if before != after {
                bytes.extend_from_slice(&rest);
                let mut page = before;
                let mut left = bytes.as_slice();
                prop_assert_eq!(apply(&mut left, &mut page), Some(()));
                prop_assert_eq!(page, after);
                prop_assert_eq!(left, rest.as_slice());
            }
        }

        #[test]
        fn any_bytes_are_a_difference_or_none(bytes: Vec<u8>) {
            let mut page = [0; PAGE_BYTES];
            let _ = apply(&mut bytes.as_slice(), &mut page);
        }
    }

    #[test]
    fn a_counter_takes_thirteen_bytes_at_most() {
        let before = [7; PAGE_BYTES];
        let mut difference = Vec::new();
        assert!(encode(&before, &changed(&before, &[(2048, 8)]), &mut difference));
        assert_eq!(difference.len(), 1 + 2 + WORD_BYTES + 1);
    }

    #[test]
    fn a_difference_that_ends_early_or_leaves_the_page_is_refused() {
        let before = [7; PAGE_BYTES];
        let mut difference = Vec::new();
        encode(&before, &changed(&before, &[(8, 1), (4088, 1)]), &mut difference);
        for end in 0..difference.len() {
            assert_eq!(apply(&mut &difference[..end], &mut before.clone()), None, "cut at {end}");
        }
        let beyond = [[2, 0xff, 3].as_slice(), &[0; 16], &[0]].concat();
        assert_eq!(apply(&mut beyond.as_slice(), &mut before.clone()), None, "511 equal and 2 changed words");
    }
}
