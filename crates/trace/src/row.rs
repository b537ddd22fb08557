//! A row of the table `trace` (`docs/run-format.md`).

/// Stands in `name` where an event has none.
pub const NO_NAME: u32 = u32::MAX;

/// What happened; the numbers are those of the column `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A CPU went from one thread to another.
    Switch = 0,
    /// A thread is about to be made runnable.
    Waking = 1,
    /// The handler of a device's interrupt starts.
    InterruptEntry = 2,
    /// It ends.
    InterruptExit = 3,
    /// A softirq starts.
    SoftirqEntry = 4,
    /// It ends.
    SoftirqExit = 5,
    /// An interrupt of the CPU's own (timer, reschedule) starts.
    VectorEntry = 6,
    /// It ends.
    VectorExit = 7,
    /// A guest's CPU stopped running the guest (KVM).
    VmExit = 8,
    /// It runs the guest again.
    VmEntry = 9,
    /// A thread takes a signal.
    Signal = 10,
    /// A User-Mode Linux kernel is about to run this user thread.
    GuestSwitch = 11,
    /// Events were lost just before this time.
    Lost = 12,
    /// A non-maskable interrupt was handled.
    Nmi = 13,
    /// A thread's time on a CPU was added up.
    Runtime = 14,
}

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The time-stamp counter.
    pub time: u64,
    /// On which CPU.
    pub cpu: u16,
    /// What happened.
    pub kind: Kind,
    /// Who ran there.
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
