//! Switches that the kernel left out of its trace without saying so, found by its accounts of runtime.
//!
//! Linux 6.18 was seen to leave out switches by the hundred, mostly out of idleness. But the first time that
//! a kernel adds up a thread's runtime (`sched_stat_runtime`) after it put the thread on a CPU, it counts
//! from that moment. So where an event shows a thread on a CPU that another was known to have, the next
//! account says since when. Idleness has no account; but a thread's own is the last thing that is told of it
//! before it leaves.

use std::collections::HashMap;

use crate::processors::IDLE;
use crate::trace::{EventKind, Mended, Trace};

/// The clock that accounts are taken by was read this much before the event is written, at most. A CPU that
/// is itself virtual may take some time in between.
const CLOCK_AGE_LIMIT_NS: f64 = 50e3;

/// How the trace gives the state of a thread that sleeps, and of one that could run (include/linux/sched.h).
const ASLEEP: i64 = 1;
const RUNNABLE: i64 = 0;

/// A switch that must have been between two rows of a CPU.
#[derive(Debug, Clone, Copy)]
struct Gap {
    left: i32,
    next: i32,
    last_row: usize,
    first_row: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Cpu {
    current: Option<i32>,
    last_row: usize,
    /// Whether it adds up the time of the thread that ran there, as the last event before a switch does.
    last_is_account: bool,
    gap: Option<Gap>,
}

struct Mender<'a> {
    trace: &'a Trace<'a>,
    cpus: Vec<Cpu>,
    /// Since when a thread runs that is not known to run anywhere, as another CPU accounted it first.
    runs_unseen: HashMap<i32, u64>,
    /// The last row that wakes each thread.
    woken_at: Vec<usize>,
    /// Threads that left by a switch that was not recorded, with its place, until it is known how.
    left: HashMap<i32, usize>,
    mended: Vec<Mended>,
    clock_age_limit: u64,
}

/// Find the switches that were not recorded, in the order in which they come.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a small positive value")]
pub(crate) fn mend(trace: &Trace<'_>) -> Vec<Mended> {
    let mut mender = Mender {
        trace,
        cpus: vec![Cpu::default(); trace.cpus],
        runs_unseen: HashMap::new(),
        woken_at: vec![0; trace.threads],
        left: HashMap::new(),
        mended: Vec::new(),
        clock_age_limit: (CLOCK_AGE_LIMIT_NS * trace.cycles_per_ns) as u64,
    };
    for row in 0..trace.len() {
        mender.take(row);
    }
    let mut mended = mender.mended;
    mended.sort_by_key(|it| (it.before_row, it.time));
    mended
}

impl Mender<'_> {
    fn take(&mut self, row: usize) {
        let columns = &self.trace.columns;
        let (cpu, thread, other) = (columns.cpu[row], columns.thread[row], columns.other[row]);
        let place = usize::from(cpu);
        let Some(kind) = EventKind::from_code(columns.kind[row]) else { return };
        if kind == EventKind::Lost {
            self.cpus[place] = Cpu { last_row: row, ..Cpu::default() };
            return;
        }
        let before = self.cpus[place];
        if before.current != Some(thread) {
            self.cpus[place].current = Some(thread);
            let gap = |left| Gap { left, next: thread, last_row: before.last_row, first_row: row };
            self.cpus[place].gap = before.current.map(gap);
            self.comes(place, thread);
            if thread == IDLE && before.last_is_account {
                self.resolve(place, columns.time[before.last_row]);
            }
        }
        self.cpus[place].last_is_account = kind == EventKind::Runtime && thread == other;
        match kind {
            EventKind::Switch => {
                // Whoever leaves here is on no CPU.
                self.cpus[place].gap = None;
                self.cpus[place].current = Some(other);
                self.runs(other);
            }
            EventKind::Waking => {
                self.note_state(other, ASLEEP);
                if let Some(row_of) = usize::try_from(other).ok().and_then(|it| self.woken_at.get_mut(it)) {
                    *row_of = row;
                }
            }
            EventKind::Runtime => self.account(row, other),
            _ => {}
        }
        self.cpus[place].last_row = row;
    }

    /// Who woke up after this row was asleep, and who runs elsewhere by now without that could have run.
    fn state_since(&self, row: usize, thread: i32) -> Option<i64> {
        let woken_at = usize::try_from(thread).ok().and_then(|it| self.woken_at.get(it));
        if woken_at.is_some_and(|&woken| woken > row) {
            return Some(ASLEEP);
        }
        self.cpus.iter().any(|cpu| cpu.current == Some(thread)).then_some(RUNNABLE)
    }

    /// The next that is heard of a thread that left by a switch that was not recorded: it is woken, or it
    /// runs.
    fn note_state(&mut self, thread: i32, state: i64) {
        if let Some(place) = self.left.remove(&thread) {
            self.mended[place].state = state;
        }
    }

    /// A thread was found on a CPU.
    fn comes(&mut self, place: usize, thread: i32) {
        let began = self.runs_unseen.get(&thread).copied();
        self.runs(thread);
        if let Some(began) = began {
            self.resolve(place, began);
        }
    }

    fn runs(&mut self, thread: i32) {
        self.runs_unseen.remove(&thread);
        self.note_state(thread, RUNNABLE);
    }

    /// A thread's runtime is added up: by its own CPU, or by another that has work for that CPU.
    fn account(&mut self, row: usize, thread: i32) {
        let columns = &self.trace.columns;
        let began = columns.time[row].saturating_sub(self.cycles(columns.value[row]));
        let own = usize::from(columns.cpu[row]);
        let is_there = |place: &usize| self.cpus[*place].current == Some(thread);
        match std::iter::once(own).chain(0..self.cpus.len()).find(is_there) {
            Some(place) => self.resolve(place, began),
            None => {
                self.runs_unseen.entry(thread).or_insert(began);
            }
        }
    }

    /// The thread that was found on this CPU began then. Only the first account tells.
    fn resolve(&mut self, place: usize, began: u64) {
        let Some(gap) = self.cpus[place].gap.take() else { return };
        let times = self.trace.columns.time;
        let (last, first) = (times[gap.last_row], times[gap.first_row]);
        let limit = self.clock_age_limit;
        if !(last.saturating_sub(limit)..=first + limit).contains(&began) {
            return;
        }
        let time = began.clamp(last, first);
        let rows = &times[gap.last_row + 1..gap.first_row];
        let before_row = gap.last_row + 1 + rows.partition_point(|&it| it <= time);
        let state = self.state_since(gap.last_row, gap.left);
        if state.is_none() && gap.left != IDLE {
            self.left.insert(gap.left, self.mended.len());
        }
        self.mended.push(Mended {
            before_row,
            time,
            cpu: self.trace.columns.cpu[gap.first_row],
            left: gap.left,
            // Who is not seen again sleeps, as far as anybody can tell.
            state: state.unwrap_or(ASLEEP),
            next: gap.next,
            seen: (last, first),
        });
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a positive value")]
    fn cycles(&self, ns: i64) -> u64 {
        (ns.max(0) as f64 * self.trace.cycles_per_ns) as u64
    }
}
