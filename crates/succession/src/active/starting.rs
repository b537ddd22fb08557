//! How a virtual machine is taken at the start: from nobody, from an earlier life on this host, or by force.

use std::time::Duration;

use super::{ActiveAction, ActiveEnding, ActiveMember, Phase};
use crate::Versioned;

impl ActiveMember {
    /// Decide by what the register holds.
    pub(super) fn judge_start(&mut self, current: Option<Versioned>, actions: &mut Vec<ActiveAction>) {
        let Some(found) = current else { return self.take(None) };
        let Some(holder) = found.record.holder.clone() else { return self.take(Some(found)) };
        if holder == self.config.me {
            // Ours, from an attempt whose answer was lost; written again, as it is not known when it was
            // applied.
            return self.take(Some(found));
        }
        if let Phase::Observing { seen, since } = &self.phase {
            if *seen != found {
                return self.end(ActiveEnding::StillRenewed { holder }, actions);
            }
            // A holder that looked before our challenge was there has no lease any more by then, and one that
            // looked later has written the record again, if it could.
            let until = *since + self.config.timing.observation();
            if self.now >= until {
                return self.take(Some(found));
            }
            self.desk.wait_until(until.min(self.now + self.config.timing.look_interval()));
            return;
        }
        let earlier_life = holder.host() == self.config.me.host();
        match &found.record.standby {
            _ if self.config.force => {}
            Some(standby) if earlier_life => {
                let standby = standby.clone();
                return self.end(ActiveEnding::StandbyMayClaim { holder, standby }, actions);
            }
            None if earlier_life => {}
            _ => return self.end(ActiveEnding::HeldBy { holder, term: found.record.term }, actions),
        }
        #[cfg(test)]
        if self.breaks(crate::model::Fault::TakesUnwatched) {
            return self.take(Some(found));
        }
        let since = self.starting_since();
        self.phase = Phase::Challenging { since, found };
        self.desk.wait_until(self.now);
    }

    /// The register holds our challenge.
    pub(super) fn challenged(&mut self, seen: Versioned) {
        self.phase = Phase::Observing { seen, since: self.now };
        self.desk.wait_until(self.now + self.config.timing.look_interval());
    }

    /// Whether nothing is held yet.
    pub(super) fn is_starting(&self) -> bool {
        matches!(
            self.phase,
            Phase::Starting { .. } | Phase::Taking { .. } | Phase::Challenging { .. } | Phase::Observing { .. }
        )
    }

    fn starting_since(&self) -> Duration {
        match self.phase {
            Phase::Starting { since } | Phase::Taking { since, .. } | Phase::Challenging { since, .. } => since,
            _ => self.now,
        }
    }

    fn take(&mut self, current: Option<Versioned>) {
        self.phase = Phase::Taking { since: self.starting_since(), current };
    }

    /// The register did not answer: while nothing is held, give up after a while.
    pub(super) fn start_unanswered(&mut self, reason: String, actions: &mut Vec<ActiveAction>) {
        if let Phase::Starting { since } | Phase::Taking { since, .. } | Phase::Challenging { since, .. } = self.phase
            && self.now >= since + self.config.timing.register_deadline
        {
            self.end(ActiveEnding::RegisterUnreachable { reason }, actions);
        }
    }
}
