//! What could not be measured, counted by reason.

/// Why a job has no chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum JobDiscard {
    /// It has one.
    None,
    /// Released before the trace began, or started after it ended.
    OutsideTrace,
    /// Events of its CPU were lost meanwhile, or an interrupt's end is missing.
    Hole,
    /// It was released while the thread's job before it still ran.
    Backlogged,
    /// No timer's callback woke its thread between release and start.
    NoTimer,
    /// More than one did.
    Ambiguous,
    /// A callback on another CPU woke it.
    ReleasedElsewhere,
    /// The callback came before the programmed release: the two clocks do not fit.
    ReleasedEarly,
    /// Its thread was still on the CPU when it was woken.
    NeverLeft,
    /// By the trace its thread was not on that CPU when it stamped its start.
    NotRunning,
    /// It stamped its start before its release.
    StartedEarly,
    /// No switch before its release tells who was on the CPU.
    RunnerUnknown,
}

impl JobDiscard {
    pub const ALL: [Self; 12] = [
        Self::None,
        Self::OutsideTrace,
        Self::Hole,
        Self::Backlogged,
        Self::NoTimer,
        Self::Ambiguous,
        Self::ReleasedElsewhere,
        Self::ReleasedEarly,
        Self::NeverLeft,
        Self::NotRunning,
        Self::StartedEarly,
        Self::RunnerUnknown,
    ];

    /// As documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::OutsideTrace => "outside_trace",
            Self::Hole => "hole",
            Self::Backlogged => "backlogged",
            Self::NoTimer => "no_timer",
            Self::Ambiguous => "ambiguous",
            Self::ReleasedElsewhere => "released_elsewhere",
            Self::ReleasedEarly => "released_early",
            Self::NeverLeft => "never_left",
            Self::NotRunning => "not_running",
            Self::StartedEarly => "started_early",
            Self::RunnerUnknown => "runner_unknown",
        }
    }
}

/// Why an event has no partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PairDiscard {
    /// Events were lost before its end came.
    Hole,
    /// It began again before it ended.
    Repeated,
    /// It ended and had not begun.
    NotBegun,
    /// The trace ended first.
    NotEnded,
}

impl PairDiscard {
    pub const ALL: [Self; 4] = [Self::Hole, Self::Repeated, Self::NotBegun, Self::NotEnded];

    /// As documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hole => "hole",
            Self::Repeated => "repeated",
            Self::NotBegun => "not_begun",
            Self::NotEnded => "not_ended",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discards {
    /// By the place in [`JobDiscard::ALL`]; the first are the jobs that have a chain.
    pub jobs: [u64; JobDiscard::ALL.len()],
    /// By the place in [`PairDiscard::ALL`].
    pub pairs: [u64; PairDiscard::ALL.len()],
}

impl Discards {
    pub(crate) fn job(&mut self, why: JobDiscard) {
        self.jobs[why as usize] += 1;
    }

    pub(crate) fn pair(&mut self, why: PairDiscard, count: usize) {
        self.pairs[why as usize] += count as u64;
    }
}
