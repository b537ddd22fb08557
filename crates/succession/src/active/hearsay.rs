//! What other hosts tell of the virtual machine, when they are asked to stand by for it.
//!
//! A host that runs the machine itself in a later term is believed: whatever our register holds, there must not be two.
//! What a host has only read in its register, of a third one, is hearsay: that register may be another one than ours, a
//! wrong one. So ours is looked into at once. If it says the same, that ends us as any look does; if it does not, that
//! host's register is another one, and the host is left alone.

use super::{ActiveAction, ActiveMember, Phase};
use crate::{MemberId, Record, Term};

/// What was told, until our own register has answered.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Hearsay {
    told_by: String,
    term: Term,
    /// Whether our register was asked since.
    is_asked: bool,
}

impl ActiveMember {
    /// `told_by` refuses to stand by, since `holder` has the virtual machine in a later term.
    pub(super) fn outranked(&mut self, told_by: String, term: Term, holder: MemberId, actions: &mut Vec<ActiveAction>) {
        #[cfg(test)]
        if self.breaks(crate::model::Fault::IgnoresLaterTerms) {
            return;
        }
        if term <= self.newest_term() || holder == self.config.me {
            return;
        }
        let is_first_hand = holder.host() == told_by;
        #[cfg(test)]
        let is_first_hand = is_first_hand || self.breaks(crate::model::Fault::BelievesHearsay);
        if is_first_hand {
            return self.superseded(&Record::alone(term, holder), actions);
        }
        #[cfg(test)]
        if self.breaks(crate::model::Fault::IgnoresHearsay) {
            return;
        }
        if !self.desk.is_busy() {
            self.desk.wait_until(self.now);
        }
        self.hearsay = Some(Hearsay { told_by, term, is_asked: false });
    }

    /// Something is asked of our register.
    pub(super) fn note_asked(&mut self) {
        if let Some(hearsay) = &mut self.hearsay {
            hearsay.is_asked = true;
        }
    }

    /// Our register has given an answer, or has not, and did not end us.
    pub(super) fn settle_hearsay(&mut self, is_answer: bool, actions: &mut Vec<ActiveAction>) {
        let Some(hearsay) = self.hearsay.take_if(|_| self.phase != Phase::Ended) else { return };
        if hearsay.is_asked && is_answer {
            actions.push(ActiveAction::LeaveAlone { host: hearsay.told_by, found: hearsay.term });
            return;
        }
        if is_answer {
            // It was on its way when we heard.
            self.desk.wait_until(self.now);
        }
        self.hearsay = Some(Hearsay { is_asked: false, ..hearsay });
    }
}
