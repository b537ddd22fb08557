//! The epochs of a guest: what each has cost, and whose output has left.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use stealtime_succession::Epoch;

use crate::clock::now;
use crate::epoch_log::{EpochLog, EpochRow};
use crate::figures::Figures;
use crate::spec::Spec;

/// An alarm of output that waited for long stays on for so long after the last that did: Prometheus has to see it when
/// it asks and judges, each 15 s, and once more when the 10 s of the rule are over (docs/protect-alerts.yml).
const REMEMBER: Duration = Duration::from_secs(45);

/// The epochs since the guest runs here.
pub struct Epochs {
    pub figures: Figures,
    log: EpochLog,
    /// The last whose output has left.
    pub released: Epoch,
    /// Of the first full copy, bytes that are with the link.
    pub copied_bytes: u64,
    /// When those were cut whose output has not left.
    waiting: VecDeque<(Epoch, Duration)>,
    /// When output was last seen to have waited for too long, and for how long at most since the alarm is on.
    overdue: Option<(Duration, Duration)>,
}

impl Epochs {
    /// None yet; the output of those up to `released` left elsewhere.
    pub fn new(spec: &Spec, released: Epoch) -> Self {
        let log = EpochLog::new(&spec.folder, spec.log_bytes);
        let waiting = VecDeque::new();
        Self { figures: Figures::default(), log, released, copied_bytes: 0, waiting, overdue: None }
    }

    /// One was cut at `at`.
    pub fn captured(&mut self, epoch: Epoch, at: Duration) {
        self.waiting.push_back((epoch, at));
    }

    /// Those under way will not be acknowledged any more.
    pub fn end(&mut self) {
        self.figures.forget_pending();
        self.waiting.clear();
    }

    /// For how long output has waited lately, if that was longer than `longest`.
    pub fn overdue(&mut self, longest: Duration, at: Duration) -> Option<Duration> {
        let waited = self.waiting.front().map_or(Duration::ZERO, |(_, cut)| at.saturating_sub(*cut));
        let before = self.overdue.filter(|(last, _)| at < *last + REMEMBER);
        self.overdue =
            if waited > longest { Some((at, before.map_or(waited, |(_, most)| most.max(waited)))) } else { before };
        self.overdue.map(|(_, most)| most)
    }

    pub fn shipped(&mut self, row: EpochRow, at: Duration) {
        self.figures.shipped(row, at);
    }

    /// The standby holds all up to this one. Where no output waits for that, they are complete.
    pub fn acknowledged(&mut self, epoch: Epoch, holds_output: bool) -> io::Result<()> {
        self.figures.acknowledged(epoch, now());
        if holds_output { Ok(()) } else { self.complete(epoch, Duration::ZERO) }
    }

    /// The output of this one has left.
    pub fn released(&mut self, epoch: Epoch, held: Duration) -> io::Result<()> {
        self.released = epoch;
        self.waiting.retain(|(waiting, _)| *waiting > epoch);
        self.complete(epoch, held)
    }

    fn complete(&mut self, epoch: Epoch, held: Duration) -> io::Result<()> {
        self.figures.released(epoch, held).iter().try_for_each(|row| self.log.add(row))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::rig::{PATIENT_MS, spec};
    use super::*;

    #[test]
    fn output_that_waits_for_too_long_is_told_until_it_did_not_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let mut epochs = Epochs::new(&spec(folder.path(), "net", PATIENT_MS), Epoch(0));
        let ms = Duration::from_millis;
        let longest = ms(1000);
        epochs.captured(Epoch(1), ms(0));
        epochs.captured(Epoch(2), ms(100));
        assert_eq!(epochs.overdue(longest, ms(900)), None);
        assert_eq!(epochs.overdue(longest, ms(1300)), Some(ms(1300)));
        epochs.released(Epoch(1), ms(1300)).unwrap();
        assert_eq!(epochs.overdue(longest, ms(1200)), Some(ms(1300)), "the longest since it began");
        epochs.released(Epoch(2), ms(1300)).unwrap();
        assert_eq!(epochs.overdue(longest, ms(46_000)), Some(ms(1300)));
        assert_eq!(epochs.overdue(longest, ms(46_400)), None);
        epochs.captured(Epoch(3), ms(46_500));
        epochs.end();
        assert_eq!(epochs.overdue(longest, ms(100_000)), None, "what will never leave waits for nobody");
    }

    #[test]
    fn one_hold_is_told_for_so_long_that_the_rule_of_the_documentation_fires() {
        let rules = include_str!("../../../../docs/protect-alerts.yml");
        let seconds = |text: &str, key: &str| {
            let value = text.split_once(&format!("{key}: ")).unwrap_or_else(|| panic!("no {key}")).1;
            value.split_once('s').unwrap().0.parse::<u64>().unwrap()
        };
        let (_, rule) = rules.split_once("- alert: StealtimeAlarm\n").unwrap();
        let asked_s = seconds(rules, "scrape_interval") + seconds(rules, "evaluation_interval");
        assert!(REMEMBER > Duration::from_secs(asked_s + seconds(rule, "for")));
    }
}
