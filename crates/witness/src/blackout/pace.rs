//! One absolute time line: probe *k* is due at the start + *k* intervals, however late the ones before it were.
//!
//! Whoever wakes late asks once, for the newest probe that is due, and leaves those out that it has missed: they say
//! nothing about the other side. That it was late is a pause of its own, which [`super::judging`] knows of.

/// When this machine did not ask, though it should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    pub from_ns: u64,
    pub to_ns: u64,
}

/// A probe whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub number: u64,
    pub due_ns: u64,
    /// How many before it were left out.
    pub missed: u64,
    /// If it is so late that one was left out.
    pub pause: Option<Pause>,
}

/// The probes of one way of asking, by `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    start_ns: u64,
    interval_ns: u64,
    next: u64,
}

impl Pace {
    pub fn new(start_ns: u64, interval_ns: u64) -> Self {
        Self { start_ns, interval_ns: interval_ns.max(1), next: 0 }
    }

    /// The number that the next probe has at least.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn next_due_ns(&self) -> u64 {
        self.due_ns(self.next)
    }

    pub fn due_ns(&self, number: u64) -> u64 {
        self.start_ns.saturating_add(number.saturating_mul(self.interval_ns))
    }

    /// The probe that was due then, if it has had its turn.
    pub fn number(&self, due_ns: u64) -> Option<u64> {
        let since_ns = due_ns.checked_sub(self.start_ns)?;
        let number = since_ns / self.interval_ns;
        (since_ns.is_multiple_of(self.interval_ns) && number < self.next).then_some(number)
    }

    /// The newest probe that is due, if there is one.
    pub fn take(&mut self, now_ns: u64) -> Option<Turn> {
        let due_ns = self.next_due_ns();
        let late_ns = now_ns.checked_sub(due_ns)?;
        let missed = late_ns / self.interval_ns;
        let number = self.next + missed;
        self.next = number + 1;
        let pause = (missed > 0).then_some(Pause { from_ns: due_ns, to_ns: now_ns });
        Some(Turn { number, due_ns: self.due_ns(number), missed, pause })
    }

    /// Goes on with what is due next, where nobody was to be asked meanwhile.
    pub fn skip_to(&mut self, now_ns: u64) {
        self.next = self.next.max(now_ns.saturating_sub(self.start_ns) / self.interval_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_is_the_newest_and_its_pause_is_known() {
        let mut pace = Pace::new(1000, 100);
        assert_eq!(pace.take(999), None);
        assert_eq!(pace.take(1099), Some(Turn { number: 0, due_ns: 1000, missed: 0, pause: None }));
        assert_eq!(pace.take(1099), None);
        let pause = Pause { from_ns: 1100, to_ns: 1450 };
        assert_eq!(pace.take(1450), Some(Turn { number: 4, due_ns: 1400, missed: 3, pause: Some(pause) }));
        assert_eq!(pace.next_due_ns(), 1500);
    }

    #[test]
    fn a_due_time_names_its_probe_once_it_was_asked() {
        let mut pace = Pace::new(1000, 100);
        assert_eq!(pace.number(1000), None);
        pace.take(1200).unwrap();
        assert_eq!(pace.number(1200), Some(2));
        assert_eq!([pace.number(1250), pace.number(900), pace.number(1300)], [None; 3]);
    }

    #[test]
    fn what_was_left_out_on_purpose_is_no_pause() {
        let mut pace = Pace::new(1000, 100);
        pace.skip_to(5050);
        assert_eq!(pace.take(5050), Some(Turn { number: 40, due_ns: 5000, missed: 0, pause: None }));
        pace.skip_to(0);
        assert_eq!(pace.next(), 41);
    }
}
