//! What concerns the connected standby: heartbeats, epochs, acknowledgements, and losing it.

use std::time::Duration;

use super::{ActiveAction, ActiveMember, ActiveMessage, FailoverRefused, Phase};
#[cfg(test)]
use crate::model::Fault;
use crate::{Epoch, MemberId, Mode, OutputPolicy, Term};

/// A connection to a standby.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Session {
    pub standby: MemberId,
    /// The term at its beginning: messages of this term and of all up to ours are of this session.
    pub first_term: Term,
    pub first_epoch: Epoch,
    pub acknowledged: Option<Epoch>,
    pub heartbeat_sent: Option<Duration>,
    /// When the last heartbeat that came back was sent; the beginning of the session before the first.
    pub echoed_sent: Duration,
    pub exposure: Exposure,
    /// The last epoch of a planned failover.
    pub last: Option<Epoch>,
}

/// Whether the standby may claim.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Exposure {
    /// No: the register was not asked to name it.
    Unnamed,
    /// Perhaps: the register was asked.
    Asked,
    Named,
}

impl Session {
    pub fn acknowledged_or_before(&self) -> Epoch {
        self.acknowledged.unwrap_or(Epoch(self.first_epoch.0 - 1))
    }
}

impl ActiveMember {
    pub(super) fn standby_connected(&mut self, standby: MemberId, actions: &mut Vec<ActiveAction>) {
        if self.phase != Phase::Unprotected || self.config.mode == Mode::Off || !self.may_name() {
            self.refusals.unexpected += 1;
            return;
        }
        let first_epoch = self.cut.next();
        self.session = Some(Session {
            standby,
            first_term: self.term(),
            first_epoch,
            acknowledged: None,
            heartbeat_sent: None,
            echoed_sent: self.now,
            exposure: Exposure::Unnamed,
            last: None,
        });
        self.phase = Phase::Syncing;
        let holds = self.config.mode.gates_on_ack();
        #[cfg(test)]
        let holds = holds && !self.breaks(Fault::HoldsWhenHeard) && !self.breaks(Fault::HoldsWhenNamed);
        if holds {
            self.set_policy(OutputPolicy::HoldFromCut, actions);
        }
        self.prove_writes();
        actions.push(ActiveAction::BeginEpochs { term: self.term(), first: first_epoch });
        #[cfg(test)]
        if self.breaks(Fault::NamesEarly) {
            self.phase = Phase::Naming;
            self.desk.wait_until(self.now);
        }
    }

    /// The lease is extended to what it would be had the echo come at once: it counts from the sending.
    pub(super) fn echoed(&mut self, term: Term, sent: Duration) {
        let (now, current) = (self.now, self.term());
        let Some(session) = &mut self.session else {
            self.refusals.unexpected += 1;
            return;
        };
        if !(session.first_term..=current).contains(&term) {
            self.refusals.wrong_term += 1;
        } else if session.heartbeat_sent.is_none_or(|newest| sent > newest) {
            // Nothing that was sent: it would extend the lease beyond what the standby heard.
            self.refusals.unexpected += 1;
        } else {
            #[cfg(test)]
            let sent = if self.fault == Some(Fault::CountsLeaseFromEcho) { now } else { sent };
            session.echoed_sent = session.echoed_sent.max(sent.min(now));
        }
    }

    pub(super) fn epoch_cut(&mut self, epoch: Epoch, last: bool) {
        // A last epoch may come after the failover was given up: it is an ordinary one then.
        let draining = matches!(self.phase, Phase::Draining { .. });
        // And an ordinary one may be told during a failover: it was being cut when that was asked for.
        let expected = draining || if last { self.phase == Phase::Protected } else { self.may_cut() };
        let Some(session) = self.session.as_mut().filter(|_| expected) else {
            // One that was being cut while the link was lost: it is shipped to nobody.
            self.refusals.unexpected += 1;
            if self.session.is_none() {
                // But the output is cut at it, and is never cut at a number twice: the next session begins
                // after it.
                self.cut = self.cut.max(epoch);
            }
            return;
        };
        if epoch != self.cut.next() {
            self.refusals.wrong_epoch += 1;
            return;
        }
        self.cut = epoch;
        session.last = (draining && last).then_some(epoch);
    }

    #[cfg(test)]
    pub(super) fn break_output_rule(&mut self, actions: &mut Vec<ActiveAction>) {
        match self.fault {
            Some(Fault::ReleasesOnSend) => actions.push(ActiveAction::Release(self.cut)),
            Some(Fault::HoldsWhenHeard) if self.session.is_some() => {
                self.set_policy(OutputPolicy::Hold, actions);
            }
            _ => {}
        }
    }

    pub(super) fn acknowledged(&mut self, term: Term, epoch: Epoch, actions: &mut Vec<ActiveAction>) {
        let (current, cut) = (self.term(), self.cut);
        let Some(session) = &mut self.session else {
            self.refusals.unexpected += 1;
            return;
        };
        if !(session.first_term..=current).contains(&term) {
            self.refusals.wrong_term += 1;
            return;
        }
        if epoch <= session.acknowledged_or_before() || epoch > cut {
            self.refusals.wrong_epoch += 1;
            return;
        }
        session.acknowledged = Some(epoch);
        let drained = session.last == Some(epoch);
        if self.config.mode.gates_on_ack() {
            actions.push(ActiveAction::Release(epoch));
        }
        match self.phase {
            Phase::Syncing if !self.may_name() => self.drop_standby(actions),
            Phase::Syncing => {
                self.phase = Phase::Naming;
                self.desk.wait_until(self.now);
            }
            Phase::Draining { .. } if drained => self.resign(epoch, actions),
            _ => {}
        }
    }

    pub(super) fn link_closed(&mut self, actions: &mut Vec<ActiveAction>) {
        match self.phase {
            Phase::Syncing => self.drop_standby(actions),
            Phase::Naming
            | Phase::Confirming { .. }
            | Phase::Protected
            | Phase::Draining { .. }
            | Phase::Resigned { .. } => self.reclaim(actions),
            _ => self.session = None,
        }
    }

    /// Give up a standby that may not claim.
    pub(super) fn drop_standby(&mut self, actions: &mut Vec<ActiveAction>) {
        self.end_session(actions);
        self.phase = Phase::Unprotected;
    }

    /// Let nothing out until the register grants a term in which no standby may claim (R14).
    pub(super) fn reclaim(&mut self, actions: &mut Vec<ActiveAction>) {
        let draining = matches!(self.phase, Phase::Draining { .. });
        let resigned = matches!(self.phase, Phase::Resigned { .. });
        let lost_standby = !matches!(self.phase, Phase::Unprotected | Phase::Syncing);
        // Whatever answer comes next, even at this moment, enters being alone anew.
        self.seeking = false;
        self.set_policy(OutputPolicy::Keep, actions);
        self.end_session(actions);
        if draining {
            actions.push(ActiveAction::FailoverRefused(FailoverRefused::NotAcknowledged));
        }
        // A member alone whose lease has run out has asked for a whole register_deadline: no need to wait
        // another.
        let patience =
            if !lost_standby && self.desk.is_failing() { Duration::ZERO } else { self.config.timing.register_deadline };
        let stopped = draining || resigned;
        let fenced = stopped || patience.is_zero();
        if fenced && !stopped {
            actions.push(ActiveAction::StopGuest);
        }
        self.phase = Phase::Reclaiming { fence_at: self.now + patience, fenced };
        self.renew_not_before = self.now;
        #[cfg(test)]
        if self.breaks(Fault::BelievesInDeath) {
            self.over = self.named.clone();
        }
        #[cfg(test)]
        if resigned && self.breaks(Fault::GoesOnWithOffered) {
            self.phase = Phase::Unprotected;
            self.granted_at = self.now;
            actions.push(ActiveAction::ContinueGuest);
        }
        #[cfg(test)]
        if self.breaks(Fault::GoesOnUnasked) {
            self.phase = Phase::Unprotected;
            self.granted_at = self.now;
        }
        self.desk.wait_until(self.now);
    }

    fn end_session(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.session.take().is_some() {
            actions.push(ActiveAction::EndEpochs);
            actions.push(ActiveAction::CloseLink);
        }
    }

    pub(super) fn next_heartbeat(&self) -> Option<Duration> {
        let session = self.session.as_ref()?;
        if matches!(self.phase, Phase::Resigned { .. }) {
            return None;
        }
        Some(session.heartbeat_sent.map_or(self.now, |sent| sent + self.config.timing.heartbeat_interval))
    }

    pub(super) fn send_heartbeat(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.next_heartbeat().is_none_or(|moment| self.now < moment) {
            return;
        }
        let (term, sent) = (self.term(), self.now);
        if let Some(session) = &mut self.session {
            session.heartbeat_sent = Some(sent);
            actions.push(ActiveAction::Send(ActiveMessage::Heartbeat { term, sent }));
        }
    }
}
