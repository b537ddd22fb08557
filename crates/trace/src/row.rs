//! A row of the table `trace` (`docs/run-format.md`).

pub use stealtime_wire::EventKind as Kind;

/// Stands in `name` where an event has none.
pub const NO_NAME: u32 = u32::MAX;

/// An event of the kernel's trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub time: u64,
    pub cpu: u16,
    pub kind: Kind,
    /// The thread that ran on this CPU.
    pub thread: i32,
    /// By kind: the state in which a thread left, the interrupt's number, the reason of an exit ...
    pub value: i64,
    /// By kind: the thread that comes or is woken, the virtual CPU ...
    pub other: i32,
    /// The kernel's priority of that thread: below 100 real-time, -1 deadline.
    pub priority: i16,
    /// Into the names of the recording, or [`NO_NAME`].
    pub name: u32,
}

impl Row {
    /// Events that were lost on a CPU before `time`.
    pub fn lost(time: u64, cpu: u16, count: u64) -> Self {
        Self {
            time,
            cpu,
            kind: Kind::Lost,
            thread: 0,
            value: i64::try_from(count).unwrap_or(i64::MAX),
            other: 0,
            priority: 0,
            name: NO_NAME,
        }
    }
}
