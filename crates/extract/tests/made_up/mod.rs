//! A trace that was never recorded: threads on CPUs, one event after the other, in cycles of half a nanosecond.

use stealtime_extract::{Clock, Taken, Task, Trace, follow, tasks};
use stealtime_wire::{EventKind, TraceColumns};

pub const THREAD: i32 = 7;
pub const IDLE: i32 = 0;
pub const WAITS: i64 = 1;
pub const PREEMPTED: i64 = 0;

/// Cycles in a ns.
pub const RATE: u64 = 2;

#[derive(Clone, Copy)]
struct Event {
    time: u64,
    cpu: u16,
    kind: EventKind,
    thread: i32,
    value: i64,
    other: i32,
    name: u32,
}

/// Times in ns; events may be told in any order of time.
#[derive(Default)]
pub struct World {
    events: Vec<Event>,
    pub taken: Vec<Taken>,
}

/// What a thread does in one job, in ns from its wake-up.
#[derive(Clone, Copy)]
pub struct Work {
    /// Until it runs.
    pub dispatch: u64,
    /// From the switch to it to its own first instruction.
    pub way_out: u64,
    pub own: u64,
    /// From its call to the switch away from it.
    pub way_in: u64,
}

pub const WORK: Work = Work { dispatch: 3_000, way_out: 2_000, own: 100_000, way_in: 1_000 };

impl Work {
    pub fn whole(self) -> u64 {
        self.dispatch + self.way_out + self.own + self.way_in
    }
}

impl World {
    fn tell(&mut self, time: u64, kind: EventKind, thread: i32) -> &mut Event {
        let event = Event { time: time * RATE, cpu: 0, kind, thread, value: 0, other: 0, name: u32::MAX };
        self.events.push(event);
        let last = self.events.len() - 1;
        &mut self.events[last]
    }

    pub fn wake(&mut self, time: u64, waker: i32, thread: i32) {
        let event = self.tell(time, EventKind::Waking, waker);
        (event.other, event.name) = (thread, 0);
    }

    pub fn switch(&mut self, time: u64, left: i32, state: i64, next: i32) {
        let event = self.tell(time, EventKind::Switch, left);
        (event.value, event.other, event.name) = (state, next, u32::from(next == IDLE));
    }

    pub fn call(&mut self, time: u64, thread: i32, is_entry: bool) {
        self.tell(time, if is_entry { EventKind::CallEntry } else { EventKind::CallExit }, thread).value = 230;
    }

    pub fn set_timer(&mut self, time: u64, thread: i32, expiry: i64) {
        let event = self.tell(time, EventKind::TimerStart, thread);
        (event.value, event.name) = (expiry, 2);
    }

    pub fn interrupt(&mut self, begin: u64, end: u64, thread: i32) {
        self.tell(begin, EventKind::VectorEntry, thread);
        self.tell(end, EventKind::VectorExit, thread);
    }

    pub fn lose(&mut self, time: u64) {
        self.tell(time, EventKind::Lost, 0).value = 5;
    }

    /// A job out of idleness, which then sets a timer for `next`, if any, and waits.
    pub fn job(&mut self, woken: u64, work: Work, next: Option<u64>) {
        self.wake(woken, IDLE, THREAD);
        self.rest_of_job(woken, work, next);
    }

    pub fn rest_of_job(&mut self, woken: u64, work: Work, next: Option<u64>) {
        self.switch(woken + work.dispatch, IDLE, PREEMPTED, THREAD);
        self.untold_job(woken, work, next);
    }

    /// As `rest_of_job`, of a kernel that does not tell the switch to it.
    pub fn untold_job(&mut self, woken: u64, work: Work, next: Option<u64>) {
        let own = woken + work.dispatch + work.way_out;
        self.call(own, THREAD, false);
        self.call(own + work.own, THREAD, true);
        if let Some(next) = next {
            self.set_timer(own + work.own + work.way_in / 2, THREAD, next.cast_signed());
        }
        self.switch(woken + work.whole(), THREAD, WAITS, IDLE);
    }

    /// The only task of the trace.
    pub fn task(mut self) -> Task {
        self.events.sort_by_key(|event| event.time);
        let column = |of: fn(&Event) -> i64| self.events.iter().map(of).collect::<Vec<i64>>();
        let time: Vec<u64> = self.events.iter().map(|event| event.time).collect();
        let cpu: Vec<u16> = self.events.iter().map(|event| event.cpu).collect();
        let kind: Vec<u8> = self.events.iter().map(|event| event.kind as u8).collect();
        let thread: Vec<i32> = self.events.iter().map(|event| event.thread).collect();
        let other: Vec<i32> = self.events.iter().map(|event| event.other).collect();
        let name: Vec<u32> = self.events.iter().map(|event| event.name).collect();
        let (value, priority) = (column(|event| event.value), vec![19_i16; time.len()]);
        let columns = TraceColumns {
            time: &time,
            cpu: &cpu,
            kind: &kind,
            thread: &thread,
            value: &value,
            other: &other,
            priority: &priority,
            name: &name,
        };
        let names = ["task", "swapper/0", "hrtimer_wakeup"].map(str::to_owned);
        let clock = Clock::through((0, 0), (1_000_000 * RATE, 1_000_000)).expect("two readings");
        let trace = Trace { columns, names: &names, clock, taken: &self.taken };
        let mut found = tasks(follow(&trace, &[THREAD]).expect("a trace that fits"), &clock);
        assert_eq!(found.len(), 1);
        found.remove(0)
    }
}
