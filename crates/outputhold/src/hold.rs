//! The queue of held output, by epoch.
//!
//! The rules it keeps: no frame leaves before the epoch that produced it was acknowledged (the output rule of
//! `VMware` FT, Scales et al. 2010, and of Remus, Cully et al. 2008); epochs leave whole and in their order,
//! frames in the order in which the guest sent them; an acknowledgement of an epoch acknowledges all before
//! it. Unlike Linux' `sch_plug`, which knows one unacknowledged epoch and drops what does not fit, any number
//! of epochs may wait here, and a full queue asks its user to stop reading.

use std::collections::VecDeque;
use std::time::Duration;

use stealtime_succession::{Epoch, OutputPolicy, OutputRule, Standing};
use thiserror::Error;

use crate::bypass::BypassRules;
use crate::statistics::{HoldCounters, HoldStatistics};

/// Batches whose memory is kept for the next epochs, so that a steady flow allocates nothing.
const SPARE_BATCHES: usize = 8;

/// Memory that a spare batch may keep; what a burst needed beyond it is given back.
const SPARE_BATCH_BYTES: usize = 1 << 20;

/// How much may be held before the guest's output is no longer read.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct HoldLimits {
    /// Bytes of all held frames.
    pub bytes: usize,
    /// Number of held frames.
    pub frames: usize,
}

impl Default for HoldLimits {
    /// 64 MiB: half a second of a full 1 Gbit/s; 65,536 frames.
    fn default() -> Self {
        Self { bytes: 64 << 20, frames: 1 << 16 }
    }
}

/// What is to be done with a frame of the guest.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is in the queue.
    Held,
    /// It may leave now. It is not in the queue: what cannot be written must be given to [`Hold::keep`].
    Passes,
    /// It is gone, as the policy is [`OutputPolicy::Discard`].
    Dropped,
}

/// What became of a frame that was offered for release.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    Delivered,
    /// It can never leave (the device refuses such a frame); the next one is taken.
    Refused,
    /// It cannot leave now: it stays, and so do all that follow.
    Blocked,
}

/// How far a release went.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// This epoch has left completely.
    Finished(ReleasedEpoch),
    /// A frame could not leave now.
    Blocked,
    /// Nothing more may leave.
    Idle,
}

/// An epoch whose output has left.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ReleasedEpoch {
    pub epoch: Epoch,
    pub frames: usize,
    pub bytes: usize,
    /// From its cut to the moment its last frame left.
    pub since_cut: Duration,
}

/// What a cut closed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The epoch that the frames now belong to.
    pub epoch: Epoch,
    pub frames: usize,
    pub bytes: usize,
}

/// A call that would break the order of epochs.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum HoldError {
    /// Epochs only rise.
    #[error("the output was already cut at {last}, so it cannot be cut at {wanted}")]
    CutOutOfOrder { last: Epoch, wanted: Epoch },
    /// No member can hold what was not yet captured.
    #[error("{acknowledged} was acknowledged, but the output was cut at {last} at the latest")]
    AcknowledgedBeforeCut { last: Epoch, acknowledged: Epoch },
}

#[derive(Copy, Clone, Debug)]
struct HeldFrame {
    length: usize,
    accepted: Duration,
}

/// The frames of one epoch; the last one in the queue has no number yet.
#[derive(Debug, Default)]
struct Batch {
    closed: Option<(Epoch, Duration)>,
    content: Vec<u8>,
    frames: Vec<HeldFrame>,
    next_frame: usize,
    next_byte: usize,
    delivered_frames: usize,
    delivered_bytes: usize,
}

impl Batch {
    fn push(&mut self, frame: &[u8], now: Duration) {
        self.content.extend_from_slice(frame);
        self.frames.push(HeldFrame { length: frame.len(), accepted: now });
    }

    fn front(&self) -> Option<(HeldFrame, &[u8])> {
        let held = *self.frames.get(self.next_frame)?;
        Some((held, &self.content[self.next_byte..self.next_byte + held.length]))
    }

    fn step(&mut self, held: HeldFrame) {
        self.next_frame += 1;
        self.next_byte += held.length;
    }

    fn epoch(&self) -> Option<Epoch> {
        self.closed.map(|(epoch, _)| epoch)
    }

    fn clear(&mut self) {
        self.content.clear();
        self.content.shrink_to(SPARE_BATCH_BYTES);
        self.frames.clear();
        self.frames.shrink_to(SPARE_BATCH_BYTES / size_of::<HeldFrame>());
        *self = Self {
            content: std::mem::take(&mut self.content),
            frames: std::mem::take(&mut self.frames),
            ..Self::default()
        };
    }
}

/// The output of one guest, held by epoch. Time is given by the caller, on any monotonic clock.
#[derive(Debug)]
pub struct Hold {
    limits: HoldLimits,
    bypass: BypassRules,
    rule: OutputRule,
    /// Closed batches in the order of their epochs.
    closed: VecDeque<Batch>,
    open: Batch,
    spare: Vec<Batch>,
    held_frames: usize,
    held_bytes: usize,
    released: Epoch,
    counters: HoldCounters,
}

impl Hold {
    pub fn new(limits: HoldLimits, bypass: BypassRules, policy: OutputPolicy) -> Self {
        Self {
            limits,
            bypass,
            rule: OutputRule::new(policy),
            closed: VecDeque::new(),
            open: Batch::default(),
            spare: Vec::new(),
            held_frames: 0,
            held_bytes: 0,
            released: Epoch(0),
            counters: HoldCounters::default(),
        }
    }

    /// Take a frame that the guest sent.
    ///
    /// A frame is taken even if the queue is full ([`Hold::is_full`]): what QEMU already wrote when its guest
    /// was stopped must be counted to that epoch.
    pub fn accept(&mut self, frame: &[u8], now: Duration) -> Verdict {
        self.counters.accepted.add(frame.len());
        match self.rule.policy() {
            OutputPolicy::Discard => {
                self.counters.dropped.add(frame.len());
                return Verdict::Dropped;
            }
            // What waits already (the gate was shut, the device was busy) goes first.
            OutputPolicy::Free | OutputPolicy::HoldFromCut if self.held_frames == 0 => {
                return Verdict::Passes;
            }
            OutputPolicy::Hold if self.bypass.lets_pass(frame) => return Verdict::Passes,
            _ => self.keep(frame, now),
        }
        Verdict::Held
    }

    /// Hold a frame that was let pass but could not leave: it then leaves with its epoch.
    pub fn keep(&mut self, frame: &[u8], now: Duration) {
        self.open.push(frame, now);
        self.held_frames += 1;
        self.held_bytes += frame.len();
        self.counters.fullest_bytes = self.counters.fullest_bytes.max(self.held_bytes);
    }

    /// Count a frame that was let pass and has left.
    pub fn count_passed(&mut self, frame: &[u8]) {
        self.counters.passed.add(frame.len());
    }

    /// Count a frame that was let pass and that the device refused for good.
    pub fn count_refused(&mut self, frame: &[u8]) {
        self.counters.refused.add(frame.len());
    }

    /// The last cut, if a frame was held since then: it can leave no sooner than the next epoch.
    pub fn awaits_cut_after(&self) -> Option<Epoch> {
        let waits = self.rule.policy() == OutputPolicy::Hold && self.open.front().is_some();
        waits.then(|| self.rule.last_cut())
    }

    /// Close the epoch: all frames taken since the last cut belong to it.
    ///
    /// # Errors
    /// [`HoldError::CutOutOfOrder`] if `epoch` is not above the one of the last cut.
    pub fn cut(&mut self, epoch: Epoch, now: Duration) -> Result<Cut, HoldError> {
        let last = self.rule.last_cut();
        if epoch <= last {
            return Err(HoldError::CutOutOfOrder { last, wanted: epoch });
        }
        let mut batch = std::mem::replace(&mut self.open, self.spare.pop().unwrap_or_default());
        batch.closed = Some((epoch, now));
        let (frames, bytes) = (batch.frames.len() - batch.next_frame, batch.content.len() - batch.next_byte);
        let cut = Cut { epoch, frames, bytes };
        self.closed.push_back(batch);
        self.rule.cut(epoch);
        Ok(cut)
    }

    /// Note that the standby holds all of `through` and of the epochs before it. An older one changes
    /// nothing.
    ///
    /// # Errors
    /// [`HoldError::AcknowledgedBeforeCut`] if `through` was never cut.
    pub fn acknowledge(&mut self, through: Epoch) -> Result<(), HoldError> {
        let last = self.rule.last_cut();
        if through > last {
            return Err(HoldError::AcknowledgedBeforeCut { last, acknowledged: through });
        }
        self.rule.acknowledge(through);
        Ok(())
    }

    /// Offer the frames that may leave to `deliver`, in order, until an epoch is finished or one cannot
    /// leave.
    ///
    /// # Panics
    /// If a frame would leave before its epoch was acknowledged: a member must rather end than go on.
    pub fn release(&mut self, now: Duration, mut deliver: impl FnMut(&[u8]) -> Delivery) -> Progress {
        let holds = self.rule.policy() == OutputPolicy::Hold;
        let acknowledged = self.rule.acknowledged();
        let is_closed = !self.closed.is_empty();
        let batch = self.closed.front_mut().unwrap_or(&mut self.open);
        if !self.rule.may_leave(batch.epoch()) {
            return Progress::Idle;
        }
        while let Some((held, frame)) = batch.front() {
            assert!(
                !holds || batch.epoch().is_some_and(|epoch| epoch <= acknowledged),
                "output of {:?} would leave, but only {acknowledged} is acknowledged",
                batch.epoch(),
            );
            match deliver(frame) {
                Delivery::Blocked => return Progress::Blocked,
                Delivery::Delivered => {
                    batch.delivered_frames += 1;
                    batch.delivered_bytes += held.length;
                    self.counters.released.add(held.length);
                    self.counters.held_time.record(now.saturating_sub(held.accepted));
                }
                Delivery::Refused => self.counters.refused.add(held.length),
            }
            batch.step(held);
            self.held_frames -= 1;
            self.held_bytes -= held.length;
        }
        if is_closed {
            return self.finish_front(now);
        }
        self.open.clear();
        Progress::Idle
    }

    fn finish_front(&mut self, now: Duration) -> Progress {
        let Some(batch) = self.closed.pop_front() else { return Progress::Idle };
        let Some((epoch, cut)) = batch.closed else { return Progress::Idle };
        let finished = ReleasedEpoch {
            epoch,
            frames: batch.delivered_frames,
            bytes: batch.delivered_bytes,
            since_cut: now.saturating_sub(cut),
        };
        self.recycle(batch);
        self.released = epoch;
        Progress::Finished(finished)
    }

    fn recycle(&mut self, mut batch: Batch) {
        if self.spare.len() < SPARE_BATCHES {
            batch.clear();
            self.spare.push(batch);
        }
    }

    /// Drop everything that is held; returns the number of frames. Cuts and acknowledgements stay known.
    pub fn discard(&mut self) -> usize {
        let frames = self.held_frames;
        self.counters.dropped.frames += self.held_frames as u64;
        self.counters.dropped.bytes += self.held_bytes as u64;
        while let Some(batch) = self.closed.pop_front() {
            self.recycle(batch);
        }
        self.open.clear();
        self.held_frames = 0;
        self.held_bytes = 0;
        frames
    }

    /// Set what happens to output; [`OutputPolicy::Discard`] discards what is held.
    pub fn set_policy(&mut self, policy: OutputPolicy) {
        self.rule.set_policy(policy);
        if policy == OutputPolicy::Discard {
            self.discard();
        }
    }

    /// What stands behind the frames that [`Hold::release`] offers.
    pub fn standing(&self) -> Standing {
        self.rule.standing()
    }

    pub fn policy(&self) -> OutputPolicy {
        self.rule.policy()
    }

    /// Whether a limit is reached: the guest's output should not be read until something left.
    pub fn is_full(&self) -> bool {
        self.held_bytes >= self.limits.bytes || self.held_frames >= self.limits.frames
    }

    /// Whether [`Hold::release`] would offer a frame or finish an epoch.
    pub fn has_releasable(&self) -> bool {
        let next = self.closed.front();
        (next.is_some() || self.held_frames > 0) && self.rule.may_leave(next.and_then(Batch::epoch))
    }

    /// Bytes of all held frames.
    pub fn bytes(&self) -> usize {
        self.held_bytes
    }

    /// Number of held frames.
    pub fn frames(&self) -> usize {
        self.held_frames
    }

    /// The epoch of the last cut; epoch 0 before the first.
    pub fn last_cut(&self) -> Epoch {
        self.rule.last_cut()
    }

    /// The highest acknowledged epoch; epoch 0 before the first.
    pub fn acknowledged(&self) -> Epoch {
        self.rule.acknowledged()
    }

    /// The last epoch whose output has left; epoch 0 before the first.
    pub fn released(&self) -> Epoch {
        self.released
    }

    /// Counts and held times up to now.
    pub fn statistics(&self) -> HoldStatistics {
        HoldStatistics {
            accepted: self.counters.accepted,
            released: self.counters.released,
            passed: self.counters.passed,
            dropped: self.counters.dropped,
            refused: self.counters.refused,
            held_frames: self.held_frames,
            held_bytes: self.held_bytes,
            fullest_bytes: self.counters.fullest_bytes,
            is_full: self.is_full(),
            last_cut: self.rule.last_cut(),
            acknowledged: self.rule.acknowledged(),
            released_through: self.released,
            held_time: self.counters.held_time.snapshot(),
        }
    }
}
