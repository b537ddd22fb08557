//! What is asked of the register once the virtual machine is held, and what its answers change.

use std::time::Duration;

use super::moving::Arrival;
use super::session::Exposure;
use super::{ActiveAction, ActiveEnding, ActiveMember, ActiveMessage, Phase};
use crate::desk::Pending;
use crate::{MemberId, Mode, OutputPolicy, Record, RegisterAnswer, RegisterOutcome, SwapOutcome, Term, Version, Versioned};

/// What a request is for.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Purpose {
    /// See who holds the virtual machine.
    Look,
    /// Become the holder, at the start.
    Take,
    /// Show that we live.
    Renew,
    /// Let the standby claim.
    Name,
    /// Run the guest that was taken over at a planned failover.
    Run,
    /// Take the record back, so that nobody claims.
    Reclaim,
    /// Give the virtual machine back.
    Vacate,
}

impl ActiveMember {
    pub(super) fn next_request(&self) -> Option<Duration> {
        // While a guest is loaded there is nothing to ask.
        let may_ask = !matches!(self.phase, Phase::Arriving(Arrival::Claimed | Arrival::Loading));
        (may_ask && !self.desk.is_busy()).then(|| self.desk.not_before())
    }

    pub(super) fn drive_register(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.phase == Phase::Ended || !self.desk.is_ready(self.now) {
            return;
        }
        let now = self.now;
        let request = match &self.phase {
            Phase::Starting { .. } | Phase::Observing { .. } | Phase::Resigned { .. } => {
                self.desk.read(now, Purpose::Look)
            }
            Phase::Taking { current, .. } => {
                let term = current.as_ref().map_or(Term(0), |current| current.record.term).next();
                let expected = current.as_ref().map(|current| current.version);
                self.desk.swap(now, Purpose::Take, expected, Record::alone(term, self.config.me.clone()))
            }
            _ => {
                let Some((purpose, wanted)) = self.wanted() else { return };
                self.desk.swap(now, purpose, self.seen, wanted)
            }
        };
        actions.push(ActiveAction::Register(request));
    }

    /// What the record shall be in this phase.
    fn wanted(&mut self) -> Option<(Purpose, Record)> {
        let held = self.held.as_ref()?;
        let alone = Record::alone(self.newest_term().next(), self.config.me.clone());
        Some(match self.phase {
            Phase::Naming => {
                let session = self.session.as_mut()?;
                // From here on the answer may be lost and the standby named all the same.
                session.exposure = Exposure::Asked;
                (Purpose::Name, Record { standby: Some(session.standby.clone()), ..alone })
            }
            Phase::Arriving(Arrival::Loaded) => (Purpose::Run, held.running()),
            Phase::Arriving(_) => return None,
            Phase::Reclaiming { .. } => (Purpose::Reclaim, alone),
            Phase::Stopping { .. } => (Purpose::Vacate, Record { holder: None, ..alone }),
            _ => (Purpose::Renew, held.renewed()),
        })
    }

    pub(super) fn register_answered(&mut self, answer: RegisterAnswer, actions: &mut Vec<ActiveAction>) {
        let Some(pending) = self.desk.take(self.now, &answer, self.config.timing.retry_interval()) else {
            self.refusals.unexpected += 1;
            return;
        };
        match answer.outcome {
            RegisterOutcome::Unreachable { reason } => self.start_unanswered(reason, actions),
            RegisterOutcome::Read(current) => self.looked(current, actions),
            RegisterOutcome::Swap(SwapOutcome::Won(version)) => self.won(pending, version, actions),
            RegisterOutcome::Swap(SwapOutcome::Lost(current)) => self.lost(pending, current, actions),
        }
    }

    fn looked(&mut self, current: Option<Versioned>, actions: &mut Vec<ActiveAction>) {
        if matches!(self.phase, Phase::Starting { .. } | Phase::Taking { .. } | Phase::Observing { .. }) {
            self.judge_start(current, actions);
            return;
        }
        self.compare(current, actions);
        if matches!(self.phase, Phase::Resigned { .. }) {
            self.desk.wait_until(self.now + self.config.timing.retry_interval());
        }
    }

    fn won(&mut self, pending: Pending<Purpose>, version: Version, actions: &mut Vec<ActiveAction>) {
        let Some(record) = pending.wanted else { return };
        self.held = Some(record);
        self.seen = Some(version);
        self.granted_at = self.granted_at.max(pending.sent);
        let fresh = self.now < pending.sent + self.config.timing.register_deadline;
        match (pending.purpose, &self.phase) {
            (Purpose::Take, Phase::Taking { .. }) => {
                self.phase = Phase::Unprotected;
                actions.push(ActiveAction::BootGuest);
            }
            (Purpose::Name, Phase::Naming) => self.named(actions),
            (Purpose::Run, Phase::Arriving(_)) => self.run_arrived(),
            (Purpose::Reclaim, Phase::Reclaiming { fenced, .. }) if fresh => {
                if *fenced {
                    actions.push(ActiveAction::ContinueGuest);
                }
                self.phase = Phase::Unprotected;
                self.taken_back(actions);
            }
            (Purpose::Vacate, Phase::Stopping { .. }) => {
                self.stopped(actions);
                return;
            }
            // The answer to a request of an earlier phase: what this phase needs is asked at once.
            (_, Phase::Naming | Phase::Arriving(_) | Phase::Reclaiming { .. } | Phase::Stopping { .. }) => return,
            _ => {}
        }
        self.desk.wait_until(pending.sent + self.config.timing.renewal_interval());
    }

    fn named(&mut self, actions: &mut Vec<ActiveAction>) {
        if let Some(session) = &mut self.session {
            session.exposure = Exposure::Named;
        }
        self.phase = Phase::Confirming { since: self.now };
        #[cfg(test)]
        if self.breaks(crate::model::Fault::HoldsWhenNamed) {
            self.set_policy(OutputPolicy::Hold, actions);
        }
        actions.push(ActiveAction::Send(ActiveMessage::Protected { term: self.term() }));
    }

    /// The standby has seen in its own register that it is named: that is the same one.
    pub(super) fn confirmed(&mut self, term: Term) {
        if matches!(self.phase, Phase::Confirming { .. }) && term == self.term() {
            self.phase = Phase::Protected;
        } else {
            self.refusals.unexpected += 1;
        }
    }

    /// Another host runs the virtual machine in a later term, of which our register knows nothing.
    pub(super) fn outranked(&mut self, term: Term, holder: MemberId, actions: &mut Vec<ActiveAction>) {
        if term > self.newest_term() && holder != self.config.me {
            self.superseded(&Record::alone(term, holder), actions);
        }
    }

    fn lost(&mut self, pending: Pending<Purpose>, current: Option<Versioned>, actions: &mut Vec<ActiveAction>) {
        if let Some(current) = &current
            && pending.wanted.as_ref() == Some(&current.record)
            && pending.purpose != Purpose::Vacate
        {
            // It was applied by an earlier attempt whose answer was lost.
            self.won(pending, current.version, actions);
            return;
        }
        if matches!(self.phase, Phase::Starting { .. } | Phase::Taking { .. } | Phase::Observing { .. }) {
            self.judge_start(current, actions);
            return;
        }
        match current {
            Some(current) if current.record.holder.is_none() && matches!(self.phase, Phase::Stopping { .. }) => {
                self.stopped(actions);
            }
            current => self.compare(current, actions),
        }
    }

    /// Compare what the register holds with what we hold. Terms only rise, so that a newer record tells of
    /// somebody else's claim, and an older one only of the register: it was put back to an old state, and is
    /// told again who holds what.
    fn compare(&mut self, current: Option<Versioned>, actions: &mut Vec<ActiveAction>) {
        let held = self.term();
        let found = current.as_ref().map(|current| current.record.term);
        let ours = current.as_ref().is_some_and(|found| found.record.holder.as_ref() == Some(&self.config.me));
        #[cfg(test)]
        let believes = self.breaks(crate::model::Fault::BelievesOlderRecords);
        #[cfg(not(test))]
        let believes = false;
        let seen = std::mem::replace(&mut self.seen, current.as_ref().map(|current| current.version));
        match current {
            // An earlier write of ours. It is not known when it was applied, so it extends no lease.
            Some(current) if ours && (current.record.term >= held || believes) => {
                self.held = Some(current.record);
            }
            Some(current) if self.is_undone_claim(&current.record) => {}
            Some(current) if current.record.term > held || believes => {
                self.superseded(&current.record, actions);
            }
            #[cfg(test)]
            None if self.breaks(crate::model::Fault::EndsWithoutRecord) => {
                self.superseded(&Record { holder: None, ..Record::alone(held, self.config.me.clone()) }, actions);
            }
            _ => {
                if seen != self.seen {
                    actions.push(ActiveAction::RegisterWentBack { held, found });
                }
                self.contest(found, actions);
            }
        }
    }

    /// Somebody else holds our term: a claim that the register has lost was won twice. A higher term ends one
    /// of the two.
    fn contest(&mut self, found: Option<Term>, actions: &mut Vec<ActiveAction>) {
        if found != Some(self.term()) {
            return;
        }
        match self.phase {
            Phase::Confirming { .. } | Phase::Protected => self.phase = Phase::Naming,
            Phase::Unprotected | Phase::Syncing | Phase::Draining { .. } => self.reclaim(actions),
            _ => {}
        }
    }

    /// Somebody else is the holder: what is held here was never sent, and what runs here never happened (R6).
    fn superseded(&mut self, record: &Record, actions: &mut Vec<ActiveAction>) {
        let offered_to = self.offer.as_ref().map(|offer| &offer.to);
        let term = record.term;
        let ending = match &record.holder {
            Some(holder) if offered_to == Some(holder) => ActiveEnding::HandedOver { holder: holder.clone(), term },
            Some(holder) => ActiveEnding::Superseded { holder: holder.to_string(), term },
            None => ActiveEnding::Superseded { holder: "nobody".to_owned(), term },
        };
        self.end(ending, actions);
    }

    /// Do what belongs to being alone, once each time that the state is entered.
    pub(super) fn enter_unprotected(&mut self, actions: &mut Vec<ActiveAction>) {
        let entered = self.phase == Phase::Unprotected && !self.seeking;
        self.seeking = self.phase == Phase::Unprotected;
        if entered {
            #[cfg(test)]
            let holds_on = self.breaks(crate::model::Fault::HoldsOn);
            #[cfg(not(test))]
            let holds_on = false;
            if !(holds_on && self.policy == OutputPolicy::HoldFromCut) {
                self.set_policy(OutputPolicy::Free, actions);
            }
            if self.config.mode != Mode::Off {
                actions.push(ActiveAction::SeekStandby);
            }
        }
    }
}
