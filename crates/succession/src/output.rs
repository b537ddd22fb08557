//! What of the guest's output may leave now.

use std::time::Duration;

use crate::Epoch;

/// What the relay does with output.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum OutputPolicy {
    /// Nothing leaves; what comes is kept.
    Closed,
    /// Kept until its epoch is released; in `net+bypass`, flows that the rules name pass.
    Hold,
    /// Leaves at once, and so does what was kept: there is no standby whose state could be resumed instead.
    Free,
}

/// How far held output may leave.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Releasable {
    Nothing,
    /// All epochs up to this one.
    Through(Epoch),
    Everything,
}

/// A member's permission to send, valid until it ends by itself: a process that was stopped and goes on finds
/// it ended, whichever of its threads runs first (R15). Plain numbers, so that a relay thread can keep a
/// copy.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Permit {
    /// What the relay does with output.
    pub policy: OutputPolicy,
    /// The highest epoch that the standby of this session has acknowledged.
    pub acknowledged: Option<Epoch>,
    /// Whether output that waits for no acknowledgement may pass while the lease lasts.
    pub passes: bool,
    /// From this moment on nothing may leave, by the monotonic clock that the member is given.
    pub lease_until: Duration,
}

impl Permit {
    /// No permission.
    pub const NONE: Self =
        Self { policy: OutputPolicy::Closed, acknowledged: None, passes: false, lease_until: Duration::ZERO };

    /// How far held output may leave at `now`.
    #[must_use]
    pub fn releasable(&self, now: Duration) -> Releasable {
        if now >= self.lease_until {
            return Releasable::Nothing;
        }
        match (self.policy, self.acknowledged) {
            (OutputPolicy::Closed, _) | (OutputPolicy::Hold, None) => Releasable::Nothing,
            (OutputPolicy::Hold, Some(epoch)) => Releasable::Through(epoch),
            (OutputPolicy::Free, _) => Releasable::Everything,
        }
    }

    /// Whether a frame that waits for no acknowledgement (no-net, bypassed, or of a member alone) may leave
    /// at `now`.
    #[must_use]
    pub fn may_pass(&self, now: Duration) -> bool {
        self.passes && self.policy != OutputPolicy::Closed && now < self.lease_until
    }
}

impl Releasable {
    /// Whether output of `epoch` may leave.
    #[must_use]
    pub fn covers(self, epoch: Epoch) -> bool {
        match self {
            Self::Nothing => false,
            Self::Through(through) => epoch <= through,
            Self::Everything => true,
        }
    }
}
