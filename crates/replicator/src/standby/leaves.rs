//! A standby whose host is to go down: it is to be replaced, and takes no guest that could stay where it runs.

use std::time::Duration;

use stealtime_shipping::{Leaving, Message, ProtocolVersion, Refusal as ShippingRefusal};

use super::{End, Standby};
use crate::clock::now;
use crate::leaving;

/// How often it is looked at, at the most: whenever something else happens, as with each heartbeat.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is known of it.
#[derive(Default)]
pub(super) struct LeaveWatching {
    looked_at: Duration,
    /// What the active member was told.
    told: bool,
}

impl Standby {
    /// Have the active member look for another standby when this host is to go down. One that has no copy yet ends at
    /// once: nobody loses anything.
    pub(super) fn look_whether_it_leaves(&mut self) {
        if self.ending.is_some() || now() < self.leaves.looked_at + LOOK_EVERY {
            return;
        }
        self.leaves.looked_at = now();
        let is_leaving = self.is_leaving();
        if is_leaving && self.member.committed().is_none() {
            self.ending = Some(End::GaveWay(Box::new(self.leaving())));
        } else if is_leaving != self.leaves.told && self.may_say_so() {
            self.leaves.told = is_leaving;
            self.pass_on(&Message::Leaving(Leaving { term: self.member.term(), is_leaving }));
        }
    }

    /// Whether a guest that the active member offers is not to be claimed, as it would go down with this host; that one
    /// is told, and takes its guest back. If it has died by then, or what it offered was a guest that had crashed, this
    /// standby claims when the link closes: what it holds may be all that is left.
    pub(super) fn refuses_offer(&self) -> bool {
        let is_leaving = self.is_leaving();
        if is_leaving {
            self.pass_on(&Message::Refuse { term: self.member.term(), refusal: self.leaving() });
        }
        is_leaving
    }

    /// Whether this host is to go down.
    pub(super) fn is_leaving(&self) -> bool {
        leaving::is_leaving(self.spec.host_folder())
    }

    /// Why it takes no guest then.
    pub(super) fn leaving(&self) -> ShippingRefusal {
        ShippingRefusal::Leaving { host: self.spec.host.clone() }
    }

    /// Whether the active member knows what it means. Another one keeps this standby until the host is gone.
    fn may_say_so(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.version() >= ProtocolVersion::NEWEST)
    }
}
