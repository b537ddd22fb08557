//! What a standby asks of the register: whether it is named there, and to become the holder.

use std::time::Duration;

use super::{Phase, Promotion, StandbyAction, StandbyEnding, StandbyMember, StandbyMessage};
use crate::desk::Pending;
use crate::{Record, RegisterAnswer, RegisterOutcome, SwapOutcome, Versioned};

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Purpose {
    /// See that what the active member says of the register is true of ours.
    Confirm,
    /// See whether we are named.
    Look,
    Claim,
}

impl StandbyMember {
    /// Begin to claim. From here on nothing more is taken from the active member, and nothing
    /// is acknowledged: in mode net that alone keeps it from sending.
    ///
    /// `offered`: the active member asks for it and keeps the guest, stopped. The link stays, as it tells that member
    /// whether we live.
    pub(super) fn claim(&mut self, offered: bool, actions: &mut Vec<StandbyAction>) {
        let told = matches!(self.phase, Phase::Named | Phase::Eligible);
        self.phase = Phase::Claiming { since: self.now, told, offered, first_claim: None };
        self.desk.wait_until(self.now);
        if !offered {
            actions.push(StandbyAction::CloseLink);
        }
    }

    pub(super) fn drive_register(&mut self, actions: &mut Vec<StandbyAction>) {
        let purpose = match self.phase {
            // Also later, so that a register that gives no answer is known of before it is needed.
            Phase::Named | Phase::Eligible => Purpose::Confirm,
            Phase::Claiming { .. } => Purpose::Look,
            _ => return,
        };
        if self.desk.is_ready(self.now) {
            actions.push(StandbyAction::Register(self.desk.read(self.now, purpose)));
        }
    }

    pub(super) fn register_answered(&mut self, answer: RegisterAnswer, actions: &mut Vec<StandbyAction>) {
        let Some(pending) = self.desk.take(self.now, &answer, self.config.timing.retry_interval()) else {
            self.refusals.unexpected += 1;
            return;
        };
        match self.phase {
            Phase::Named => return self.confirm(answer.outcome, actions),
            Phase::Eligible => return self.confirm_again(&answer.outcome, actions),
            _ => {}
        }
        match answer.outcome {
            // A claim may have been applied all the same: that is seen when the register is read again.
            RegisterOutcome::Unreachable { .. } => {}
            RegisterOutcome::Swap(SwapOutcome::Won(version)) => {
                if let Pending { wanted: Some(record), sent, .. } = pending {
                    self.go_live(Versioned { version, record }, sent, actions);
                }
            }
            RegisterOutcome::Read(current) | RegisterOutcome::Swap(SwapOutcome::Lost(current)) => {
                self.judge(current, actions);
            }
        }
    }

    /// Say that our register names us, or that it is another one than the active member's. A register that gives no
    /// answer is asked again, and the active member waits for it: nothing could be claimed from it either.
    fn confirm(&mut self, outcome: RegisterOutcome, actions: &mut Vec<StandbyAction>) {
        let RegisterOutcome::Read(current) = outcome else { return };
        let is_named = current.as_ref().is_some_and(|current| self.names_us(&current.record));
        #[cfg(test)]
        let is_named = is_named || self.breaks(crate::model::Fault::ConfirmsUnseen);
        if is_named {
            self.phase = Phase::Eligible;
            return self.tell_confirmed(actions);
        }
        match current.map(|current| current.record) {
            // The active member has gone on meanwhile, or another one has; the link tells which.
            Some(record) if record.term > self.term => {
                self.desk.wait_until(self.now + self.config.timing.retry_interval());
            }
            found => {
                // The link stays open: the active member is to be told.
                self.phase = Phase::Ended;
                let found = found.map(|found| found.term);
                actions.push(StandbyAction::Exit(StandbyEnding::OtherRegister { told: self.term, found }));
            }
        }
    }

    /// What is there instead, if anything is, is for the active member to see, which writes there.
    fn confirm_again(&mut self, outcome: &RegisterOutcome, actions: &mut Vec<StandbyAction>) {
        match outcome {
            RegisterOutcome::Read(Some(current)) if self.names_us(&current.record) => self.tell_confirmed(actions),
            // Asked again soon.
            RegisterOutcome::Unreachable { .. } => {}
            _ => self.desk.wait_until(self.now + self.config.timing.register_deadline),
        }
    }

    fn tell_confirmed(&mut self, actions: &mut Vec<StandbyAction>) {
        actions.push(StandbyAction::Send(StandbyMessage::Confirmed { term: self.term }));
        self.desk.wait_until(self.now + self.config.timing.standby_look_interval());
    }

    fn names_us(&self, record: &Record) -> bool {
        record.term == self.term
            && record.holder.as_ref() == Some(&self.config.active)
            && record.standby.as_ref() == Some(&self.config.me)
    }

    /// Go on by what the register holds.
    fn judge(&mut self, current: Option<Versioned>, actions: &mut Vec<StandbyAction>) {
        let Phase::Claiming { since, told, first_claim, .. } = self.phase else { return };
        let me = Some(&self.config.me);
        let found = match current {
            Some(found) if found.record.term >= self.term => found,
            // It was put back to an old state, or emptied.
            older if self.forced => return self.swap(older.as_ref(), actions),
            older => return self.await_holder(older.as_ref(), actions),
        };
        if found.record.holder.as_ref() == me {
            return self.go_live(found, first_claim.unwrap_or(since), actions);
        }
        let by_active = found.record.holder.as_ref() == Some(&self.config.active);
        let named = by_active && found.record.standby.as_ref() == me;
        #[cfg(test)]
        let named = named || self.breaks(crate::model::Fault::ClaimsUnnamed);
        if named {
            return self.swap(Some(&found), actions);
        }
        let (term, holder) = (found.record.term, found.record.holder);
        match holder {
            // Being named may still be on its way to the register.
            Some(_) if by_active && !told && self.now < since + self.config.timing.register_deadline => {
                self.desk.wait_until(self.now + self.config.timing.retry_interval());
            }
            Some(holder) if by_active && !told => self.end(StandbyEnding::NotNamed { holder }, actions),
            holder => {
                let holder = holder.map_or_else(|| "nobody".to_owned(), |holder| holder.to_string());
                self.end(StandbyEnding::ClaimLost { holder, term }, actions);
            }
        }
    }

    /// Become the holder in place of what was found.
    fn swap(&mut self, found: Option<&Versioned>, actions: &mut Vec<StandbyAction>) {
        let newest = found.map_or(self.term, |found| found.record.term.max(self.term));
        let Phase::Claiming { offered, first_claim, .. } = &mut self.phase else { return };
        first_claim.get_or_insert(self.now);
        // The operator's word is that nobody else has it.
        let taking_over = *offered && !self.forced;
        let record = Record { taking_over, ..Record::alone(newest.next(), self.config.me.clone()) };
        let request = self.desk.swap(self.now, Purpose::Claim, found.map(|found| found.version), record);
        actions.push(StandbyAction::Register(request));
    }

    /// The register does not know of our session: its holder tells it again if it lives. If it does not,
    /// whether somebody else was named after us is what the register has forgotten, so that only the operator
    /// can say who goes on.
    fn await_holder(&mut self, found: Option<&Versioned>, actions: &mut Vec<StandbyAction>) {
        if !std::mem::replace(&mut self.went_back, true) {
            let found = found.map(|found| found.record.term);
            actions.push(StandbyAction::RegisterWentBack { held: self.term, found });
        }
        self.desk.wait_until(self.now + self.config.timing.retry_interval());
    }

    fn go_live(&mut self, held: Versioned, claimed_at: Duration, actions: &mut Vec<StandbyAction>) {
        if let Some(epoch) = self.committed {
            self.phase = Phase::Live;
            let from = self.config.active.clone();
            actions.push(StandbyAction::GoLive(Promotion { held, from, epoch, claimed_at }));
        }
    }
}
