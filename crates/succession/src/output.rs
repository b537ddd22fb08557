//! What of the guest's output may leave: what the state machine says of it, and the rule that follows.

use std::time::Duration;

use crate::Epoch;

/// From when on nothing may leave, by the clock of the member. It needs nobody to end: a process that was
/// stopped and goes on finds it over, whichever of its threads runs first (R15).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Permit {
    /// Of what the standby has acknowledged.
    pub acknowledged_until: Duration,
    /// Of what nobody has acknowledged: all that a guest sends freely, and what rules let pass. Whoever takes
    /// over waits for the end of it, so it is the shorter one.
    pub unacknowledged_until: Duration,
}

impl Permit {
    /// Until when output of this standing may leave.
    #[must_use]
    pub fn until(&self, standing: Standing) -> Duration {
        match standing {
            Standing::Acknowledged => self.acknowledged_until,
            Standing::Unacknowledged => self.unacknowledged_until,
        }
    }
}

/// What stands behind output that may leave.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Standing {
    /// The standby holds the epoch that made it.
    Acknowledged,
    /// Nobody else holds what made it.
    Unacknowledged,
}

/// What is done with output. An active member's state machine says it, the relay does it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum OutputPolicy {
    /// Nothing leaves, and what is held or comes is dropped: a member that is not active, or no longer.
    Discard,
    /// Nothing leaves; what comes is kept.
    Keep,
    /// Kept until its epoch is acknowledged; in `net+bypass`, flows that the rules name pass.
    Hold,
    /// `Free` until the output is cut, and `Hold` from there on. A guest stands while its output is cut, so
    /// that what it sends after its first epoch is held although the member hears of that epoch later.
    HoldFromCut,
    /// Leaves at once, and so does what was kept: there is no standby whose state could be resumed instead.
    Free,
}

/// The output rule of `VMware` FT (Scales et al. 2010) and Remus (Cully et al. 2008): output leaves after the
/// epoch that produced it is acknowledged. The relay asks it of each frame, and so does the model that the
/// state machines are checked in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OutputRule {
    policy: OutputPolicy,
    last_cut: Epoch,
    acknowledged: Epoch,
}

impl OutputRule {
    /// For output that was never cut.
    #[must_use]
    pub fn new(policy: OutputPolicy) -> Self {
        Self { policy, last_cut: Epoch(0), acknowledged: Epoch(0) }
    }

    pub fn set_policy(&mut self, policy: OutputPolicy) {
        self.policy = policy;
    }

    /// The output up to here is of `epoch`, which is above that of the last cut.
    pub fn cut(&mut self, epoch: Epoch) {
        self.last_cut = epoch;
        if self.policy == OutputPolicy::HoldFromCut {
            self.policy = OutputPolicy::Hold;
        }
    }

    /// The standby holds all of `through` and of the epochs before it. An older one changes nothing.
    pub fn acknowledge(&mut self, through: Epoch) {
        self.acknowledged = self.acknowledged.max(through);
    }

    /// Whether output of `epoch` (none: of what was sent since the last cut) may leave.
    #[must_use]
    pub fn may_leave(&self, epoch: Option<Epoch>) -> bool {
        match self.policy {
            OutputPolicy::Discard | OutputPolicy::Keep => false,
            OutputPolicy::Hold => epoch.is_some_and(|epoch| epoch <= self.acknowledged),
            OutputPolicy::HoldFromCut | OutputPolicy::Free => true,
        }
    }

    /// What stands behind output that may leave in its order: what a rule lets pass does not.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.policy {
            OutputPolicy::Hold => Standing::Acknowledged,
            OutputPolicy::Discard | OutputPolicy::Keep | OutputPolicy::HoldFromCut | OutputPolicy::Free => {
                Standing::Unacknowledged
            }
        }
    }

    #[must_use]
    pub fn policy(&self) -> OutputPolicy {
        self.policy
    }

    /// The epoch of the last cut; epoch 0 before the first.
    #[must_use]
    pub fn last_cut(&self) -> Epoch {
        self.last_cut
    }

    /// The highest acknowledged epoch; epoch 0 before the first.
    #[must_use]
    pub fn acknowledged(&self) -> Epoch {
        self.acknowledged
    }
}
