//! A history that is written down by hand, and measured.

use stealtime_overheads::{Found, Jobs, OverheadsError, Stretches, Trace, TraceColumns, measure};
use stealtime_wire::EventKind;

/// A row of the trace: time, CPU, kind, thread, value, other, priority, name.
pub type Row = (u64, u16, EventKind, i32, i64, i32, i16, u32);

/// The names of callbacks.
pub const CALLBACK: u32 = 0;
pub const TICK: u32 = 1;
/// And of a vector.
pub const RESCHEDULE: u32 = 2;

/// The address of a timer.
pub const TIMER: i64 = 0x1000;

/// The local timer's vector on x86.
const VECTOR: i64 = 236;

/// The kernel's priority of a task of SCHED_FIFO 50.
const PRIORITY: i16 = 49;

/// When what happens to a job, released at 1000.
#[derive(Debug, Clone, Copy)]
pub struct Moments {
    pub interrupt: u64,
    pub callback: u64,
    pub callback_end: u64,
    pub interrupt_end: u64,
    pub entry: Option<u64>,
    pub switch: u64,
    pub exit: Option<u64>,
    pub start: u64,
}

impl Moments {
    pub const COARSE: Self = Self {
        interrupt: 1100,
        callback: 1150,
        callback_end: 1200,
        interrupt_end: 1260,
        entry: None,
        switch: 1400,
        exit: None,
        start: 1500,
    };
    pub const FINE: Self = Self { entry: Some(1300), exit: Some(1445), ..Self::COARSE };

    /// The same, with all from `from` on coming later.
    pub fn delayed(self, from: u64, by: u64) -> Self {
        let later = |time: u64| if time >= from { time + by } else { time };
        Self {
            interrupt: later(self.interrupt),
            callback: later(self.callback),
            callback_end: later(self.callback_end),
            interrupt_end: later(self.interrupt_end),
            entry: self.entry.map(later),
            switch: later(self.switch),
            exit: self.exit.map(later),
            start: later(self.start),
        }
    }
}

/// Rows and jobs. It begins with the idle thread on CPU 0.
pub struct History {
    pub rows: Vec<Row>,
    /// Thread, release, start, finish.
    pub jobs: Vec<(i32, u64, u64, u64)>,
    pub covered: (u64, u64),
}

impl History {
    pub fn new() -> Self {
        let idle = (10, 0, EventKind::Switch, 1, 0, 0, 120, u32::MAX);
        Self { rows: vec![idle], jobs: Vec::new(), covered: (0, u64::MAX) }
    }

    pub fn vector_entry(&mut self, time: u64) {
        self.rows.push((time, 0, EventKind::VectorEntry, 0, VECTOR, 0, 0, u32::MAX));
    }

    pub fn vector_exit(&mut self, time: u64) {
        self.rows.push((time, 0, EventKind::VectorExit, 0, VECTOR, 0, 0, u32::MAX));
    }

    /// A timer's callback that wakes a thread on CPU 0.
    pub fn callback(&mut self, entry: u64, exit: u64, thread: i32, function: u32) {
        let timer = TIMER + i64::from(thread);
        self.rows.push((entry, 0, EventKind::TimerEntry, 0, timer, 0, 0, function));
        self.rows.push((u64::midpoint(entry, exit), 0, EventKind::Waking, 0, 0, thread, PRIORITY, u32::MAX));
        self.rows.push((exit, 0, EventKind::TimerExit, 0, timer, 0, 0, u32::MAX));
    }

    pub fn switch(&mut self, time: u64, next: i32, priority: i16) {
        self.rows.push((time, 0, EventKind::Switch, 0, 0, next, priority, u32::MAX));
    }

    /// An interrupt in which only the tick expires.
    pub fn tick(&mut self, interrupt: u64, entry: u64, exit: u64, end: u64) {
        self.vector_entry(interrupt);
        self.rows.push((entry, 0, EventKind::TimerEntry, 0, TIMER, 0, 0, TICK));
        self.rows.push((exit, 0, EventKind::TimerExit, 0, TIMER, 0, 0, u32::MAX));
        self.vector_exit(end);
    }

    pub fn job(&mut self, thread: i32, release: u64, start: u64, finish: u64) {
        self.jobs.push((thread, release, start, finish));
    }

    /// A job that is released at 1000 while the CPU is idle.
    pub fn release_and_run(&mut self, thread: i32, moments: Moments) {
        self.vector_entry(moments.interrupt);
        self.callback(moments.callback, moments.callback_end, thread, CALLBACK);
        self.vector_exit(moments.interrupt_end);
        if let Some(entry) = moments.entry {
            self.rows.push((entry, 0, EventKind::ScheduleEntry, 0, 0, 0, 0, u32::MAX));
        }
        self.switch(moments.switch, thread, PRIORITY);
        if let Some(exit) = moments.exit {
            self.rows.push((exit, 0, EventKind::ScheduleExit, thread, 0, 0, 0, u32::MAX));
        }
        self.job(thread, 1000, moments.start, moments.start + 100);
    }

    /// The same on another CPU.
    pub fn release_on(&mut self, cpu: u16, thread: i32, moments: Moments) {
        let from = self.rows.len();
        self.rows.push((10, 0, EventKind::Switch, 1, 0, 0, 120, u32::MAX));
        self.release_and_run(thread, moments);
        for row in &mut self.rows[from..] {
            row.1 = cpu;
            if row.2 == EventKind::Waking {
                row.4 = i64::from(cpu);
            }
        }
        self.rows.sort_by_key(|row| row.0);
    }

    /// A thread on CPU 0 is woken by CPU 1, whose request's handler begins later.
    pub fn request(&mut self, waking: u64, entry: u64, thread: i32, priority: i16) {
        self.insert((waking, 1, EventKind::Waking, 0, 0, thread, priority, u32::MAX));
        self.insert((entry, 0, EventKind::VectorEntry, 0, 253, 0, 0, RESCHEDULE));
        self.insert((entry + 20, 0, EventKind::VectorExit, 0, 253, 0, 0, u32::MAX));
    }

    /// Puts a row where its time belongs, after those of the same time.
    pub fn insert(&mut self, row: Row) {
        let place = self.rows.partition_point(|other| other.0 <= row.0);
        self.rows.insert(place, row);
    }

    pub fn measure(&self) -> Found {
        self.measure_with(&Stretches::default())
    }

    pub fn measure_with(&self, taken: &Stretches) -> Found {
        self.try_measure(taken).unwrap()
    }

    pub fn try_measure(&self, taken: &Stretches) -> Result<Found, OverheadsError> {
        fn column<T>(rows: &[Row], of: impl Fn(&Row) -> T) -> Vec<T> {
            rows.iter().map(of).collect()
        }
        let rows = self.rows.as_slice();
        let columns = TraceColumns {
            time: &column(rows, |row| row.0),
            cpu: &column(rows, |row| row.1),
            kind: &column(rows, |row| row.2 as u8),
            thread: &column(rows, |row| row.3),
            value: &column(rows, |row| row.4),
            other: &column(rows, |row| row.5),
            priority: &column(rows, |row| row.6),
            name: &column(rows, |row| row.7),
        };
        let names = ["hrtimer_wakeup", "tick_nohz_handler", "reschedule"].map(str::to_owned);
        let trace = Trace::new(columns, &names, self.covered)?;
        let job = |of: fn(&(i32, u64, u64, u64)) -> u64| self.jobs.iter().map(of).collect::<Vec<_>>();
        let threads: Vec<i32> = self.jobs.iter().map(|job| job.0).collect();
        let jobs = Jobs { thread: &threads, release: &job(|it| it.1), start: &job(|it| it.2), finish: &job(|it| it.3) };
        jobs.check()?;
        Ok(measure(&trace, &jobs, taken))
    }
}
