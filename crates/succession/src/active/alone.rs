//! Going on alone after the standby was lost: by the register's word, or by that of the standby's host.
//!
//! A standby that is named may claim as long as its process lives. A closed link does not tell that it has ended; the
//! daemon of its host can. Then nobody is left who could claim, and a register that takes no writes is enough: looking
//! into it tells whether somebody challenges us.

use super::{ActiveAction, ActiveMember, Phase};
use crate::MemberId;

impl ActiveMember {
    /// Who may claim by what was asked of the register, if anybody.
    #[must_use]
    pub fn may_claim(&self) -> Option<&MemberId> {
        self.named.as_ref()
    }

    pub(super) fn standby_over(&mut self, standby: MemberId) {
        if self.named.as_ref() != Some(&standby) {
            self.refusals.unexpected += 1;
            return;
        }
        self.over = Some(standby);
        if matches!(self.phase, Phase::Reclaiming { .. }) {
            self.desk.wait_until(self.now);
        }
    }

    /// Whether nobody but us can change the record, unless they challenge us first.
    pub(super) fn is_alone(&self) -> bool {
        self.named.is_none() || self.named == self.over
    }

    /// Nobody else can have the guest.
    pub(super) fn go_on_alone(&mut self, actions: &mut Vec<ActiveAction>) {
        if let Phase::Reclaiming { fenced: true, .. } = self.phase {
            actions.push(ActiveAction::ContinueGuest);
        }
        self.phase = Phase::Unprotected;
        self.taken_back(actions);
    }
}
