//! The leases as the relay sees them: until when a frame may leave. Plain numbers, so that a process that was
//! stopped and goes on finds its permission ended, whichever of its threads runs first.

use std::sync::atomic::{AtomicU64, Ordering};

use stealtime_outputhold::Gate;
use stealtime_succession::{Permit, Standing};

use crate::clock::{nanoseconds, now};

/// Shared by the conductor, which renews it, and the relay, which asks it before each frame.
#[derive(Debug, Default)]
pub struct LeaseGate {
    acknowledged_until_ns: AtomicU64,
    unacknowledged_until_ns: AtomicU64,
}

impl LeaseGate {
    /// Take over until when the state machine permits it.
    pub fn permit(&self, permit: Permit) {
        self.of(Standing::Acknowledged).store(nanoseconds(permit.acknowledged_until), Ordering::Release);
        self.of(Standing::Unacknowledged).store(nanoseconds(permit.unacknowledged_until), Ordering::Release);
    }

    fn of(&self, standing: Standing) -> &AtomicU64 {
        match standing {
            Standing::Acknowledged => &self.acknowledged_until_ns,
            Standing::Unacknowledged => &self.unacknowledged_until_ns,
        }
    }
}

impl Gate for LeaseGate {
    fn may_release(&self, standing: Standing) -> bool {
        nanoseconds(now()) < self.of(standing).load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_ends_by_itself() {
        let gate = LeaseGate::default();
        let permitted = || [Standing::Acknowledged, Standing::Unacknowledged].map(|it| gate.may_release(it));
        assert_eq!(permitted(), [false, false]);
        let later = now() + Duration::from_secs(3600);
        gate.permit(Permit { acknowledged_until: later, unacknowledged_until: later });
        assert_eq!(permitted(), [true, true]);
        gate.permit(Permit { acknowledged_until: later, unacknowledged_until: now() });
        assert_eq!(permitted(), [true, false]);
        gate.permit(Permit { acknowledged_until: now(), unacknowledged_until: now() });
        assert_eq!(permitted(), [false, false]);
    }
}
