//! Which packets of a stream have come, and in what order.

use crate::runs::LossRuns;

/// So many packets back a late one can still be told from a duplicate: 82 s.
pub const WINDOW_PACKETS: u64 = 64 * WORDS as u64;

const WORDS: usize = 64;

/// What the arrival of a packet means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Never seen before. It is *reordered* if one that was sent after it came before it (RFC 4737 section 3.3: its
    /// number is below the next expected one, which is one more than the highest so far).
    New { reordered: bool },
    /// It has been here.
    Duplicate,
    /// Too many have come since: it may be a duplicate or not.
    TooOld,
}

/// The last packets of one stream, by their number.
#[derive(Debug, Clone)]
pub struct Window {
    /// One more than the highest that has come.
    next: u64,
    came: Bits,
    in_time: Bits,
    /// Of the packets that have left the window.
    runs: LossRuns,
}

#[derive(Debug, Clone)]
struct Bits([u64; WORDS]);

impl Window {
    pub fn new() -> Self {
        Self { next: 0, came: Bits([0; WORDS]), in_time: Bits([0; WORDS]), runs: LossRuns::default() }
    }

    /// One more than the highest number that has come: at least so many were sent.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes a packet in.
    pub fn place(&mut self, index: u64) -> Place {
        if index >= self.next {
            self.advance(index);
            self.came.set(index, true);
            return Place::New { reordered: false };
        }
        if self.next - index > WINDOW_PACKETS {
            return Place::TooOld;
        }
        if self.came.get(index) {
            return Place::Duplicate;
        }
        self.came.set(index, true);
        Place::New { reordered: true }
    }

    /// Notes that the packet just taken in was there when it had to be played.
    pub fn in_time(&mut self, index: u64) {
        self.in_time.set(index, true);
    }

    /// The runs of packets that were lost or late, if so many were sent.
    pub fn runs(&self, sent: u64) -> LossRuns {
        let mut runs = self.runs;
        for index in self.next.saturating_sub(WINDOW_PACKETS)..self.next {
            runs.next(self.in_time.get(index));
        }
        runs.next_lost(sent.saturating_sub(self.next));
        runs
    }

    /// Makes room for `index` and all before it.
    fn advance(&mut self, index: u64) {
        let steps = (index - self.next).saturating_add(1);
        // However far it jumps, no more can leave the window than are in it.
        for step in 0..steps.min(WINDOW_PACKETS) {
            self.forget(self.next + step);
        }
        // The others were never in it: lost.
        self.runs.next_lost(steps.saturating_sub(WINDOW_PACKETS));
        self.next = index.saturating_add(1);
    }

    /// Frees the place of `index` from the packet that was there.
    fn forget(&mut self, index: u64) {
        if index >= WINDOW_PACKETS {
            self.runs.next(self.in_time.get(index));
        }
        self.came.set(index, false);
        self.in_time.set(index, false);
    }
}

impl Bits {
    fn place(index: u64) -> (usize, u64) {
        let bit = index % WINDOW_PACKETS;
        // It is below the number of words.
        (usize::try_from(bit / 64).unwrap_or_default(), 1 << (bit % 64))
    }

    fn get(&self, index: u64) -> bool {
        let (word, bit) = Self::place(index);
        self.0[word] & bit != 0
    }

    fn set(&mut self, index: u64, value: bool) {
        let (word, bit) = Self::place(index);
        if value {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The same with everything kept.
    #[derive(Default)]
    struct Everything {
        came: BTreeSet<u64>,
    }

    impl Everything {
        fn place(&mut self, index: u64) -> Place {
            let next = self.came.last().map_or(0, |highest| highest + 1);
            if index < next && next - index > WINDOW_PACKETS {
                Place::TooOld
            } else if self.came.insert(index) {
                Place::New { reordered: index < next }
            } else {
                Place::Duplicate
            }
        }

        fn runs(&self, sent: u64) -> LossRuns {
            let mut runs = LossRuns::default();
            (0..sent).for_each(|index| runs.next(self.came.contains(&index)));
            runs
        }
    }

    proptest! {
        #[test]
        fn a_window_says_what_keeping_everything_says(
            steps in prop::collection::vec(prop_oneof![20 => 0_u64..8, 3 => 0_u64..300, 1 => 0_u64..10_000], 1..100),
            back in prop::collection::vec(0_u64..6_000, 100),
            tail in 0_u64..20,
        ) {
            let (mut window, mut everything) = (Window::new(), Everything::default());
            let mut at = 0_u64;
            for (step, back) in steps.iter().zip(back) {
                at += step;
                // Now and then an old one.
                for index in [Some(at), (back % 3 == 0).then(|| at.saturating_sub(back))].into_iter().flatten() {
                    let place = window.place(index);
                    prop_assert_eq!(place, everything.place(index));
                    if matches!(place, Place::New { .. }) {
                        window.in_time(index);
                    }
                }
            }
            prop_assert_eq!(window.runs(window.next() + tail), everything.runs(window.next() + tail));
        }

        #[test]
        fn no_number_is_too_much(indices in prop::collection::vec(any::<u64>(), 1..50), sent in any::<u64>()) {
            let mut window = Window::new();
            for index in indices {
                window.place(index);
            }
            let runs = window.runs(sent);
            prop_assert!(runs.lost() <= runs.packets());
        }
    }
}
