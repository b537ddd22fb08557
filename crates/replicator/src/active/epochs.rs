//! The epochs of a guest: what each has cost, and whose output has left.

use std::io;
use std::time::Duration;

use stealtime_succession::Epoch;

use crate::clock::now;
use crate::epoch_log::{EpochLog, EpochRow};
use crate::figures::Figures;
use crate::spec::Spec;

/// The epochs since the guest runs here.
pub struct Epochs {
    pub figures: Figures,
    log: EpochLog,
    /// The last whose output has left.
    pub released: Epoch,
    /// Of the first full copy, bytes that are with the link.
    pub copied_bytes: u64,
}

impl Epochs {
    /// None yet; the output of those up to `released` left elsewhere.
    pub fn new(spec: &Spec, released: Epoch) -> Self {
        let log = EpochLog::new(&spec.folder, spec.log_bytes);
        Self { figures: Figures::default(), log, released, copied_bytes: 0 }
    }

    pub fn shipped(&mut self, row: EpochRow, at: Duration) {
        self.figures.shipped(row, at);
    }

    /// The standby holds all up to this one. Where no output waits for that, they are complete.
    pub fn acknowledged(&mut self, epoch: Epoch, holds_output: bool) -> io::Result<()> {
        self.figures.acknowledged(epoch, now());
        if holds_output { Ok(()) } else { self.complete(epoch, Duration::ZERO) }
    }

    /// The output of this one has left.
    pub fn released(&mut self, epoch: Epoch, held: Duration) -> io::Result<()> {
        self.released = epoch;
        self.complete(epoch, held)
    }

    fn complete(&mut self, epoch: Epoch, held: Duration) -> io::Result<()> {
        self.figures.released(epoch, held).iter().try_for_each(|row| self.log.add(row))
    }
}
