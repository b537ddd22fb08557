//! What an answer must be, given all answers before it.
//!
//! A flow asks for its next value only when it has the one before. So each answer that it takes proves either
//! that all it was ever told still holds, or that something is missing: the number of its increments must be
//! exactly the sequence number it asked for, their chain the one that it computes itself, and whatever else
//! an answer says must not lie before what an earlier answer said.

use std::hash::{BuildHasher, RandomState};

use serde::Serialize;

use crate::counter::extend_chain;
use crate::counter::protocol::{Answer, Operation, Outcome, Request, hexadecimal};

/// More of a flow or way are only counted.
pub const MOST_VIOLATIONS: usize = 1000;

/// What must not happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Violation {
    /// The counter has fewer increments of this flow than it acknowledged.
    Forgotten {
        /// What the flow was told.
        acknowledged: u64,
        /// What the counter has.
        applied: u64,
    },
    /// The flow was given a value again that it had been given before.
    Repeated { value: u64 },
    /// The counter has more increments of this flow than it asked for.
    Skipped {
        asked: u64,
        /// What the counter has.
        applied: u64,
    },
    /// The number is right, but the increments were not those that the flow asked for.
    OtherHistory { value: u64 },
    /// All clients' increments together are fewer than before.
    TotalWentBack { from: u64, to: u64 },
    /// The machine has booted anew.
    BootChanged {
        /// The boot id before.
        from: String,
        /// The boot id now.
        to: String,
    },
    /// The program has started anew.
    LifeChanged { from: String, to: String },
    /// The machine's monotonic clock shows less than it has shown before.
    GuestTimeWentBack { from_ns: u64, to_ns: u64 },
    /// The counter has found pages of its memory wrong.
    MemoryMismatch {
        /// How often, since the answer before.
        more: u64,
    },
    /// The counter refused to count.
    Refused { outcome: Outcome },
    /// The TCP connection did not live on.
    ConnectionLost {
        /// What the kernel said.
        reason: String,
    },
    /// The check at the end did not come about.
    CheckFailed { reason: String },
}

/// A number that no other client has, but for a chance of one in 2^64.
pub fn draw_client() -> u64 {
    // The seed of a hash map is the one random number that the standard library gives.
    RandomState::new().hash_one(std::process::id())
}

/// What one flow knows.
#[derive(Debug)]
pub struct Judge {
    client: u64,
    acknowledged: u64,
    chain: u64,
    last: Option<Answer>,
}

impl Judge {
    pub fn new(client: u64) -> Self {
        Self { client, acknowledged: 0, chain: 0, last: None }
    }

    /// The next thing to ask for.
    pub fn next_request(&self, now_ns: u64) -> Request {
        Request { operation: Operation::Count, client: self.client, sequence: self.acknowledged + 1, sent_ns: now_ns }
    }

    /// Judges the answer to the next request. Afterwards what the counter says holds, so that one loss is
    /// told once.
    pub fn judge(&mut self, answer: &Answer) -> Vec<Violation> {
        let mut found = self.judge_count(answer);
        if let Some(last) = &self.last {
            found.extend(compare(last, answer));
        } else if answer.mismatches > 0 {
            found.push(Violation::MemoryMismatch { more: answer.mismatches });
        }
        self.acknowledged = answer.applied;
        self.chain = answer.chain;
        self.last = Some(*answer);
        found
    }

    fn judge_count(&self, answer: &Answer) -> Vec<Violation> {
        let asked = self.acknowledged + 1;
        let mut found = Vec::new();
        let applied = answer.applied;
        if !matches!(answer.outcome, Outcome::Applied | Outcome::Repeated | Outcome::Gap) {
            found.push(Violation::Refused { outcome: answer.outcome });
        } else if applied < self.acknowledged {
            found.push(Violation::Forgotten { acknowledged: self.acknowledged, applied });
        } else if applied == self.acknowledged {
            found.push(Violation::Repeated { value: applied });
        } else if applied > asked {
            found.push(Violation::Skipped { asked, applied });
        } else if answer.chain != extend_chain(self.chain, self.client, asked) {
            found.push(Violation::OtherHistory { value: applied });
        }
        found
    }
}

/// What may not go back, stay behind or change from one answer to the next.
fn compare(last: &Answer, answer: &Answer) -> Vec<Violation> {
    let mut found = Vec::new();
    if answer.boot != last.boot {
        found.push(Violation::BootChanged { from: hexadecimal(&last.boot), to: hexadecimal(&answer.boot) });
    }
    if answer.life != last.life {
        found.push(Violation::LifeChanged { from: hexadecimal(&last.life), to: hexadecimal(&answer.life) });
        // Another start counts its own total, time and mismatches.
        return found;
    }
    if answer.total < last.total {
        found.push(Violation::TotalWentBack { from: last.total, to: answer.total });
    }
    if answer.guest_ns < last.guest_ns {
        found.push(Violation::GuestTimeWentBack { from_ns: last.guest_ns, to_ns: answer.guest_ns });
    }
    if answer.mismatches > last.mismatches {
        found.push(Violation::MemoryMismatch { more: answer.mismatches - last.mismatches });
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLIENT: u64 = 9;

    /// What a counter answers that forgets nothing.
    pub fn right_answer(sequence: u64) -> Answer {
        let request = Request { operation: Operation::Count, client: CLIENT, sequence, sent_ns: 0 };
        Answer {
            applied: sequence,
            chain: (1..=sequence).fold(0, |chain, each| extend_chain(chain, CLIENT, each)),
            total: 100 + sequence,
            guest_ns: 1000 * sequence,
            boot: [1; 16],
            life: [2; 16],
            ..Answer::to(&request, Outcome::Applied)
        }
    }

    /// A judge that has seen the first ten values.
    fn after_ten() -> Judge {
        let mut judge = Judge::new(CLIENT);
        for sequence in 1..=10 {
            assert_eq!(judge.next_request(5).sequence, sequence);
            assert_eq!(judge.judge(&right_answer(sequence)), []);
        }
        judge
    }

    /// What is found if the eleventh answer differs from the right one, and in no other way.
    fn found(change: impl FnOnce(&mut Answer)) -> Vec<Violation> {
        let mut answer = right_answer(11);
        change(&mut answer);
        after_ten().judge(&answer)
    }

    #[test]
    fn a_right_answer_is_no_violation_even_if_it_is_the_answer_to_a_copy() {
        assert_eq!(found(|_| {}), []);
        assert_eq!(found(|answer| answer.outcome = Outcome::Repeated), []);
    }

    #[test]
    fn a_counter_that_forgot_is_found_once() {
        let mut judge = after_ten();
        let forgotten = Answer { outcome: Outcome::Gap, total: 111, guest_ns: 11_000, ..right_answer(7) };
        assert_eq!(judge.judge(&forgotten), [Violation::Forgotten { acknowledged: 10, applied: 7 }]);
        let next = judge.next_request(0);
        assert_eq!(next.sequence, 8);
        let going_on = Answer { total: 112, guest_ns: 12_000, ..right_answer(8) };
        assert_eq!(judge.judge(&going_on), []);
    }

    #[test]
    fn a_value_that_comes_again_and_a_value_left_out_are_found() {
        let again = |answer: &mut Answer| answer.applied = 10;
        assert_eq!(found(again), [Violation::Repeated { value: 10 }]);
        let left_out = |answer: &mut Answer| answer.applied = 12;
        assert_eq!(found(left_out), [Violation::Skipped { asked: 11, applied: 12 }]);
    }

    #[test]
    fn increments_that_are_not_the_asked_ones_are_found() {
        assert_eq!(found(|answer| answer.chain ^= 1), [Violation::OtherHistory { value: 11 }]);
    }

    #[test]
    fn another_boot_and_another_start_are_found() {
        assert!(matches!(found(|answer| answer.boot = [3; 16])[..], [Violation::BootChanged { .. }]));
        let restarted = |answer: &mut Answer| {
            answer.life = [4; 16];
            answer.total = 0;
            answer.guest_ns = 0;
        };
        assert!(matches!(found(restarted)[..], [Violation::LifeChanged { .. }]));
    }

    #[test]
    fn what_must_not_go_back_is_found_when_it_does() {
        assert_eq!(found(|answer| answer.total = 109), [Violation::TotalWentBack { from: 110, to: 109 }]);
        assert_eq!(
            found(|answer| answer.guest_ns = 9_999),
            [Violation::GuestTimeWentBack { from_ns: 10_000, to_ns: 9_999 }]
        );
    }

    #[test]
    fn wrong_memory_is_found_in_the_first_answer_and_later() {
        assert_eq!(found(|answer| answer.mismatches = 2), [Violation::MemoryMismatch { more: 2 }]);
        let first = Answer { mismatches: 1, ..right_answer(1) };
        assert_eq!(Judge::new(CLIENT).judge(&first), [Violation::MemoryMismatch { more: 1 }]);
    }

    #[test]
    fn a_refusal_is_found() {
        let refusal = |answer: &mut Answer| answer.outcome = Outcome::Full;
        assert_eq!(found(refusal), [Violation::Refused { outcome: Outcome::Full }]);
    }

    proptest! {
        #[test]
        fn every_rollback_of_the_counter_is_found(seen in 1..50_u64, kept in 0..50_u64) {
            prop_assume!(kept < seen);
            let mut judge = Judge::new(CLIENT);
            for sequence in 1..=seen {
                prop_assert_eq!(judge.judge(&right_answer(sequence)), vec![]);
            }
            // As the real counter would answer after going back to `kept` increments.
            let mut ledger = crate::counter::Ledger::default();
            for sequence in 1..=kept {
                ledger.count(CLIENT, sequence);
            }
            let entry = ledger.count(CLIENT, judge.next_request(0).sequence);
            let answer = Answer { outcome: entry.outcome, applied: entry.applied, chain: entry.chain, ..right_answer(seen + 1) };
            prop_assert_eq!(judge.judge(&answer), vec![Violation::Forgotten { acknowledged: seen, applied: kept }]);
        }
    }
}
