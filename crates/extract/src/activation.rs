//! From a wake-up to the next wait.

use std::collections::BTreeMap;

/// What a thread did between two waits. Times in cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activation {
    /// When it was woken.
    pub woken: u64,
    /// When the timer that woke it was to expire, in ns of the timer's clock; none where something else woke it.
    pub expiry_ns: Option<i64>,
    /// The thread that ran where it was woken; interrupts wake over the shoulder of any.
    pub waker: i32,
    /// When it first ran.
    pub started: u64,
    /// Where its own instructions began: the return of the call in which it had waited; `started` where none is known.
    pub own_started: u64,
    /// The entry to the call in which it then waited; `ended` where none is known.
    pub own_ended: u64,
    /// When it left the CPU to wait.
    pub ended: u64,
    /// On a CPU, without interrupts and what the host certainly took.
    pub ran: u64,
    /// Of it, what is not on the way out of the call before and into the one in which it waits.
    pub own: u64,
    /// Interrupts over it.
    pub interrupts: u64,
    /// What the host certainly took of it.
    pub taken: u64,
    /// How often it was preempted.
    pub preemptions: u32,
    /// The host may have taken some of it.
    pub may_be_taken: bool,
    /// The kernel did not tell the switch to it: it began to run before the first event that shows it.
    pub unseen_switch: bool,
    /// Events were lost, or its beginning was not seen: its figures mean nothing.
    pub holed: bool,
}

/// A thread and all that it did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    pub id: i32,
    /// Into the names of the trace, as last seen; none where no event told it.
    pub name: Option<u32>,
    pub activations: Vec<Activation>,
    /// The kernel's priorities that it was woken or switched to with.
    pub priorities: Vec<i16>,
    /// How long it ran on each CPU, in cycles.
    pub cpus: BTreeMap<u16, u64>,
    /// Whether it entered or left a system call.
    pub tells_calls: bool,
    /// In all, in cycles.
    pub ran: u64,
}
