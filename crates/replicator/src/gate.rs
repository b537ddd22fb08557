//! The lease as the relay sees it: until when a frame may leave. Plain numbers, so that a process that was
//! stopped and goes on finds its permission ended, whichever of its threads runs first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stealtime_outputhold::Gate;

use crate::clock::{nanoseconds, now};

/// Shared by the conductor, which renews it, and the relay, which asks it before each frame.
#[derive(Debug, Default)]
pub struct LeaseGate {
    until_ns: AtomicU64,
}

impl LeaseGate {
    /// Take over until when the state machine permits it.
    pub fn permit(&self, until: Duration) {
        self.until_ns.store(nanoseconds(until), Ordering::Release);
    }
}

impl Gate for LeaseGate {
    fn may_release(&self) -> bool {
        nanoseconds(now()) < self.until_ns.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself() {
        let gate = LeaseGate::default();
        assert!(!gate.may_release());
        gate.permit(now() + Duration::from_secs(3600));
        assert!(gate.may_release());
        gate.permit(now());
        assert!(!gate.may_release());
    }
}
