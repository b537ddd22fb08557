//! The lease as the relay sees it: until when a frame may leave. Plain numbers, so that a process that was
//! stopped and goes on finds its permission ended, whichever of its threads runs first.

use std::sync::atomic::{AtomicU64, Ordering};

use stealtime_outputhold::Gate;
use stealtime_succession::Permit;

use crate::clock::{nanoseconds, now};

/// Shared by the conductor, which renews it, and the relay, which asks it before each frame.
#[derive(Debug, Default)]
pub struct LeaseGate {
    until_ns: AtomicU64,
}

impl LeaseGate {
    /// Take over what the state machine permits.
    pub fn publish(&self, permit: &Permit) {
        self.until_ns.store(nanoseconds(permit.lease_until), Ordering::Release);
    }

    /// Let nothing out any more.
    pub fn shut(&self) {
        self.until_ns.store(0, Ordering::Release);
    }
}

impl Gate for LeaseGate {
    fn may_release(&self) -> bool {
        nanoseconds(now()) < self.until_ns.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_ends_by_itself() {
        let gate = LeaseGate::default();
        assert!(!gate.may_release());
        gate.publish(&Permit { lease_until: now() + Duration::from_secs(3600), ..Permit::NONE });
        assert!(gate.may_release());
        gate.publish(&Permit { lease_until: now(), ..Permit::NONE });
        assert!(!gate.may_release());
    }
}
