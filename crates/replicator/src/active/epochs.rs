//! The epochs of a guest: what each has cost, and whose output has left.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use stealtime_succession::{Epoch, OutputPolicy};

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
    /// When output was cut, from the last cut on up to which all has left: what was sent since then waits, whether it
    /// was cut again or not.
    cuts: VecDeque<(Epoch, Duration)>,
    /// Whether a cut holds what is sent after it.
    holds: bool,
    /// For how long output had waited at most that has left since that was last looked at.
    left_after: Duration,
    /// When output was last seen to have waited for too long, and for how long at most since the alarm is on.
    overdue: Option<(Duration, Duration)>,
}

impl Epochs {
    /// None yet; the output of those up to `released` left elsewhere.
    pub fn new(spec: &Spec, released: Epoch) -> Self {
        let log = EpochLog::new(&spec.folder, spec.log_bytes);
        Self {
            figures: Figures::default(),
            log,
            released,
            copied_bytes: 0,
            cuts: VecDeque::new(),
            holds: false,
            left_after: Duration::ZERO,
            overdue: None,
        }
    }

    /// One was cut at `at`.
    pub fn captured(&mut self, epoch: Epoch, at: Duration) {
        if self.holds {
            self.cuts.push_back((epoch, at));
        }
    }

    /// This is done with output from now on. What waits while there is no standby any more leaves when the guest may go
    /// on alone.
    pub fn output(&mut self, policy: OutputPolicy, at: Duration) {
        self.holds = matches!(policy, OutputPolicy::Hold | OutputPolicy::HoldFromCut);
        if matches!(policy, OutputPolicy::Free | OutputPolicy::Discard) {
            self.left_after = self.left_after.max(self.waited(at));
            self.cuts.clear();
        }
    }

    /// Those under way will not be acknowledged any more.
    pub fn end(&mut self) {
        self.figures.forget_pending();
    }

    /// For how long output has waited that is still here, if there is some: a client may have waited for as long.
    fn waited(&self, at: Duration) -> Duration {
        self.cuts.front().map_or(Duration::ZERO, |(_, cut)| at.saturating_sub(*cut))
    }

    /// For how long output has waited lately, if that was longer than `longest`.
    pub fn overdue(&mut self, longest: Duration, at: Duration) -> Option<Duration> {
        let waited = std::mem::take(&mut self.left_after).max(self.waited(at));
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

    /// The output of this one has left at `at`, and was held since its cut.
    pub fn released(&mut self, epoch: Epoch, held: Duration, at: Duration) -> io::Result<()> {
        self.released = epoch;
        self.left_after = self.left_after.max(self.waited(at));
        while self.cuts.get(1).is_some_and(|(next, _)| *next <= epoch) {
            self.cuts.pop_front();
        }
        self.complete(epoch, held)
    }

    fn complete(&mut self, epoch: Epoch, held: Duration) -> io::Result<()> {
        self.figures.released(epoch, held).iter().try_for_each(|row| self.log.add(row))
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::tests::rig::{PATIENT_MS, spec};
    use super::*;

    const LONGEST: Duration = ms(1000);

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Of a guest whose output is held from its first cut on.
    fn epochs(folder: &TempDir) -> Epochs {
        let mut epochs = Epochs::new(&spec(folder.path(), "net", PATIENT_MS), Epoch(0));
        epochs.output(OutputPolicy::HoldFromCut, ms(0));
        epochs
    }

    /// An epoch was cut, and its output has left soon after.
    fn passes(epochs: &mut Epochs, number: u64, at: Duration) {
        epochs.captured(Epoch(number), at);
        epochs.released(Epoch(number), ms(10), at + ms(10)).unwrap();
    }

    #[test]
    fn output_that_waits_for_too_long_is_told_until_it_did_not_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let mut epochs = epochs(&folder);
        epochs.captured(Epoch(1), ms(0));
        epochs.captured(Epoch(2), ms(100));
        assert_eq!(epochs.overdue(LONGEST, ms(900)), None);
        assert_eq!(epochs.overdue(LONGEST, ms(1300)), Some(ms(1300)));
        passes(&mut epochs, 3, ms(1290));
        assert_eq!(epochs.overdue(LONGEST, ms(1350)), Some(ms(1300)), "the longest since it began");
        let over = ms(1350) + REMEMBER;
        for number in (14..).take_while(|number| ms(number * 100) < over) {
            passes(&mut epochs, number, ms(number * 100));
            epochs.overdue(LONGEST, ms(number * 100 + 50));
        }
        assert_eq!(epochs.overdue(LONGEST, over), None);
    }

    #[test]
    fn output_waits_since_it_may_have_been_sent_and_not_since_it_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let mut epochs = epochs(&folder);
        passes(&mut epochs, 1, ms(0));
        epochs.captured(Epoch(2), ms(600));
        assert_eq!(epochs.overdue(LONGEST, ms(900)), None);
        epochs.released(Epoch(2), ms(500), ms(1100)).unwrap();
        assert_eq!(epochs.overdue(LONGEST, ms(1150)), Some(ms(1100)), "seen although nobody looked meanwhile");
    }

    #[test]
    fn what_nobody_has_cut_waits_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut epochs = epochs(&folder);
        assert_eq!(epochs.overdue(LONGEST, ms(5000)), None, "a guest that is copied sends freely");
        passes(&mut epochs, 1, ms(5000));
        assert_eq!(epochs.overdue(LONGEST, ms(6100)), Some(ms(1100)), "its standby is not named yet");
    }

    #[test]
    fn output_waits_until_a_guest_that_has_lost_its_standby_may_send_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut epochs = epochs(&folder);
        passes(&mut epochs, 1, ms(0));
        epochs.output(OutputPolicy::Keep, ms(100));
        epochs.end();
        assert_eq!(epochs.overdue(LONGEST, ms(1300)), Some(ms(1300)));
        epochs.output(OutputPolicy::Free, ms(1400));
        epochs.captured(Epoch(2), ms(1450));
        assert_eq!(epochs.overdue(LONGEST, ms(1500)), Some(ms(1400)));
        assert_eq!(epochs.overdue(LONGEST, ms(1500) + REMEMBER), None, "a cut of no session holds nothing");
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
