//! One pass over each CPU's events: pairs become samples, and callbacks that wake a thread are kept for chains.
//!
//! The rules are those of Feather-Trace's tools (`ft2csv`): a pair lies on one CPU, is given up at a hole and where it
//! begins again, and knows whether an interrupt began inside. Nothing that is disturbed is dropped here.

use rustc_hash::{FxHashMap, FxHashSet};
use stealtime_wire::EventKind;

use crate::discards::{Discards, PairDiscard};
use crate::flags::Flags;
use crate::sample::{Sample, SampleKind};
use crate::stretches::Stretches;
use crate::trace::Trace;

/// Priorities below are real-time (`MAX_RT_PRIO`, include/linux/sched/prio.h), those below 0 deadline.
const FIRST_ORDINARY: i16 = 100;

/// A callback that woke a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    pub thread: i32,
    /// Of the thread, as the kernel counts.
    pub priority: i16,
    /// Where the callback ran.
    pub cpu: u16,
    /// Where the thread is to run.
    pub target: i64,
    /// When the interrupt around it began; none for a callback outside of an interrupt.
    pub interrupt_entry: Option<u64>,
    pub entry: u64,
    pub exit: u64,
    /// When the interrupt around it ended; as `exit` for a callback outside of an interrupt.
    pub interrupt_exit: u64,
    /// The place of that last event among the rows of its CPU.
    pub place: usize,
    /// Who was on the CPU: thread and priority, where the trace tells.
    pub running: Option<(i32, i16)>,
    /// Whether an interrupt began inside of the callback, or after it and before the interrupt's end.
    pub interrupted: (bool, bool),
    /// How many interrupts had begun on its CPU when the callback ended.
    interrupts: u64,
}

/// In place of a time that is not known yet.
const NOT_YET: u64 = u64::MAX;

/// What a pass gives.
#[derive(Debug, Clone, Default)]
pub struct Scanned {
    pub samples: Vec<Sample>,
    /// By thread, then by time.
    pub wakes: Vec<Wake>,
}

impl Scanned {
    /// The wake-ups of each thread, in the order of time.
    pub(crate) fn by_thread(&self) -> FxHashMap<i32, &[Wake]> {
        self.wakes.chunk_by(|a, b| a.thread == b.thread).map(|wakes| (wakes[0].thread, wakes)).collect()
    }
}

/// Goes over all CPUs. `own` are the threads of the jobs.
#[allow(clippy::implicit_hasher, reason = "one hasher for the whole crate")]
pub fn scan(trace: &Trace<'_>, taken: &Stretches, own: &FxHashSet<i32>, discards: &mut Discards) -> Scanned {
    let mut scanned = Scanned::default();
    for (cpu, rows) in (0_u16..).zip(&trace.rows) {
        let mut pass = Pass::new(trace, taken, own, cpu);
        for (place, &row) in rows.iter().enumerate() {
            pass.step(row as usize, place, discards);
        }
        discards.pair(PairDiscard::NotEnded, pass.give_up());
        scanned.samples.append(&mut pass.samples);
        scanned.wakes.append(&mut pass.wakes);
    }
    scanned.wakes.sort_by_key(|wake| (wake.thread, wake.entry));
    scanned
}

/// Whether a priority of the kernel is one of a real-time thread.
pub(crate) fn is_real_time(priority: i16) -> bool {
    priority < FIRST_ORDINARY
}

/// A begin that waits for its end.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: u64,
    /// How many interrupts had begun on this CPU, this one included.
    interrupts: u64,
}

struct OpenInterrupt {
    kind: EventKind,
    number: i64,
    begun: Begun,
    expiries: u16,
    releases: u16,
    ticks: u16,
    /// The first of the wake-ups that wait for its end.
    first_wake: usize,
}

struct OpenTimer {
    timer: i64,
    begun: Begun,
    is_tick: bool,
    /// The first of the wake-ups inside.
    first_wake: usize,
    /// How many interrupts were around it.
    depth: usize,
}

/// The state of one CPU.
struct Pass<'a, 'b> {
    trace: &'b Trace<'a>,
    taken: &'b Stretches,
    own: &'b FxHashSet<i32>,
    cpu: u16,
    /// Counts those that began; also the handlers of NMIs, which are told when they end.
    interrupts: u64,
    interrupt_stack: Vec<OpenInterrupt>,
    timer_stack: Vec<OpenTimer>,
    running: Option<(i32, i16)>,
    schedule: Option<Begun>,
    switch: Option<(Begun, bool)>,
    /// Woken since the last switch, by an interrupt that has ended: thread, priority, and that end.
    ready: Vec<(i32, i16, Begun)>,
    samples: Vec<Sample>,
    wakes: Vec<Wake>,
}

impl<'a, 'b> Pass<'a, 'b> {
    fn new(trace: &'b Trace<'a>, taken: &'b Stretches, own: &'b FxHashSet<i32>, cpu: u16) -> Self {
        Self {
            trace,
            taken,
            own,
            cpu,
            interrupts: 0,
            interrupt_stack: Vec::new(),
            timer_stack: Vec::new(),
            running: None,
            schedule: None,
            switch: None,
            ready: Vec::new(),
            samples: Vec::new(),
            wakes: Vec::new(),
        }
    }

    /// Ends nothing of what has begun; gives how much that is. Who runs is not known any more.
    fn give_up(&mut self) -> usize {
        let waits = usize::from(self.schedule.is_some())
            + usize::from(self.switch.is_some() && self.trace.tells_exits)
            + self.give_up_interrupts(0)
            + self.give_up_timers(0);
        self.ready.clear();
        (self.running, self.schedule, self.switch) = (None, None, None);
        waits
    }

    /// Forgets interrupts from a place on, with the callbacks in them and the threads that those woke.
    fn give_up_interrupts(&mut self, position: usize) -> usize {
        let count = self.interrupt_stack.len().saturating_sub(position);
        // Of nested ones only the outermost ends what it woke.
        if let Some(first) = self.interrupt_stack.get(position).filter(|_| position == 0) {
            self.wakes.truncate(first.first_wake);
        }
        self.interrupt_stack.truncate(position);
        let inside = self.timer_stack.iter().position(|timer| timer.depth > position);
        count + inside.map_or(0, |inside| self.give_up_timers(inside))
    }

    /// Forgets callbacks from a place on, with the threads that they woke.
    fn give_up_timers(&mut self, position: usize) -> usize {
        let count = self.timer_stack.len().saturating_sub(position);
        if let Some(first) = self.timer_stack.get(position) {
            self.wakes.truncate(first.first_wake);
        }
        self.timer_stack.truncate(position);
        count
    }

    fn step(&mut self, row: usize, place: usize, discards: &mut Discards) {
        let columns = &self.trace.columns;
        let (time, value) = (columns.time[row], columns.value[row]);
        match self.trace.kind(row) {
            EventKind::Lost => {
                let count = self.give_up();
                discards.pair(PairDiscard::Hole, count);
            }
            kind @ (EventKind::InterruptEntry | EventKind::VectorEntry) => {
                self.interrupts += 1;
                let begun = self.begin(time);
                let first_wake = self.wakes.len();
                self.interrupt_stack.push(OpenInterrupt {
                    kind,
                    number: value,
                    begun,
                    expiries: 0,
                    releases: 0,
                    ticks: 0,
                    first_wake,
                });
            }
            EventKind::InterruptExit => self.end_interrupt(EventKind::InterruptEntry, value, time, place, discards),
            EventKind::VectorExit => self.end_interrupt(EventKind::VectorEntry, value, time, place, discards),
            EventKind::Nmi => self.interrupts += 1,
            EventKind::TimerEntry => {
                let (begun, is_tick) = (self.begin(time), self.trace.is_tick(row));
                let (first_wake, depth) = (self.wakes.len(), self.interrupt_stack.len());
                self.timer_stack.push(OpenTimer { timer: value, begun, is_tick, first_wake, depth });
            }
            EventKind::TimerExit => self.end_timer(value, time, place, discards),
            // One in an interrupt on top of a callback is not the callback's.
            EventKind::Waking if self.timer_stack.last().is_some_and(|it| it.depth == self.interrupt_stack.len()) => {
                self.wakes.push(Wake {
                    thread: columns.other[row],
                    priority: columns.priority[row],
                    cpu: self.cpu,
                    target: value,
                    interrupt_entry: self.interrupt_stack.first().map(|open| open.begun.at),
                    entry: NOT_YET,
                    exit: NOT_YET,
                    interrupt_exit: NOT_YET,
                    place,
                    running: self.running,
                    interrupted: (false, false),
                    interrupts: 0,
                });
            }
            EventKind::Switch => self.switch(row, time, discards),
            EventKind::ScheduleEntry => {
                let repeated = self.schedule.replace(self.begin(time));
                discards.pair(PairDiscard::Repeated, usize::from(repeated.is_some()));
            }
            EventKind::ScheduleExit => self.leave_scheduler(columns.thread[row], time),
            _ => {}
        }
    }

    fn begin(&self, at: u64) -> Begun {
        Begun { at, interrupts: self.interrupts }
    }

    fn emit(&mut self, kind: SampleKind, thread: i32, begun: Begun, end: u64, about: Flags) {
        let flags = about
            | Flags::INTERRUPTED.when(self.interrupts > begun.interrupts)
            | Flags::TAKEN.when(self.taken.overlap(begun.at, end))
            | Flags::LOST_NEAR.when(self.trace.lost_elsewhere(self.cpu, begun.at, end));
        let (start, duration) = (begun.at, end - begun.at);
        let (expiries, releases, ticks) = (0, 0, 0);
        self.samples.push(Sample { kind, cpu: self.cpu, thread, start, duration, flags, expiries, releases, ticks });
    }

    fn running_flag(&self) -> Flags {
        Flags::REAL_TIME.when(self.running.is_some_and(|(_, priority)| is_real_time(priority)))
    }

    fn end_timer(&mut self, timer: i64, time: u64, place: usize, discards: &mut Discards) {
        let Some(position) = self.timer_stack.iter().rposition(|open| open.timer == timer) else {
            discards.pair(PairDiscard::NotBegun, 1);
            return;
        };
        discards.pair(PairDiscard::Repeated, self.give_up_timers(position + 1));
        let Some(open) = self.timer_stack.pop() else { return };
        let is_own = |wake: &Wake| self.own.contains(&wake.thread);
        let is_release = !open.is_tick && self.wakes.iter().skip(open.first_wake).any(is_own);
        for interrupt in self.interrupt_stack.iter_mut().take(open.depth) {
            interrupt.expiries = interrupt.expiries.saturating_add(1);
            interrupt.releases = interrupt.releases.saturating_add(u16::from(is_release));
            interrupt.ticks = interrupt.ticks.saturating_add(u16::from(open.is_tick));
        }
        let was_interrupted = self.interrupts > open.begun.interrupts;
        let is_outside = open.depth == 0;
        let interrupts = self.interrupts;
        // An interrupt on top of this callback has told of its own already.
        for wake in self.wakes[open.first_wake..].iter_mut().filter(|wake| wake.exit == NOT_YET) {
            (wake.entry, wake.exit, wake.interrupt_exit, wake.place) = (open.begun.at, time, time, place);
            (wake.interrupted.0, wake.interrupts) = (was_interrupted, interrupts);
        }
        if open.is_tick {
            let thread = self.running.map_or(0, |(thread, _)| thread);
            self.emit(SampleKind::Tick, thread, open.begun, time, self.running_flag());
        } else if let Some(&wake) = self.wakes.get(open.first_wake) {
            let flags = Flags::REAL_TIME.when(is_real_time(wake.priority));
            self.emit(SampleKind::Release, wake.thread, open.begun, time, flags);
        }
        if is_outside {
            self.make_ready(open.first_wake, time);
        }
    }

    fn end_interrupt(&mut self, kind: EventKind, number: i64, time: u64, place: usize, discards: &mut Discards) {
        let matches = |open: &OpenInterrupt| open.kind == kind && open.number == number;
        let Some(position) = self.interrupt_stack.iter().rposition(matches) else {
            discards.pair(PairDiscard::NotBegun, 1);
            return;
        };
        discards.pair(PairDiscard::Repeated, self.give_up_interrupts(position + 1));
        let Some(open) = self.interrupt_stack.pop() else { return };
        if let Some(inside) = self.timer_stack.iter().position(|timer| timer.depth > position) {
            // A callback cannot outlive its interrupt: its end is missing, and with it what it woke.
            discards.pair(PairDiscard::Repeated, self.give_up_timers(inside));
        }
        if position > 0 {
            return;
        }
        let interrupts = self.interrupts;
        for wake in self.wakes.iter_mut().skip(open.first_wake) {
            wake.interrupted.1 = interrupts > wake.interrupts;
            (wake.interrupt_exit, wake.place) = (time, place);
        }
        if open.expiries > 0 {
            let thread = self.running.map_or(0, |(thread, _)| thread);
            self.emit(SampleKind::Interrupt, thread, open.begun, time, self.running_flag());
            if let Some(sample) = self.samples.last_mut() {
                (sample.expiries, sample.releases, sample.ticks) = (open.expiries, open.releases, open.ticks);
            }
        }
        if self.timer_stack.is_empty() {
            self.make_ready(open.first_wake, time);
        }
    }

    fn make_ready(&mut self, first_wake: usize, time: u64) {
        let begun = self.begin(time);
        let here = i64::from(self.cpu);
        let woken = self.wakes.get(first_wake..).unwrap_or_default();
        self.ready
            .extend(woken.iter().filter(|wake| wake.target == here).map(|wake| (wake.thread, wake.priority, begun)));
    }

    fn switch(&mut self, row: usize, time: u64, discards: &mut Discards) {
        let columns = &self.trace.columns;
        let (next, priority) = (columns.other[row], columns.priority[row]);
        let before = self.running_flag();
        let flags = before | Flags::REAL_TIME.when(is_real_time(priority));
        // No interrupt reaches over a switch: what is open has lost its end.
        discards.pair(PairDiscard::Repeated, self.give_up_interrupts(0));
        if let Some(begun) = self.schedule.take() {
            self.emit(SampleKind::Scheduling, next, begun, time, flags);
        }
        let ready = std::mem::take(&mut self.ready);
        // A thread of higher or the same priority goes when it likes, not when the scheduler gets to it.
        let is_outranked = |own: i16| self.running.is_some_and(|(_, priority)| priority > own);
        let woken = ready.iter().rev().find(|&&(thread, own, _)| thread == next && is_outranked(own));
        if let Some(&(_, _, begun)) = woken {
            let flags = Flags::REAL_TIME.when(is_real_time(priority));
            self.emit(SampleKind::Dispatch, next, begun, time, flags);
        }
        if self.switch.replace((self.begin(time), flags.has(Flags::REAL_TIME))).is_some() && self.trace.tells_exits {
            discards.pair(PairDiscard::Repeated, 1);
        }
        self.running = Some((next, priority));
    }

    fn leave_scheduler(&mut self, thread: i32, time: u64) {
        if let Some((begun, is_real_time)) = self.switch.take() {
            self.schedule = None;
            self.emit(SampleKind::ContextSwitch, thread, begun, time, Flags::REAL_TIME.when(is_real_time));
        } else if let Some(begun) = self.schedule.take() {
            self.emit(SampleKind::SchedulingInVain, thread, begun, time, self.running_flag());
        }
    }
}
