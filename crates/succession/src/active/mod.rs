//! The member that runs the guest.
//!
//! Does no input or output and reads no clock: [`ActiveMember::handle`] is told what happened and when, and
//! says what to do. The states and their transitions are in `docs/protect-internals.md`, the rules (R..) in the
//! crate's documentation.

mod alone;
mod ending;
mod hearsay;
mod interface;
mod moving;
mod registering;
mod session;
mod starting;
#[cfg(test)]
mod tests;
mod writing;

use std::time::Duration;

pub use interface::{
    ActiveAction, ActiveConfig, ActiveEnding, ActiveInput, ActiveMessage, ActiveState, FailoverRefused,
};

use crate::desk::Desk;
use crate::{Epoch, MemberId, OutputPolicy, Permit, Promotion, Record, Refusals, Term, Version, Versioned};
use ending::Check;
use hearsay::Hearsay;
use moving::{Arrival, Offer};
use registering::Purpose;
use session::{Exposure, Session};
use writing::Writes;

/// Decides what the holder of a virtual machine may do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ActiveMember {
    config: ActiveConfig,
    phase: Phase,
    /// Never runs backwards, whatever we are told.
    now: Duration,
    desk: Desk<Purpose>,
    /// The newest record that is ours, whatever the register holds now.
    held: Option<Record>,
    /// What the register held when we last saw it: what the next swap replaces.
    seen: Option<Version>,
    /// Somebody asks whether we live, or the register went back: it is to be told again who holds what.
    owes_renewal: bool,
    /// When the newest record of ours that was granted was sent.
    written_at: Duration,
    writes: Writes,
    /// A register that does not take it is not asked again before.
    renew_not_before: Duration,
    /// Who may claim by what was asked of the register: the answer may be lost.
    named: Option<MemberId>,
    /// Whose host says that its process has ended.
    over: Option<MemberId>,
    hearsay: Option<Hearsay>,
    check: Check,
    seeking: bool,
    /// From when on the virtual machine is handed over to whoever may claim.
    leaving_from: Option<Duration>,
    /// When the last request was sent that found us to be the holder, or made us so.
    granted_at: Duration,
    session: Option<Session>,
    /// The guest was offered to a standby, and it is not settled who has it.
    offer: Option<Offer>,
    /// Who offered the guest to us, and may take it back.
    offered_by: Option<MemberId>,
    policy: OutputPolicy,
    /// The guest of a standby is still to be resumed.
    resumes: bool,
    cut: Epoch,
    refusals: Refusals,
    #[cfg(test)]
    pub(crate) fault: Option<crate::model::Fault>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Starting {
        since: Duration,
    },
    Taking {
        since: Duration,
        current: Option<Versioned>,
    },
    /// Asks the holder of what was found to show itself.
    Challenging {
        since: Duration,
        found: Versioned,
    },
    Observing {
        seen: Versioned,
        since: Duration,
    },
    Unprotected,
    Syncing,
    Naming,
    Confirming {
        since: Duration,
    },
    Protected,
    Draining {
        since: Duration,
    },
    Resigned {
        since: Duration,
    },
    Arriving(Arrival),
    Reclaiming {
        fence_at: Duration,
        fenced: bool,
    },
    Stopping {
        since: Duration,
        guest_gone: bool,
    },
    Ended,
}

impl ActiveMember {
    /// A member that wants to start a virtual machine. The first [`handle`](Self::handle) asks the register.
    #[must_use]
    pub fn new(config: ActiveConfig, now: Duration) -> Self {
        Self::at(config, now, Phase::Starting { since: now })
    }

    /// A member that goes on from a claim that was won. The first [`handle`](Self::handle) resumes its guest, or loads
    /// it where the register must be asked before it runs.
    #[must_use]
    pub fn promoted(config: ActiveConfig, promotion: Promotion, now: Duration) -> Self {
        let taking_over = promotion.held.record.taking_over;
        let phase = if taking_over { Phase::Arriving(Arrival::Claimed) } else { Phase::Unprotected };
        let mut member = Self::at(config, now, phase);
        member.resumes = !taking_over;
        member.offered_by = taking_over.then_some(promotion.from);
        member.cut = promotion.epoch;
        member.granted_at = promotion.claimed_at;
        member.written_at = promotion.claimed_at;
        member.seen = Some(promotion.held.version);
        member.held = Some(promotion.held.record);
        member
    }

    fn at(config: ActiveConfig, now: Duration, phase: Phase) -> Self {
        Self {
            config,
            phase,
            now,
            desk: Desk::new(),
            held: None,
            seen: None,
            owes_renewal: false,
            written_at: Duration::ZERO,
            writes: Writes::Taken,
            renew_not_before: Duration::ZERO,
            named: None,
            over: None,
            hearsay: None,
            check: Check::NotDue,
            seeking: false,
            leaving_from: None,
            granted_at: Duration::ZERO,
            session: None,
            offer: None,
            offered_by: None,
            policy: OutputPolicy::Discard,
            resumes: false,
            cut: Epoch(0),
            refusals: Refusals::default(),
            #[cfg(test)]
            fault: None,
        }
    }

    /// Take in what happened by `now`, and say what to do.
    pub fn handle(&mut self, now: Duration, input: ActiveInput) -> Vec<ActiveAction> {
        let mut actions = Vec::new();
        if self.phase == Phase::Ended {
            return actions;
        }
        self.now = self.now.max(now);
        // What was allowed until a moment that has passed is over before anything that came meanwhile is
        // looked at: after a stop of ten seconds, acknowledgements wait in the queue, and a new term may
        // exist (R15).
        self.expire(&mut actions);
        match input {
            ActiveInput::Tick => {}
            ActiveInput::Register(answer) => self.register_answered(answer, &mut actions),
            ActiveInput::StandbyConnected { standby } => self.standby_connected(standby, &mut actions),
            ActiveInput::LinkClosed => self.link_closed(&mut actions),
            ActiveInput::Echo { term, sent } => self.echoed(term, sent),
            ActiveInput::EpochCut { epoch, last } => {
                self.epoch_cut(epoch, last);
                #[cfg(test)]
                self.break_output_rule(&mut actions);
            }
            ActiveInput::Acknowledged { term, epoch } => self.acknowledged(term, epoch, &mut actions),
            ActiveInput::Confirmed { term } => self.confirmed(term),
            ActiveInput::StandbyOver { standby } => self.standby_over(standby),
            ActiveInput::Outranked { told_by, term, holder } => self.outranked(told_by, term, holder, &mut actions),
            ActiveInput::FailoverRequested => self.failover_requested(&mut actions),
            ActiveInput::LeaveRequested => self.leave_requested(&mut actions),
            ActiveInput::StopRequested => self.stop_requested(&mut actions),
            ActiveInput::GuestLoaded => self.guest_loaded(),
            ActiveInput::GuestGone => self.guest_gone(&mut actions),
        }
        self.drive_arrival(&mut actions);
        self.enter_unprotected(&mut actions);
        if std::mem::take(&mut self.resumes) && self.phase != Phase::Ended {
            actions.push(ActiveAction::ResumeGuest);
        }
        self.drive_leaving(&mut actions);
        self.send_heartbeat(&mut actions);
        self.drive_register(&mut actions);
        actions
    }

    /// When [`handle`](Self::handle) must be called at the latest, with [`ActiveInput::Tick`] if nothing
    /// happened.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        if self.phase == Phase::Ended {
            return None;
        }
        let moments = [self.expiry(), self.next_leaving(), self.next_heartbeat(), self.next_request()];
        moments.into_iter().flatten().min()
    }

    /// Until when output may leave, by the clock that the member is given. Changes only in
    /// [`handle`](Self::handle).
    #[must_use]
    pub fn permit(&self) -> Permit {
        match self.policy {
            OutputPolicy::Discard | OutputPolicy::Keep => Permit::default(),
            OutputPolicy::Hold | OutputPolicy::HoldFromCut | OutputPolicy::Free => {
                let unacknowledged = self.config.timing.unacknowledged_deadline();
                #[cfg(test)]
                let unacknowledged = if self.breaks(crate::model::Fault::PassesForTheWholeLease) {
                    self.config.timing.active_deadline
                } else {
                    unacknowledged
                };
                Permit { acknowledged_until: self.lease_until(), unacknowledged_until: self.lease_of(unacknowledged) }
            }
        }
    }

    /// Whether the engine may cut another epoch: the bound on what is not acknowledged.
    #[must_use]
    pub fn may_cut(&self) -> bool {
        let Some(session) = &self.session else { return false };
        // The full copy is alone on its way: those after it cannot be told from it if it fails.
        let bound = if session.acknowledged.is_none() { 1 } else { self.config.epochs_in_flight };
        let runs = matches!(self.phase, Phase::Syncing | Phase::Naming | Phase::Confirming { .. } | Phase::Protected);
        runs && self.cut.0 - session.acknowledged_or_before().0 < bound
    }

    /// Where the member stands.
    #[must_use]
    pub fn state(&self) -> ActiveState {
        match &self.phase {
            Phase::Starting { .. } | Phase::Taking { .. } => ActiveState::Starting,
            Phase::Challenging { .. } | Phase::Observing { .. } => ActiveState::Observing,
            Phase::Unprotected => ActiveState::Unprotected,
            Phase::Syncing => ActiveState::Syncing,
            Phase::Naming => ActiveState::Naming,
            Phase::Confirming { .. } => ActiveState::Confirming,
            Phase::Protected => ActiveState::Protected,
            Phase::Draining { .. } => ActiveState::Draining,
            Phase::Resigned { .. } => ActiveState::Resigned,
            Phase::Arriving(_) => ActiveState::Arriving,
            Phase::Reclaiming { fenced: false, .. } => ActiveState::Reclaiming,
            Phase::Reclaiming { fenced: true, .. } => ActiveState::Fenced,
            Phase::Stopping { .. } => ActiveState::Stopping,
            Phase::Ended => ActiveState::Ended,
        }
    }

    /// The term that this member holds, or last held.
    #[must_use]
    pub fn term(&self) -> Term {
        self.held.as_ref().map_or(Term(0), |held| held.term)
    }

    /// The newest record that is ours.
    #[must_use]
    pub fn held(&self) -> Option<&Record> {
        self.held.as_ref()
    }

    #[must_use]
    pub fn cut(&self) -> Epoch {
        self.cut
    }

    /// The last epoch that the connected standby acknowledged.
    #[must_use]
    pub fn acknowledged_epoch(&self) -> Option<Epoch> {
        self.session.as_ref().and_then(|session| session.acknowledged)
    }

    /// What was not believed so far.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Until when the member may go on without asking the register.
    fn lease_until(&self) -> Duration {
        self.lease_of(self.config.timing.active_deadline)
    }

    /// The end of a lease that lasts for `deadline` after a heartbeat that came back was sent.
    fn lease_of(&self, deadline: Duration) -> Duration {
        let granted = self.granted_at + self.config.timing.register_deadline;
        let lease = match &self.session {
            None => granted,
            Some(session) => {
                let echoed = session.echoed_sent + deadline;
                match session.exposure {
                    Exposure::Unnamed => granted,
                    Exposure::Asked => granted.min(echoed),
                    Exposure::Named => echoed,
                }
            }
        };
        #[cfg(test)]
        let lease = if self.breaks(crate::model::Fault::IgnoresLease) { Duration::MAX } else { lease };
        lease
    }

    /// The moment at which the present phase ends by itself.
    fn expiry(&self) -> Option<Duration> {
        let timing = &self.config.timing;
        match &self.phase {
            Phase::Starting { .. }
            | Phase::Taking { .. }
            | Phase::Challenging { .. }
            | Phase::Observing { .. }
            | Phase::Arriving(_)
            | Phase::Ended => None,
            Phase::Unprotected | Phase::Naming | Phase::Protected => Some(self.lease_until()),
            Phase::Syncing => {
                let patience = self.session.as_ref().map(|session| session.echoed_sent + timing.register_deadline);
                patience.into_iter().chain([self.lease_until()]).min()
            }
            Phase::Confirming { since } | Phase::Draining { since } => {
                Some(self.lease_until().min(*since + timing.register_deadline))
            }
            Phase::Resigned { since } | Phase::Stopping { since, .. } => Some(*since + timing.register_deadline),
            Phase::Reclaiming { fence_at, fenced, .. } => (!fenced).then_some(*fence_at),
        }
    }

    fn expire(&mut self, actions: &mut Vec<ActiveAction>) {
        if self.expiry().is_none_or(|moment| self.now < moment) {
            return;
        }
        let lapsed = self.now >= self.lease_until();
        match &mut self.phase {
            Phase::Starting { .. }
            | Phase::Taking { .. }
            | Phase::Challenging { .. }
            | Phase::Observing { .. }
            | Phase::Arriving(_)
            | Phase::Ended => {}
            Phase::Syncing if !lapsed => self.drop_standby(actions),
            Phase::Draining { .. } if !lapsed => self.cancel_failover(actions),
            Phase::Unprotected
            | Phase::Syncing
            | Phase::Naming
            | Phase::Confirming { .. }
            | Phase::Protected
            | Phase::Draining { .. }
            | Phase::Resigned { .. } => self.reclaim(actions),
            Phase::Reclaiming { fenced, .. } => {
                *fenced = true;
                actions.push(ActiveAction::StopGuest);
            }
            Phase::Stopping { .. } => self.stop_unanswered(actions),
        }
    }

    fn set_policy(&mut self, policy: OutputPolicy, actions: &mut Vec<ActiveAction>) {
        if self.policy != policy {
            self.policy = policy;
            actions.push(ActiveAction::Output(policy));
        }
    }

    #[cfg(test)]
    fn breaks(&self, fault: crate::model::Fault) -> bool {
        self.fault == Some(fault)
    }
}
