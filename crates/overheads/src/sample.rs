//! Samples that belong to no job: pairs of events on one CPU.

use crate::flags::Flags;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SampleKind {
    /// A timer's callback that wakes a thread.
    Release,
    /// A whole interrupt in which timers expired.
    Interrupt,
    /// The callback of the periodic tick.
    Tick,
    /// From the end of the interrupt that woke a thread until the scheduler has chosen that thread.
    Dispatch,
    /// From the scheduler's entry until it has chosen another thread.
    Scheduling,
    /// From the scheduler's entry to its exit without a switch.
    SchedulingInVain,
    /// From a switch to the scheduler's exit.
    ContextSwitch,
    /// From another CPU's wake-up of a thread to the handler of the interrupt that it sent.
    Request,
}

impl SampleKind {
    pub const ALL: [Self; 8] = [
        Self::Release,
        Self::Interrupt,
        Self::Tick,
        Self::Dispatch,
        Self::Scheduling,
        Self::SchedulingInVain,
        Self::ContextSwitch,
        Self::Request,
    ];

    /// As documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Interrupt => "interrupt",
            Self::Tick => "tick",
            Self::Dispatch => "dispatch",
            Self::Scheduling => "scheduling",
            Self::SchedulingInVain => "scheduling_in_vain",
            Self::ContextSwitch => "context_switch",
            Self::Request => "inter_processor_interrupt",
        }
    }
}

/// A pair of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub kind: SampleKind,
    pub cpu: u16,
    /// Whose it is: who was woken, chosen, or interrupted.
    pub thread: i32,
    /// In cycles, as the duration.
    pub start: u64,
    pub duration: u64,
    pub flags: Flags,
    /// Of an interrupt: how many timers expired in it, how many of their callbacks woke a job's thread, and how many
    /// were the tick. Otherwise 0.
    pub expiries: u16,
    pub releases: u16,
    pub ticks: u16,
}
