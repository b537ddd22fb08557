//! How long a thread has run.

use crate::taken::Taken;

/// Sums over a thread's life, in cycles; differences of two readings count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Without interrupts and what was taken.
    pub ran: u64,
    pub interrupts: u64,
    pub taken: u64,
}

impl Reading {
    pub fn since(self, before: Self) -> Self {
        Self {
            ran: self.ran - before.ran,
            interrupts: self.interrupts - before.interrupts,
            taken: self.taken - before.taken,
        }
    }
}

/// A clock that runs while its thread does.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    total: Reading,
    /// Since when it runs, and is not yet added up.
    since: Option<u64>,
    may_be_taken: bool,
}

impl Meter {
    pub fn start(&mut self, time: u64) {
        self.since = Some(time);
    }

    /// Adds up what ran until `time`; it goes on.
    pub fn read(&mut self, time: u64, taken: &Taken) -> Reading {
        if let Some(since) = self.since.filter(|&since| since < time) {
            let stolen = taken.certain(since, time);
            self.may_be_taken |= taken.may_touch(since, time);
            self.total.ran += (time - since).saturating_sub(stolen);
            self.total.taken += stolen;
            self.since = Some(time);
        }
        self.total
    }

    pub fn stop(&mut self, time: u64, taken: &Taken) -> Reading {
        let total = self.read(time, taken);
        self.since = None;
        total
    }

    /// What ran from `begin` to `end`, the moment of now, was an interrupt's.
    pub fn interrupted(&mut self, begin: u64, end: u64, taken: &Taken) {
        if self.since.is_none() {
            return;
        }
        self.read(begin, taken);
        let from = self.since.unwrap_or(end).max(begin);
        self.total.interrupts += end.saturating_sub(from);
        self.since = Some(end.max(from));
    }

    /// What is added to interrupts was counted as run.
    pub fn correct(&mut self, cycles: u64) {
        let within = cycles.min(self.total.ran);
        self.total.ran -= within;
        self.total.interrupts += within;
    }

    /// Whether the host may have taken some of it since this was last asked.
    pub fn was_touched(&mut self) -> bool {
        std::mem::take(&mut self.may_be_taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_and_what_was_taken_are_told_apart() {
        let taken = Taken::new(vec![(140, 150)], 0);
        let mut meter = Meter::default();
        meter.start(100);
        meter.interrupted(120, 130, &taken);
        let end = meter.stop(160, &taken);
        assert_eq!(end, Reading { ran: 40, interrupts: 10, taken: 10 });
        assert!(meter.was_touched() && !meter.was_touched());
        assert_eq!(meter.read(500, &taken), end, "it stands still");
        meter.interrupted(600, 700, &taken);
        assert_eq!(meter.read(700, &taken), end);
    }
}
