//! What must hold at every moment.

use super::world::{Role, World};
use crate::{Epoch, Mode, OutputPolicy, Record, Releasable};

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
            if process.guest.is_none() {
                continue;
            }
            let (permit, now) = (member.permit(), self.now(index));
            let bypasses = self.mode == Mode::NetBypass && permit.may_pass(now);
            // A stopped process counts: it would find its permission as it left it.
            if bypasses || permit.releasable(now) == Releasable::Everything {
                free.push(index);
            }
        }
        must!(free.len() < 2, "at tick {} the processes {free:?} may all send freely", self.time);
        Ok(())
    }

    /// Before a frame leaves: what it shows must be in the state that would be resumed.
    pub fn check_release(&self, index: usize, epoch: Epoch, value: u64) -> Result<(), Violation> {
        let Role::Active(member) = &self.processes[index].role else { return Ok(()) };
        if let Some((successor, resumed)) = self.resumed.filter(|(successor, _)| *successor > index) {
            must!(
                self.mode == Mode::Net || self.mode == Mode::NetBypass,
                "process {index} sent after process {successor} had gone live"
            );
            must!(value <= resumed, "value {value} left after {successor} had resumed {resumed}");
        }
        if member.permit().policy == OutputPolicy::Hold {
            let copy = self
                .links
                .iter()
                .rev()
                .find(|link| link.active == index)
                .and_then(|link| self.processes[link.standby].copy);
            must!(
                copy.is_some_and(|(committed, held)| epoch <= committed && value <= held),
                "value {value} of {epoch} left, but the standby would resume {copy:?}"
            );
        }
        Ok(())
    }

    /// Before a record is replaced.
    pub fn check_swap(&self, by: usize, wanted: &Record) -> Result<(), Violation> {
        let me = &self.processes[by].me;
        // What a register that went back has forgotten was granted all the same.
        if let Some(newest) = self.granted.last() {
            let grants_anew = wanted.term > newest.term;
            let repeats = wanted.term == newest.term && wanted.holder == newest.holder;
            must!(grants_anew || repeats, "{wanted:?} after {newest:?} was granted");
            let claims = newest.holder.is_some() && newest.holder.as_ref() != Some(me);
            if claims && self.processes[by].copy.is_some() {
                must!(newest.standby.as_ref() == Some(me), "{me} claimed, but {newest:?} does not name it");
            }
        }
        let Some(current) = self.register.as_ref().map(|current| &current.record) else { return Ok(()) };
        let same = current.holder == wanted.holder && current.standby == wanted.standby;
        must!(
            wanted.term > current.term || same && wanted.term == current.term,
            "{wanted:?} after {current:?}"
        );
        if let Some(standby) = &wanted.standby {
            let named = self.processes.iter().find(|process| process.me == *standby);
            must!(
                named.is_some_and(|named| named.copy.is_some()),
                "{standby} is named without a complete copy"
            );
        }
        Ok(())
    }

    /// Before a standby resumes its copy.
    pub fn check_resume(&self, index: usize, epoch: Epoch) -> Result<(), Violation> {
        let copy = self.processes[index].copy;
        must!(
            copy.is_some_and(|(committed, _)| committed == epoch),
            "{epoch} is resumed, {copy:?} is committed"
        );
        let holder = self.granted.last().and_then(|newest| newest.holder.as_ref());
        let superseded = self.processes.iter().skip(index + 1).any(|later| holder == Some(&later.me));
        must!(
            holder == Some(&self.processes[index].me) || superseded,
            "process {index} went live, the register has {holder:?}"
        );
        if self.mode.gates_on_ack() {
            let value = copy.map_or(0, |(_, value)| value);
            must!(value >= self.seen, "a client saw {}, but {value} is resumed", self.seen);
        }
        Ok(())
    }
}
