//! A planned failover, as both sides see it.
//!
//! Who offers the guest keeps it, stopped, until the register says that the other one runs it. In between the record
//! says `taking_over`, and either side may replace it: the one to run, the other to take the guest back. The register
//! lets one of them win. Deadlines say when that is tried, and never who has the guest.

use super::{ActiveAction, ActiveMember, ActiveMessage, FailoverRefused, Phase};
use crate::{Epoch, MemberId, OutputPolicy, Record, Term};

/// What became of a guest that was offered to a standby.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Offer {
    pub to: MemberId,
    /// The term in which it has claimed, if it was not seen to run.
    claimed: Option<Term>,
}

/// How far a guest has come that is taken over here.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Arrival {
    Claimed,
    Loading,
    /// It stands, and the register is asked to let it run.
    Loaded,
}

impl ActiveMember {
    pub(super) fn failover_requested(&mut self, actions: &mut Vec<ActiveAction>) {
        match self.phase {
            Phase::Protected => {
                self.phase = Phase::Draining { since: self.now };
                actions.push(ActiveAction::ShipLastEpoch);
            }
            Phase::Draining { .. } | Phase::Resigned { .. } => {}
            _ => actions.push(ActiveAction::FailoverRefused(FailoverRefused::NotProtected)),
        }
    }

    pub(super) fn cancel_failover(&mut self, actions: &mut Vec<ActiveAction>) {
        if let Some(session) = &mut self.session {
            session.last = None;
        }
        self.phase = Phase::Protected;
        actions.push(ActiveAction::ContinueGuest);
        actions.push(ActiveAction::FailoverRefused(FailoverRefused::NotAcknowledged));
    }

    /// The standby has all that there is: it shall claim.
    pub(super) fn resign(&mut self, last: Epoch, actions: &mut Vec<ActiveAction>) {
        let Some(session) = &self.session else { return };
        self.offer = Some(Offer { to: session.standby.clone(), claimed: None });
        self.phase = Phase::Resigned { since: self.now };
        self.desk.wait_until(self.now + self.config.timing.retry_interval());
        if !self.config.mode.gates_on_ack() {
            self.set_policy(OutputPolicy::Keep, actions);
        }
        actions.push(ActiveAction::Send(ActiveMessage::Resign { term: self.term(), last }));
    }

    /// Note a claim of the member that the guest was offered to; tells whether it is one that can still be undone.
    pub(super) fn is_undone_claim(&mut self, record: &Record) -> bool {
        let Some(offer) = &mut self.offer else { return false };
        let claims = record.taking_over && record.holder.as_ref() == Some(&offer.to);
        #[cfg(test)]
        let claims = claims && self.fault != Some(crate::model::Fault::EndsWhenClaimed);
        if claims {
            offer.claimed = Some(record.term);
        }
        claims
    }

    /// The newest term that a record of ours must exceed.
    pub(super) fn newest_term(&self) -> Term {
        let claimed = self.offer.as_ref().and_then(|offer| offer.claimed).unwrap_or(Term(0));
        self.term().max(claimed)
    }

    /// The register has granted a term in which nobody else has the guest.
    pub(super) fn taken_back(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.offer.take().is_some() {
            actions.push(ActiveAction::FailoverRefused(FailoverRefused::NotClaimed));
        }
    }

    /// A guest that was offered to us is loaded, once.
    pub(super) fn drive_arrival(&mut self, actions: &mut Vec<ActiveAction>) {
        if let Phase::Arriving(arrival @ Arrival::Claimed) = &mut self.phase {
            *arrival = Arrival::Loading;
            actions.push(ActiveAction::LoadGuest);
        }
    }

    pub(super) fn guest_loaded(&mut self) {
        if self.phase != Phase::Arriving(Arrival::Loading) {
            self.refusals.unexpected += 1;
            return;
        }
        self.phase = Phase::Arriving(Arrival::Loaded);
        self.desk.wait_until(self.now);
        #[cfg(test)]
        if self.fault == Some(crate::model::Fault::RunsWhenLoaded) {
            self.run_arrived();
        }
    }

    /// The register says that it runs here.
    pub(super) fn run_arrived(&mut self) {
        self.phase = Phase::Unprotected;
        self.offered_by = None;
        self.resumes = true;
    }
}
