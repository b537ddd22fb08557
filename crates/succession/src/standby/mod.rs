//! The member that stands by with a copy of the guest.
//!
//! Does no input or output and reads no clock, like [`ActiveMember`](crate::ActiveMember), which it becomes
//! when it wins.

mod claiming;
mod interface;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use interface::{
    Promotion, StandbyAction, StandbyConfig, StandbyEnding, StandbyInput, StandbyMessage, StandbyState,
};

use crate::desk::Desk;
use crate::{Epoch, Mode, Refusals, Term};
use claiming::Purpose;

/// Decides what a standby may do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StandbyMember {
    config: StandbyConfig,
    phase: Phase,
    /// Never runs backwards, whatever we are told.
    now: Duration,
    desk: Desk<Purpose>,
    /// The newest term of this session.
    term: Term,
    heard: Duration,
    /// When the last heartbeat came, of which every lease of the active member is.
    heartbeat_at: Option<Duration>,
    closed_at: Option<Duration>,
    committed: Option<Epoch>,
    /// The operator says that nobody else has the virtual machine.
    forced: bool,
    /// Whether it was told that the register went back.
    went_back: bool,
    refusals: Refusals,
    #[cfg(test)]
    pub(crate) fault: Option<crate::model::Fault>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Syncing,
    /// Told that the register names us.
    Named,
    /// And it was seen there.
    Eligible,
    Claiming {
        since: Duration,
        told: bool,
        offered: bool,
        first_claim: Option<Duration>,
    },
    Live,
    Ended,
}

impl StandbyMember {
    /// A standby that has just answered the greeting.
    #[must_use]
    pub fn new(config: StandbyConfig, now: Duration) -> Self {
        Self {
            phase: Phase::Syncing,
            now,
            desk: Desk::new(),
            term: config.term,
            heard: now,
            heartbeat_at: None,
            closed_at: None,
            committed: None,
            forced: false,
            went_back: false,
            refusals: Refusals::default(),
            config,
            #[cfg(test)]
            fault: None,
        }
    }

    /// Take in what happened by `now`, and say what to do.
    pub fn handle(&mut self, now: Duration, input: StandbyInput) -> Vec<StandbyAction> {
        let mut actions = Vec::new();
        if matches!(self.phase, Phase::Live | Phase::Ended) {
            return actions;
        }
        self.now = self.now.max(now);
        let receiving = self.is_receiving();
        match input {
            StandbyInput::Tick => {}
            StandbyInput::Register(answer) => self.register_answered(answer, &mut actions),
            StandbyInput::ClaimForced => self.forced = !receiving,
            StandbyInput::LinkClosed => self.closed_at = self.closed_at.or(Some(self.now)),
            // What comes after the claim was begun is of a member that may no longer be active.
            _ if !receiving => self.refusals.unexpected += 1,
            StandbyInput::Heartbeat { term, sent } => {
                #[cfg(test)]
                if self.breaks(crate::model::Fault::TakesTermFromHeartbeat) {
                    self.term = self.term.max(term);
                }
                if self.hears(term) {
                    self.heartbeat_at = Some(self.now);
                    actions.push(StandbyAction::Send(StandbyMessage::Echo { term: self.term, sent }));
                }
            }
            StandbyInput::Traffic { term } => {
                self.hears(term);
            }
            StandbyInput::EpochVerified { term, epoch, full } => {
                self.epoch_verified(term, epoch, full, &mut actions);
            }
            StandbyInput::Protected { term } => self.protected(term),
            StandbyInput::Resign { term, last } => self.resign(term, last, &mut actions),
            StandbyInput::Bye { term } => {
                if self.hears(term) {
                    self.end(StandbyEnding::Bye, &mut actions);
                }
            }
        }
        self.notice_silence(&mut actions);
        self.drive_register(&mut actions);
        actions
    }

    /// When [`handle`](Self::handle) must be called at the latest, with [`StandbyInput::Tick`] if nothing
    /// happened.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Syncing => Some(self.patience_ends()),
            Phase::Named | Phase::Eligible => {
                let asks_at = (!self.desk.is_busy()).then(|| self.desk.not_before());
                asks_at.into_iter().chain([self.patience_ends()]).min()
            }
            Phase::Claiming { .. } => (!self.desk.is_busy()).then(|| self.desk.not_before()),
            Phase::Live | Phase::Ended => None,
        }
    }

    /// Where the member stands.
    #[must_use]
    pub fn state(&self) -> StandbyState {
        match self.phase {
            Phase::Syncing => StandbyState::Syncing,
            Phase::Named => StandbyState::Named,
            Phase::Eligible => StandbyState::Eligible,
            Phase::Claiming { .. } => StandbyState::Claiming,
            Phase::Live => StandbyState::Live,
            Phase::Ended => StandbyState::Ended,
        }
    }

    /// The newest term that the active member told.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term
    }

    /// The epoch that would be resumed.
    #[must_use]
    pub fn committed(&self) -> Option<Epoch> {
        self.committed
    }

    /// What was not believed so far.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Whether a message of `term` is of this session; if so, the active member lives.
    fn hears(&mut self, term: Term) -> bool {
        let ours = (self.config.term..=self.term).contains(&term);
        #[cfg(test)]
        let ours = ours && !(term < self.term && self.breaks(crate::model::Fault::RefusesEarlierTerms));
        if ours {
            self.heard = self.now;
        } else {
            self.refusals.wrong_term += 1;
        }
        ours
    }

    fn epoch_verified(&mut self, term: Term, epoch: Epoch, full: bool, actions: &mut Vec<StandbyAction>) {
        if !self.hears(term) {
            return;
        }
        let follows = match self.committed {
            None => full,
            Some(committed) => !full && epoch == committed.next(),
        };
        if !follows {
            self.refusals.wrong_epoch += 1;
            return;
        }
        self.committed = Some(epoch);
        actions.push(StandbyAction::Commit(epoch));
        actions.push(StandbyAction::Send(StandbyMessage::Acknowledge { term: self.term, epoch }));
    }

    fn protected(&mut self, term: Term) {
        if term <= self.term || self.committed.is_none() {
            self.refusals.wrong_term += 1;
            return;
        }
        self.term = term;
        self.heard = self.now;
        self.phase = Phase::Named;
        self.desk.wait_until(self.now);
    }

    fn is_receiving(&self) -> bool {
        matches!(self.phase, Phase::Syncing | Phase::Named | Phase::Eligible)
    }

    fn resign(&mut self, term: Term, last: Epoch, actions: &mut Vec<StandbyAction>) {
        if !self.hears(term) {
            return;
        }
        if self.committed.is_none_or(|committed| committed < last) {
            // It would lose what the active member has let out; wait for the rest, or for silence.
            self.refusals.wrong_epoch += 1;
            return;
        }
        self.claim(true, actions);
    }

    /// Until when silence is taken for a slow network.
    fn patience_ends(&self) -> Duration {
        let timing = &self.config.timing;
        let silent = match self.phase {
            Phase::Named | Phase::Eligible => self.heard + timing.standby_timeout,
            // Not protected yet: nothing is lost by waiting, and the first full copy may keep the link busy.
            _ => self.heard + timing.register_deadline,
        };
        #[cfg(test)]
        let is_named = matches!(self.phase, Phase::Named | Phase::Eligible);
        #[cfg(test)]
        let early = self.breaks(crate::model::Fault::ClaimsEarly) && is_named;
        #[cfg(test)]
        let silent = if early { self.heard } else { silent };
        #[cfg(test)]
        let silent = if is_named && self.breaks(crate::model::Fault::ClaimsWithoutMargin) {
            self.heard + timing.active_deadline
        } else {
            silent
        };
        let Some(closed_at) = self.closed_at else { return silent };
        // The claim itself ends all acknowledgements, so the active member may still live. Where output
        // leaves without them, only its lease of that keeps it quiet, so that must be over.
        let quiet = match self.heartbeat_at {
            _ if self.config.mode == Mode::Net => closed_at,
            Some(heartbeat_at) => heartbeat_at + timing.unacknowledged_timeout(),
            None => silent,
        };
        #[cfg(test)]
        let quiet = if self.breaks(crate::model::Fault::ClaimsOnceClosed) { closed_at } else { quiet };
        #[cfg(test)]
        let quiet = match self.heartbeat_at {
            Some(heartbeat_at) if self.breaks(crate::model::Fault::ClaimsWithoutMargin) => {
                heartbeat_at + timing.unacknowledged_deadline()
            }
            _ => quiet,
        };
        silent.min(quiet.max(closed_at + timing.closed_grace()))
    }

    fn notice_silence(&mut self, actions: &mut Vec<StandbyAction>) {
        if !self.is_receiving() || self.now < self.patience_ends() {
            return;
        }
        if self.committed.is_none() {
            return self.end(StandbyEnding::NeverSynced, actions);
        }
        self.claim(false, actions);
    }

    fn end(&mut self, ending: StandbyEnding, actions: &mut Vec<StandbyAction>) {
        self.phase = Phase::Ended;
        actions.push(StandbyAction::CloseLink);
        actions.push(StandbyAction::Exit(ending));
    }

    #[cfg(test)]
    fn breaks(&self, fault: crate::model::Fault) -> bool {
        self.fault == Some(fault)
    }
}
