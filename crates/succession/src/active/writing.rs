//! Whether the register takes writes: a standby is looked for, and named, only where it could be.
//!
//! An etcd that is full can be read and takes no writes, which is enough for a guest that is alone. Asking such a
//! register to name a standby would cost that guest what it has: it may have been named for all we know, so nothing may
//! leave until the register, or the host of that standby, says that it cannot claim. So after a swap that came to
//! nothing the record is written again now and then, and only when that was won somebody is looked for. That proves
//! nothing of a swap whose answer was lost, which may be applied later as before: see [`alone`](super::alone).

use super::session::Exposure;
use super::{ActiveAction, ActiveMember, Phase};
use crate::Mode;

/// What the last swaps tell of the register.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Writes {
    Taken,
    /// The last one was long ago: it is tried while a standby is copied to, before that is to be named.
    Unproven,
    /// The last one was refused, or had no answer.
    Refused,
}

impl ActiveMember {
    /// A swap came to nothing. The register may be readable all the same, which is enough to go on.
    pub(super) fn write_failed(&mut self, actions: &mut Vec<ActiveAction>) {
        self.renew_not_before = self.now + self.config.timing.register_deadline;
        if matches!(self.phase, Phase::Stopping { .. }) {
            self.check_is_due();
        }
        let is_news = self.may_name();
        self.writes = Writes::Refused;
        if self.may_name() {
            return;
        }
        // Also while the lease is lost, when whoever looked before does so still.
        if is_news && self.config.mode != Mode::Off && !self.is_starting() {
            actions.push(ActiveAction::CeaseSeeking);
        }
        let is_unasked = self.session.as_ref().is_some_and(|session| session.exposure == Exposure::Unnamed);
        if self.phase == Phase::Naming && is_unasked {
            self.drop_standby(actions);
        }
    }

    /// A swap was won; tells whether somebody is to be looked for now who was not before.
    pub(super) fn write_succeeded(&mut self) -> bool {
        let could_name = self.may_name();
        self.writes = Writes::Taken;
        !could_name
    }

    /// Whether a standby could be named, as far as it is known.
    #[must_use]
    pub fn may_name(&self) -> bool {
        #[cfg(test)]
        if self.breaks(crate::model::Fault::NamesUnproven) {
            return true;
        }
        self.writes != Writes::Refused
    }

    /// A standby is connected: by when it has its copy it shall be known whether it can be named.
    pub(super) fn prove_writes(&mut self) {
        #[cfg(test)]
        if self.breaks(crate::model::Fault::NamesUnproven) {
            return;
        }
        if self.now >= self.written_at + self.config.timing.register_deadline {
            self.writes = Writes::Unproven;
            self.desk.wait_until(self.now);
        }
    }
}
