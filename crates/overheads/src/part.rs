//! The parts of a job's latency, in the order in which they usually come.

/// What a stretch between a job's release and its start was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Part {
    /// The programmed release to the timer's callback.
    EventLatency,
    /// The callback that wakes the thread.
    Release,
    /// From there to the end of the interrupt.
    InterruptRest,
    /// From there until the scheduler has chosen, where its entry is not known.
    Dispatch,
    /// From the end of the interrupt to the scheduler's entry, where that is known.
    InterruptExit,
    /// From the scheduler's entry to its choice, where that is known.
    Scheduling,
    /// Threads of the same or a higher priority ran.
    Preemption,
    /// From the switch to the job's own stamp, where the scheduler's exit is not known.
    Arrival,
    /// From the switch to the scheduler's exit, where that is known.
    ContextSwitch,
    /// From the end of the interrupt to the scheduler's exit, where the trace lacks the switch between them.
    UnseenSwitch,
    /// From the scheduler's exit to the job's own stamp, where that is known.
    Return,
    /// A thread of lower priority ran although the scheduler could choose the job's.
    Remainder,
}

impl Part {
    pub const ALL: [Self; 12] = [
        Self::EventLatency,
        Self::Release,
        Self::InterruptRest,
        Self::Dispatch,
        Self::InterruptExit,
        Self::Scheduling,
        Self::Preemption,
        Self::Arrival,
        Self::ContextSwitch,
        Self::UnseenSwitch,
        Self::Return,
        Self::Remainder,
    ];

    /// As columns are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::EventLatency => "event_latency",
            Self::Release => "release",
            Self::InterruptRest => "interrupt_rest",
            Self::Dispatch => "dispatch",
            Self::InterruptExit => "interrupt_exit",
            Self::Scheduling => "scheduling",
            Self::Preemption => "preemption",
            Self::Arrival => "arrival",
            Self::ContextSwitch => "context_switch",
            Self::UnseenSwitch => "unseen_switch",
            Self::Return => "return",
            Self::Remainder => "remainder",
        }
    }
}
