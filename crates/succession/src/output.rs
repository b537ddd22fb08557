//! What of the guest's output may leave: what the state machine says of it, and the rule that follows.

use crate::Epoch;

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
