//! One layer's causes over time: stretches that do not overlap, so that each moment has at most one cause.

use crate::cause::CauseId;

/// A stretch of time with one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The counter at its first cycle.
    pub start: u64,
    /// First cycle after it.
    pub end: u64,
    pub cause: CauseId,
}

/// Builds pieces from a cause that changes.
#[derive(Debug)]
pub(crate) struct TrackBuilder {
    pieces: Vec<Piece>,
    since: u64,
    cause: CauseId,
}

impl TrackBuilder {
    pub fn new() -> Self {
        Self { pieces: Vec::new(), since: 0, cause: CauseId::NONE }
    }

    pub fn change(&mut self, time: u64, cause: CauseId) {
        if cause != self.cause {
            self.close(time);
            self.cause = cause;
        }
    }

    /// The stretch from `start` up to `time` had this cause after all, whatever it was thought to be.
    pub fn interject(&mut self, start: u64, time: u64, cause: CauseId) {
        let start = start.max(self.since).min(time);
        self.close(start);
        self.push(Piece { start, end: time, cause });
        self.since = time;
    }

    /// From `since` up to `time` there was no cause after all.
    pub fn take_back(&mut self, since: u64, time: u64) {
        self.close(time);
        self.cause = CauseId::NONE;
        while let Some(last) = self.pieces.last_mut() {
            if last.end <= since {
                break;
            }
            if last.start < since {
                last.end = since;
                break;
            }
            self.pieces.pop();
        }
    }

    /// The number of pieces so far, the open one left out: a mark for [`Self::relabel`].
    pub fn mark(&self) -> usize {
        self.pieces.len()
    }

    /// Cut the open piece at `time`, so that a mark can stand there.
    pub fn cut(&mut self, time: u64) {
        self.close(time);
    }

    /// Look at the pieces from a mark on, and give some of them another cause.
    pub fn relabel(&mut self, mark: usize, change: impl FnMut(&mut Piece)) {
        if let Some(pieces) = self.pieces.get_mut(mark..) {
            pieces.iter_mut().for_each(change);
        }
    }

    pub fn finish(mut self, time: u64) -> Vec<Piece> {
        self.close(time);
        self.pieces
    }

    fn close(&mut self, time: u64) {
        if self.cause != CauseId::NONE {
            self.push(Piece { start: self.since, end: time, cause: self.cause });
        }
        self.since = time;
    }

    fn push(&mut self, piece: Piece) {
        if piece.start < piece.end {
            self.pieces.push(piece);
        }
    }
}
