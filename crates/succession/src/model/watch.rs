//! What must hold at every moment.

use super::world::{Role, World};
use crate::{ActiveState, MemberId, Mode, OutputPolicy, Promotion, Record, RegisterCall};

/// A property that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

macro_rules! must {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::model::watch::Violation(format!($($message)+)));
        }
    };
}
pub(super) use must;

impl World {
    /// At no moment may two members let out what waits for no acknowledgement.
    pub fn check_exclusion(&self) -> Result<(), Violation> {
        let mut free = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            let Role::Active(member) = &process.role else { continue };
            let Some(guest) = &process.guest else { continue };
            // The last cut of a guest that stands took all that it sent. What passes by a rule passed then.
            let bypasses = self.mode == Mode::NetBypass
                && process.output.policy() == OutputPolicy::Hold
                && (guest.running || guest.last_wanted);
            // A stopped process counts: it would find its permission as it left it.
            if self.now(index) < member.permit().unacknowledged_until && (bypasses || process.output.may_leave(None)) {
                free.push(index);
            }
        }
        must!(free.len() < 2, "at tick {} the processes {free:?} may all send freely", self.time);
        Ok(())
    }

    /// At no moment may a standby take over that does not hold all that a client saw, in modes that hold
    /// output; and where there is none, nothing is held.
    pub fn check_output(&self) -> Result<(), Violation> {
        for process in &self.processes {
            let is_alone = matches!(&process.role, Role::Active(member) if member.state() == ActiveState::Unprotected);
            let policy = process.output.policy();
            must!(!is_alone || policy == OutputPolicy::Free, "{} is alone, and {policy:?}", process.me);
            let may_claim = matches!(process.role, Role::Standby(_)) && self.may_claim(&process.me);
            if let (true, true, Some(copy)) = (may_claim, self.mode.gates_on_ack(), process.copy) {
                must!(copy.1 >= self.seen, "a client saw {}, but the standby would resume {copy:?}", self.seen);
            }
        }
        Ok(())
    }

    /// Whether the register names a member, or will if what is on its way arrives.
    fn may_claim(&self, standby: &MemberId) -> bool {
        let version = self.register.as_ref().map(|current| current.version);
        let waiting = self.processes.iter().filter_map(|process| process.request.as_ref());
        let asked =
            waiting.chain(self.late.iter().map(|(_, request)| request)).filter_map(|request| match &request.call {
                RegisterCall::Swap { expected, wanted } if *expected == version => Some(wanted),
                _ => None,
            });
        asked.chain(self.granted.last()).any(|record| record.standby.as_ref() == Some(standby))
    }

    /// Before a frame leaves: the guest that it comes from must be the one that runs.
    pub fn check_release(&self, index: usize, value: u64) -> Result<(), Violation> {
        if let Some((successor, resumed)) = self.resumed.filter(|(successor, _)| *successor > index) {
            must!(
                self.mode == Mode::Net || self.mode == Mode::NetBypass,
                "process {index} sent after process {successor} had gone live"
            );
            must!(value <= resumed, "value {value} left after {successor} had resumed {resumed}");
        }
        Ok(())
    }

    /// Who held the virtual machine before a claim.
    fn offered(&self, claim: &Record) -> Option<&MemberId> {
        let before = self.granted.iter().rev().skip_while(|record| record.term >= claim.term);
        before.map(|record| record.holder.as_ref()).next().flatten()
    }

    /// Before a record is replaced.
    pub fn check_swap(&self, by: usize, wanted: &Record) -> Result<(), Violation> {
        let me = &self.processes[by].me;
        // What a register that went back has forgotten was granted all the same.
        if let Some(newest) = self.granted.last() {
            let grants_anew = wanted.term > newest.term;
            let repeats = wanted.term == newest.term && wanted.holder == newest.holder;
            // It does not know of that term, whose answer was lost before the register went back: nobody has it then.
            let ends = wanted.term == newest.term && wanted.holder.is_none() && newest.holder.as_ref() == Some(me);
            must!(grants_anew || repeats || ends, "{wanted:?} after {newest:?} was granted");
            let claims = newest.holder.is_some() && newest.holder.as_ref() != Some(me);
            let takes_back = newest.taking_over && self.offered(newest).is_some_and(|before| before == me);
            must!(takes_back || !claims || wanted.holder.is_some(), "{me} gives up what {newest:?} has");
            if claims && !takes_back && self.processes[by].copy.is_some() {
                must!(newest.standby.as_ref() == Some(me), "{me} claimed, but {newest:?} does not name it");
            }
        }
        let Some(current) = self.register.as_ref().map(|current| &current.record) else { return Ok(()) };
        let same = current.holder == wanted.holder && current.standby == wanted.standby;
        must!(wanted.term > current.term || same && wanted.term == current.term, "{wanted:?} after {current:?}");
        if let Some(standby) = &wanted.standby {
            let named = self.processes.iter().find(|process| process.me == *standby);
            must!(named.is_some_and(|named| named.copy.is_some()), "{standby} is named without a complete copy");
        }
        Ok(())
    }

    /// Before the end of the virtual machine is told.
    pub fn check_end(&self, index: usize) -> Result<(), Violation> {
        let me = &self.processes[index].me;
        let holder = self.granted.last().and_then(|newest| newest.holder.as_ref());
        must!(holder.is_none_or(|holder| holder == me), "{me} tells the end of what {holder:?} has");
        Ok(())
    }

    /// Before a guest that stood goes on.
    pub fn check_continue(&self, index: usize) -> Result<(), Violation> {
        let me = &self.processes[index].me;
        let holds = self.granted.last().is_some_and(|newest| newest.holder.as_ref() == Some(me));
        must!(!(self.ended && holds), "{me} goes on with the guest after its end was told");
        Ok(())
    }

    /// Before a guest that was taken over runs.
    pub fn check_run(&self, index: usize) -> Result<(), Violation> {
        let me = &self.processes[index].me;
        must!(!self.ended, "{me} runs the guest after its end was told");
        // Who holds it no more has not heard of that yet, and its lease is watched at every step.
        let Some(held) = self.granted.last().filter(|newest| newest.holder.as_ref() == Some(me)) else { return Ok(()) };
        must!(!held.taking_over, "{me} runs the guest while it may still be taken back");
        let value = self.processes[index].copy.map_or(0, |(_, value)| value);
        let keeps = !self.mode.gates_on_ack() || value >= self.seen;
        must!(keeps, "a client saw {}, but {value} is resumed", self.seen);
        Ok(())
    }

    /// Before a standby goes on with its copy.
    pub fn check_resume(&self, index: usize, promotion: &Promotion) -> Result<(), Violation> {
        let (copy, epoch) = (self.processes[index].copy, promotion.epoch);
        must!(copy.is_some_and(|(committed, _)| committed == epoch), "{epoch} is resumed, {copy:?} is committed");
        if promotion.held.record.taking_over {
            // It may have been taken back meanwhile: see `check_run`.
            return Ok(());
        }
        let holder = self.granted.last().and_then(|newest| newest.holder.as_ref());
        let superseded = self.processes.iter().skip(index + 1).any(|later| holder == Some(&later.me));
        must!(
            holder == Some(&self.processes[index].me) || superseded,
            "process {index} went live, the register has {holder:?}"
        );
        Ok(())
    }
}
