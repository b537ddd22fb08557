//! What is asked of the register once the virtual machine is held, and what its answers change.

use std::time::Duration;

use super::ending::Check;
use super::moving::Arrival;
use super::session::Exposure;
use super::writing::Writes;
use super::{ActiveAction, ActiveEnding, ActiveMember, ActiveMessage, Phase};
use crate::desk::Pending;
use crate::{Mode, OutputPolicy, Record, RegisterAnswer, RegisterOutcome, SwapOutcome, Term, Version, Versioned};

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Purpose {
    /// See who holds the virtual machine: as long as that is us, unchallenged, a guest may go on alone.
    Look,
    /// See that the standby, which has ended, had not claimed before.
    Check,
    /// Become the holder, at the start.
    Take,
    /// Have the holder of what was found show that it lives, if it does.
    Challenge,
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
        if self.phase == Phase::Ended || self.next_request().is_none_or(|moment| self.now < moment) {
            return;
        }
        let now = self.now;
        let checks = self.takes_check();
        let request = match &self.phase {
            Phase::Starting { .. } | Phase::Observing { .. } | Phase::Resigned { .. } => {
                self.desk.read(now, Purpose::Look)
            }
            Phase::Taking { current, .. } => {
                let term = current.as_ref().map_or(Term(0), |current| current.record.term).next();
                let expected = current.as_ref().map(|current| current.version);
                self.desk.swap(now, Purpose::Take, expected, Record::alone(term, self.config.me.clone()))
            }
            Phase::Challenging { found, .. } => {
                let wanted = found.record.challenged(&self.config.me);
                self.desk.swap(now, Purpose::Challenge, Some(found.version), wanted)
            }
            Phase::Stopping { .. } if checks => self.desk.read(now, Purpose::Check),
            _ => match self.wanted() {
                Some((purpose, wanted)) => self.desk.swap(now, purpose, self.seen, wanted),
                None => self.desk.read(now, Purpose::Look),
            },
        };
        self.note_asked();
        actions.push(ActiveAction::Register(request));
    }

    /// What the record shall be in this phase, if it is to be written.
    fn wanted(&mut self) -> Option<(Purpose, Record)> {
        let held = self.held.as_ref()?;
        let alone = Record::alone(self.newest_term().next(), self.config.me.clone());
        Some(match self.phase {
            Phase::Naming => {
                let session = self.session.as_mut()?;
                // From here on the answer may be lost and the standby named all the same.
                session.exposure = Exposure::Asked;
                self.named = Some(session.standby.clone());
                (Purpose::Name, Record { standby: Some(session.standby.clone()), ..alone })
            }
            Phase::Arriving(Arrival::Loaded) => (Purpose::Run, held.running()),
            // Alone it is enough to look, where it takes no writes.
            Phase::Reclaiming { .. } if self.is_alone() && self.now < self.renew_not_before => return None,
            Phase::Reclaiming { .. } => (Purpose::Reclaim, alone),
            Phase::Unprotected if self.named.is_some() && self.now >= self.renew_not_before => {
                (Purpose::Reclaim, alone)
            }
            Phase::Stopping { .. } => (Purpose::Vacate, Record { holder: None, ..alone }),
            _ if self.renewal_is_due() => (Purpose::Renew, held.renewed()),
            _ => return None,
        })
    }

    pub(super) fn register_answered(&mut self, answer: RegisterAnswer, actions: &mut Vec<ActiveAction>) {
        let Some(pending) = self.desk.take(self.now, &answer, self.config.timing.retry_interval()) else {
            self.refusals.unexpected += 1;
            return;
        };
        let is_answer = !matches!(answer.outcome, RegisterOutcome::Unreachable { .. });
        match answer.outcome {
            RegisterOutcome::Unreachable { reason } => {
                if !matches!(pending.purpose, Purpose::Look | Purpose::Check) {
                    self.write_failed(actions);
                }
                self.start_unanswered(reason, actions);
            }
            RegisterOutcome::Read(current) => self.looked(&pending, current, actions),
            RegisterOutcome::Swap(SwapOutcome::Won(version)) => self.won(pending, version, actions),
            RegisterOutcome::Swap(SwapOutcome::Lost(current)) => self.lost(pending, current, actions),
        }
        self.settle_hearsay(is_answer, actions);
    }

    fn looked(&mut self, pending: &Pending<Purpose>, current: Option<Versioned>, actions: &mut Vec<ActiveAction>) {
        let sent = pending.sent;
        if self.is_starting() {
            self.judge_start(current, actions);
            return;
        }
        let is_ours = |record: &Record| record.holder.as_ref() == Some(&self.config.me) && record.term >= self.term();
        if pending.purpose == Purpose::Check && current.as_ref().is_some_and(|current| is_ours(&current.record)) {
            self.check = Check::SeenAlone;
        }
        let shows_us = current.as_ref().is_some_and(|current| self.still_holds(&current.record));
        self.compare(current, actions);
        match self.phase {
            Phase::Reclaiming { .. } if shows_us && self.is_alone() && self.is_fresh(sent) => {
                self.granted_at = self.granted_at.max(sent);
                self.go_on_alone(actions);
                self.desk.wait_until(sent + self.look_interval());
            }
            // It has to be written, and has just taken no writes.
            Phase::Reclaiming { .. } if self.is_alone() && self.now < self.renew_not_before => {
                self.desk.wait_until(self.now + self.config.timing.retry_interval());
            }
            // What these phases need is asked at once.
            Phase::Naming | Phase::Arriving(_) | Phase::Reclaiming { .. } | Phase::Stopping { .. } => {}
            Phase::Resigned { .. } => self.desk.wait_until(self.now + self.config.timing.retry_interval()),
            _ if shows_us => {
                self.granted_at = self.granted_at.max(sent);
                self.desk.wait_until(sent + self.look_interval());
            }
            _ => {}
        }
    }

    /// Whether what was granted to a request of this moment is not over yet.
    fn is_fresh(&self, sent: Duration) -> bool {
        self.now < sent + self.config.timing.register_deadline
    }

    /// Whether a record says that we hold the virtual machine as we know it, and nobody asks whether we live. It was
    /// so when it was looked at, and whoever challenges us later waits for longer than our lease.
    fn still_holds(&self, record: &Record) -> bool {
        let held = self.held.as_ref();
        let is_ours = held.is_some_and(|held| {
            (held.term, &held.holder, &held.standby) == (record.term, &record.holder, &record.standby)
        });
        let is_challenged = record.challenger.is_some();
        #[cfg(test)]
        let is_challenged = is_challenged && !self.breaks(crate::model::Fault::IgnoresChallenges);
        is_ours && !is_challenged
    }

    /// Whether the record is to be written again, although nothing in it has changed. Now and then without a reason:
    /// that a register takes no writes shall be known before one is needed.
    fn renewal_is_due(&self) -> bool {
        let is_old = self.now >= self.written_at + self.config.timing.renewal_interval();
        let is_owed = self.owes_renewal || is_old || self.writes != Writes::Taken;
        is_owed && self.now >= self.renew_not_before
    }

    /// How soon to look again: with a standby that acknowledges, no lease depends on it.
    fn look_interval(&self) -> Duration {
        let timing = &self.config.timing;
        let is_named = self.session.as_ref().is_some_and(|session| session.exposure == Exposure::Named);
        if is_named { timing.register_deadline } else { timing.look_interval() }
    }

    fn won(&mut self, pending: Pending<Purpose>, version: Version, actions: &mut Vec<ActiveAction>) {
        let Some(record) = pending.wanted else { return };
        if pending.purpose == Purpose::Challenge {
            if matches!(self.phase, Phase::Challenging { .. }) {
                self.challenged(Versioned { version, record });
            }
            return;
        }
        let is_news = self.write_succeeded();
        self.owes_renewal = false;
        self.written_at = self.written_at.max(pending.sent);
        self.named.clone_from(&record.standby);
        self.held = Some(record);
        self.seen = Some(version);
        self.granted_at = self.granted_at.max(pending.sent);
        let fresh = self.is_fresh(pending.sent);
        match (pending.purpose, &self.phase) {
            (Purpose::Take, Phase::Taking { .. }) => {
                self.phase = Phase::Unprotected;
                actions.push(ActiveAction::BootGuest);
            }
            (Purpose::Name, Phase::Naming) => self.named(actions),
            (Purpose::Run, Phase::Arriving(_)) => self.run_arrived(),
            (Purpose::Reclaim, Phase::Reclaiming { .. }) if fresh => self.go_on_alone(actions),
            // Whoever is asked now is asked in a term that is over.
            (Purpose::Reclaim, Phase::Unprotected) if self.config.mode != Mode::Off => {
                actions.push(ActiveAction::SeekStandby);
            }
            // Nobody was looked for while it took no writes.
            (_, Phase::Unprotected) if is_news && self.config.mode != Mode::Off => {
                actions.push(ActiveAction::SeekStandby);
            }
            (Purpose::Vacate, Phase::Stopping { .. }) => {
                self.stopped(actions);
                return;
            }
            // The answer to a request of an earlier phase: what this phase needs is asked at once.
            (_, Phase::Naming | Phase::Arriving(_) | Phase::Reclaiming { .. } | Phase::Stopping { .. }) => return,
            _ => {}
        }
        self.desk.wait_until(pending.sent + self.look_interval());
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
        match self.phase {
            Phase::Confirming { .. } if term == self.term() => self.phase = Phase::Protected,
            // It has looked again.
            Phase::Protected | Phase::Draining { .. } if term == self.term() => {}
            _ => self.refusals.unexpected += 1,
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
        if self.is_starting() {
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
                self.owes_renewal = current.record.challenger.is_some() || believes;
                #[cfg(test)]
                if self.breaks(crate::model::Fault::IgnoresChallenges) {
                    self.owes_renewal = false;
                }
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
                self.owes_renewal = true;
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
    pub(super) fn superseded(&mut self, record: &Record, actions: &mut Vec<ActiveAction>) {
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
            if self.config.mode != Mode::Off && self.may_name() {
                actions.push(ActiveAction::SeekStandby);
            }
        }
    }
}
