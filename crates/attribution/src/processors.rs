//! What each CPU of a traced machine does: which thread runs there, and which interrupts are being served.

use crate::trace::{EventKind, NO_NAME, Trace};

/// The thread id of every CPU's idle thread.
pub(crate) const IDLE: i32 = 0;

/// Priorities below this are real-time (`MAX_RT_PRIO`, include/linux/sched/prio.h).
pub(crate) const FIRST_ORDINARY_PRIORITY: i16 = 100;

/// Nested interrupts of one CPU, and softirqs that threads left unfinished; more are forgotten, the oldest
/// first.
const MOST_NESTED: usize = 64;

/// What is known of a thread besides what it does now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadRow {
    /// The last priority that was seen, as the kernel counts.
    pub priority: Option<i16>,
    /// The last name that was seen.
    pub name: u32,
    /// Place in the list of given labels.
    pub label: Option<u16>,
    /// Place in the list of followed threads.
    pub member: Option<u16>,
}

impl ThreadRow {
    const UNKNOWN: Self = Self { priority: None, name: NO_NAME, label: None, member: None };
}

/// Every thread of a machine by its id.
#[derive(Debug)]
pub(crate) struct ThreadTable(Vec<ThreadRow>);

impl ThreadTable {
    pub fn new(trace: &Trace<'_>, labels: &[(i32, u16)], members: &[i32]) -> Self {
        let mut table = Self(vec![ThreadRow::UNKNOWN; trace.threads]);
        for &(thread, label) in labels {
            if let Some(row) = table.row_mut(thread) {
                row.label = Some(label);
            }
        }
        table.foresee(trace);
        for (number, &thread) in members.iter().enumerate() {
            if let Some(row) = table.row_mut(thread) {
                row.member = u16::try_from(number).ok();
            }
        }
        table
    }

    /// Threads that run when the recording begins have their name and priority from the first event that
    /// tells them.
    fn foresee(&mut self, trace: &Trace<'_>) {
        let columns = &trace.columns;
        for (row, &kind) in columns.kind.iter().enumerate() {
            let is_switch = kind == EventKind::Switch as u8;
            if !is_switch && kind != EventKind::Waking as u8 {
                continue;
            }
            let Some(thread) = self.row_mut(columns.other[row]) else { continue };
            if thread.name == NO_NAME {
                thread.name = columns.name[row];
            }
            if is_switch && thread.priority.is_none() {
                thread.priority = Some(columns.priority[row]);
            }
        }
    }

    pub fn get(&self, thread: i32) -> ThreadRow {
        usize::try_from(thread).ok().and_then(|thread| self.0.get(thread)).copied().unwrap_or(ThreadRow::UNKNOWN)
    }

    pub fn member(&self, thread: i32) -> Option<u16> {
        self.get(thread).member
    }

    pub fn learn(&mut self, thread: i32, priority: i16, name: u32) {
        if let Some(row) = self.row_mut(thread) {
            row.priority = Some(priority);
            row.name = name;
        }
    }

    fn row_mut(&mut self, thread: i32) -> Option<&mut ThreadRow> {
        usize::try_from(thread).ok().and_then(|thread| self.0.get_mut(thread))
    }
}

/// An interrupt, vector or softirq that is being served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub entry: EventKind,
    /// The number of the interrupt, vector or softirq.
    pub number: i64,
    pub name: u32,
    /// The thread that was interrupted, or that serves the softirq.
    pub owner: i32,
}

/// What a CPU does at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processor {
    /// Who runs; `None` until an event says it, and after lost events.
    pub current: Option<i32>,
    pub last_event: u64,
    served: Vec<Served>,
}

impl Processor {
    /// What the running thread is interrupted by: the innermost that is its own. A softirq that another
    /// thread left unfinished when it was displaced (`PREEMPT_RT` runs softirqs in threads) does not count.
    pub fn innermost(&self) -> Option<&Served> {
        self.served.iter().rev().find(|served| Some(served.owner) == self.current)
    }

    /// Begin to serve something.
    pub fn enter(&mut self, served: Served) {
        if self.served.len() == MOST_NESTED {
            self.served.remove(0);
        }
        self.served.push(served);
    }

    /// Finish what was entered last and is the same; whatever was entered after it has lost its own exit. An
    /// exit without an entry (before the trace began, or lost) changes nothing.
    pub fn exit(&mut self, entry: EventKind, number: i64, owner: i32) {
        let is_same = |served: &Served| served.entry == entry && served.number == number && served.owner == owner;
        if let Some(place) = self.served.iter().rposition(is_same) {
            let mut index = 0;
            self.served.retain(|served| {
                let goes = index == place || (index > place && served.owner == owner);
                index += 1;
                !goes
            });
        }
    }

    /// Another thread runs now. A switch never happens inside an interrupt, so what is still open has lost
    /// its exit; only softirqs can be left unfinished and taken up again by their thread.
    pub fn switch_to(&mut self, next: i32) {
        self.current = Some(next);
        self.served.retain(|served| served.entry == EventKind::SoftirqEntry);
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        self.current = None;
        self.served.clear();
    }
}
