//! What happened, in the tables `host_trace` and `machine_trace`: the only list of the codes of their column
//! `kind`.
//!
//! Python reads it as `stealtime._core.EVENT_KINDS`; a test holds the table in `docs/run-format.md` to it.

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal)*) => {
        /// A kind of event; its code is its place in [`Self::ALL`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum EventKind {
            $($(#[$doc])* $kind,)*
        }

        impl EventKind {
            /// All of them, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];
            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
        }
    };
}

event_kinds! {
    /// A CPU went from one thread to another.
    Switch "switch"
    /// A thread is about to be made runnable.
    Waking "waking"
    /// The handler of a device's interrupt starts.
    InterruptEntry "interrupt_entry"
    InterruptExit "interrupt_exit"
    SoftirqEntry "softirq_entry"
    SoftirqExit "softirq_exit"
    /// An interrupt of the CPU's own (timer, reschedule) starts.
    VectorEntry "vector_entry"
    VectorExit "vector_exit"
    /// A guest's CPU stopped running the guest (KVM).
    VmExit "vm_exit"
    /// It runs the guest again.
    VmEntry "vm_entry"
    /// A thread takes a signal.
    Signal "signal"
    /// A User-Mode Linux kernel is about to run this user thread.
    GuestSwitch "guest_switch"
    /// Events were lost just before this time.
    Lost "lost"
    /// A non-maskable interrupt was handled.
    Nmi "nmi"
    /// A thread's time on a CPU was added up.
    Runtime "runtime"
    /// The callback of a high-resolution timer starts.
    TimerEntry "timer_entry"
    TimerExit "timer_exit"
    /// The scheduler is entered, to choose who runs next.
    ScheduleEntry "schedule_entry"
    /// It is left, by the thread that runs from here on.
    ScheduleExit "schedule_exit"
    /// A thread programs a high-resolution timer.
    TimerStart "timer_start"
    /// A thread begins a system call.
    CallEntry "call_entry"
    CallExit "call_exit"
    /// The block layer hands a request to the driver of its disk.
    BlockIssue "block_issue"
    /// The driver has told that a request is done.
    BlockComplete "block_complete"
    /// A thread begins a system call that reads or writes at a place of a file.
    FileCall "file_call"
}

impl EventKind {
    /// The kind with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}
