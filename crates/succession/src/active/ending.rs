//! How an active member comes to its end.

use super::session::Exposure;
use std::time::Duration;

use super::{ActiveAction, ActiveEnding, ActiveMember, ActiveMessage, ActiveState, FailoverRefused, Phase};
use crate::{MemberId, Mode, OutputPolicy};

/// Whether a standby that has ended had claimed before, as the register tells when it is not told of our end.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Check {
    NotDue,
    /// Before the register is tried again.
    Due,
    /// We held the virtual machine when its standby had ended.
    SeenAlone,
}

impl ActiveMember {
    pub(super) fn stop_requested(&mut self, actions: &mut Vec<ActiveAction>) {
        #[cfg(test)]
        if self.breaks(crate::model::Fault::ForgetsStop) && self.is_moving() {
            return;
        }
        match self.phase {
            _ if self.is_starting() => self.end(ActiveEnding::Stopped, actions),
            Phase::Stopping { .. } => {}
            _ => {
                if self.is_moving() {
                    actions.push(ActiveAction::FailoverRefused(FailoverRefused::Stopped));
                }
                self.vacate(false, actions);
            }
        }
    }

    /// Whether the machine is on its way to the standby.
    fn is_moving(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. }) || self.offer.is_some()
    }

    /// Without protection there is nothing to hand over to, now or ever.
    pub(super) fn leave_requested(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.config.mode == Mode::Off || matches!(self.state(), ActiveState::Starting | ActiveState::Observing) {
            return self.stop_requested(actions);
        }
        self.leaving_from = self.leaving_from.or(Some(self.now));
    }

    pub(super) fn next_leaving(&self) -> Option<Duration> {
        self.leaving_from.filter(|_| self.phase == Phase::Protected)
    }

    pub(super) fn drive_leaving(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.next_leaving().is_some_and(|moment| self.now >= moment) {
            // A standby that does not take it now is asked again later, and not while the guest never runs.
            self.leaving_from = Some(self.now + self.config.timing.register_deadline * 2);
            self.failover_requested(actions);
        }
    }

    /// Give the virtual machine back to the register before the standby can miss us. Heartbeats go on until
    /// then.
    fn vacate(&mut self, guest_gone: bool, actions: &mut Vec<ActiveAction>) {
        self.set_policy(OutputPolicy::Keep, actions);
        if self.session.is_some() {
            actions.push(ActiveAction::EndEpochs);
        }
        if !guest_gone {
            actions.push(ActiveAction::StopGuest);
        }
        self.phase = Phase::Stopping { since: self.now, guest_gone };
        self.desk.wait_until(self.now);
    }

    pub(super) fn stopped(&mut self, actions: &mut Vec<ActiveAction>) {
        let guest_gone = matches!(self.phase, Phase::Stopping { guest_gone: true, .. });
        self.say_goodbye(actions);
        let ending = if guest_gone { ActiveEnding::GuestGone { resigned: false } } else { ActiveEnding::Stopped };
        self.end(ending, actions);
    }

    /// The register has not taken the end of the machine for long. A standby that hears of it ends, too; that it has
    /// can only its host say, which is asked, while the register has another chance.
    pub(super) fn stop_unanswered(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.session.is_some() && !self.is_alone() {
            self.say_goodbye(actions);
            self.session = None;
            actions.push(ActiveAction::CloseLink);
            if let Phase::Stopping { since, .. } = &mut self.phase {
                *since = self.now;
            }
            return;
        }
        self.say_goodbye(actions);
        let ending = match (self.offer.take(), self.heir()) {
            (Some(offer), Some(_)) => ActiveEnding::StoppedButOffered { to: offer.to },
            (_, heir) => ActiveEnding::StoppedButRegistered { heir },
        };
        self.end(ending, actions);
    }

    /// The register was not told of the end: it is looked into before it is tried again.
    pub(super) fn check_is_due(&mut self) {
        if self.check == Check::NotDue {
            self.check = Check::Due;
        }
    }

    /// Whether the register is to be looked into now: for what a standby that has ended has left there.
    pub(super) fn takes_check(&mut self) -> bool {
        if self.check != Check::Due {
            return false;
        }
        self.check = Check::NotDue;
        self.named.is_some() && self.is_alone()
    }

    /// Who may run the virtual machine after us, by a register that does not hear of its end.
    fn heir(&self) -> Option<MemberId> {
        #[cfg(test)]
        if self.breaks(crate::model::Fault::ForgetsHeirs) {
            return None;
        }
        // A standby that has ended may have claimed before, and named another one.
        let is_settled = self.is_alone() && self.check == Check::SeenAlone;
        #[cfg(test)]
        let is_settled = is_settled || (self.is_alone() && self.breaks(crate::model::Fault::EndsUnseen));
        let standby = self.named.clone().filter(|_| !is_settled);
        standby.or_else(|| self.offered_by.clone())
    }

    fn say_goodbye(&self, actions: &mut Vec<ActiveAction>) {
        if self.session.is_some() {
            actions.push(ActiveAction::Send(ActiveMessage::Bye { term: self.term() }));
        }
    }

    /// The guest crashed. If a standby may claim, it shall; else nobody can go on with it.
    pub(super) fn guest_gone(&mut self, actions: &mut Vec<ActiveAction>) {
        let term = self.term();
        let successor = self.session.as_ref().filter(|session| session.exposure != Exposure::Unnamed);
        if let Some(last) = successor.and_then(|session| session.acknowledged)
            && !matches!(self.phase, Phase::Stopping { .. })
        {
            self.set_policy(OutputPolicy::Discard, actions);
            actions.push(ActiveAction::Send(ActiveMessage::Resign { term, last }));
            return self.end(ActiveEnding::GuestGone { resigned: true }, actions);
        }
        if self.is_starting() {
            self.refusals.unexpected += 1;
            return;
        }
        match &mut self.phase {
            // It may be that a standby is named: the record is left to it.
            // Or that who offered the guest has it still.
            Phase::Reclaiming { .. } | Phase::Arriving(_) => {
                self.end(ActiveEnding::GuestGone { resigned: false }, actions);
            }
            Phase::Stopping { guest_gone, .. } => *guest_gone = true,
            _ => self.vacate(true, actions),
        }
    }

    /// Come to the end: nothing that is held may leave any more.
    pub(super) fn end(&mut self, ending: ActiveEnding, actions: &mut Vec<ActiveAction>) {
        let held_guest = !self.is_starting();
        self.set_policy(OutputPolicy::Discard, actions);
        if held_guest {
            actions.push(ActiveAction::KillGuest);
        }
        if self.session.take().is_some() {
            actions.push(ActiveAction::CloseLink);
        }
        self.phase = Phase::Ended;
        actions.push(ActiveAction::Exit(ending));
    }
}
