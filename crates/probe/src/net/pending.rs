//! Messages that were sent and not answered, in the order in which they were sent.

use std::collections::VecDeque;

/// A message under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub due: u64,
    pub submitted: u64,
}

/// What an answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// It was waited for.
    Awaited(Sent),
    /// The message had been answered, and is still remembered.
    Again,
    /// The message is no more remembered: it was given up, or answered before all that are.
    Late,
}

/// Messages by their numbers, of which each next one has one more.
#[derive(Debug, Default)]
pub struct Pending {
    /// The number of the first in `sent`.
    first: u64,
    /// None of those that were answered before one that was sent earlier.
    sent: VecDeque<Option<Sent>>,
    count: usize,
}

impl Pending {
    /// Room for so many, which are not all that there may be.
    pub fn with_room(count: usize) -> Self {
        Self { sent: VecDeque::with_capacity(count), ..Self::default() }
    }

    /// How many are not answered.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of the next message.
    pub fn next_number(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    pub fn push(&mut self, sent: Sent) {
        self.sent.push_back(Some(sent));
        self.count += 1;
    }

    /// An answer has come to the message of this number.
    pub fn answer(&mut self, number: u64) -> Met {
        let Some(position) = number.checked_sub(self.first).and_then(|position| usize::try_from(position).ok()) else {
            return Met::Late;
        };
        let Some(place) = self.sent.get_mut(position) else { return Met::Late };
        let Some(sent) = place.take() else { return Met::Again };
        self.count -= 1;
        self.forget_answered();
        Met::Awaited(sent)
    }

    /// Gives a message that was sent before `since` and is not answered, and gives it up.
    pub fn give_up(&mut self, since: u64) -> Option<Sent> {
        let oldest = self.oldest()?;
        (oldest.submitted < since).then(|| {
            self.sent.pop_front();
            self.first += 1;
            self.count -= 1;
            self.forget_answered();
            oldest
        })
    }

    /// The one that was sent first.
    pub fn oldest(&self) -> Option<Sent> {
        self.sent.front().copied().flatten()
    }

    fn forget_answered(&mut self) {
        while self.sent.front().is_some_and(Option::is_none) {
            self.sent.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> Pending {
        let mut pending = Pending::default();
        for &time in times {
            pending.push(Sent { due: time, submitted: time });
        }
        pending
    }

    #[test]
    fn answers_out_of_order_again_and_late_are_told_apart() {
        let mut pending = of(&[10, 20, 30]);
        assert_eq!(pending.answer(1), Met::Awaited(Sent { due: 20, submitted: 20 }));
        assert_eq!(pending.answer(1), Met::Again);
        assert_eq!(pending.answer(0), Met::Awaited(Sent { due: 10, submitted: 10 }));
        assert_eq!((pending.answer(0), pending.answer(1)), (Met::Late, Met::Late));
        assert_eq!((pending.count(), pending.next_number(), pending.answer(3)), (1, 3, Met::Late));
    }

    #[test]
    fn what_was_sent_too_long_ago_is_given_up_in_order() {
        let mut pending = of(&[10, 20, 30]);
        assert_eq!(pending.give_up(10), None);
        assert_eq!(pending.give_up(21).map(|sent| sent.due), Some(10));
        assert_eq!(pending.give_up(21).map(|sent| sent.due), Some(20));
        assert_eq!((pending.give_up(21), pending.count()), (None, 1));
        assert_eq!(pending.answer(0), Met::Late);
    }
}
