//! A trace that is made up event by event.

use stealtime_wire::{EventKind, TraceColumns};

/// Rows in the order of time.
#[derive(Debug, Default, Clone)]
pub struct Recording {
    rows: Vec<(u64, u16, EventKind, i32, i64, i32)>,
    time: Vec<u64>,
    cpu: Vec<u16>,
    kind: Vec<u8>,
    thread: Vec<i32>,
    value: Vec<i64>,
    other: Vec<i32>,
    priority: Vec<i16>,
    name: Vec<u32>,
}

impl Recording {
    pub fn tell(&mut self, time: u64, cpu: u16, kind: EventKind, (thread, value, other): (i32, i64, i32)) {
        self.rows.push((time, cpu, kind, thread, value, other));
    }

    pub fn columns(&mut self) -> TraceColumns<'_> {
        self.rows.sort_by_key(|row| row.0);
        self.time = self.rows.iter().map(|row| row.0).collect();
        self.cpu = self.rows.iter().map(|row| row.1).collect();
        self.kind = self.rows.iter().map(|row| row.2 as u8).collect();
        self.thread = self.rows.iter().map(|row| row.3).collect();
        self.value = self.rows.iter().map(|row| row.4).collect();
        self.other = self.rows.iter().map(|row| row.5).collect();
        self.priority = vec![0; self.rows.len()];
        self.name = vec![u32::MAX; self.rows.len()];
        TraceColumns {
            time: &self.time,
            cpu: &self.cpu,
            kind: &self.kind,
            thread: &self.thread,
            value: &self.value,
            other: &self.other,
            priority: &self.priority,
            name: &self.name,
        }
    }
}

pub const VIRTUAL_CPU: i32 = 11;
pub const MAIN: i32 = 10;
pub const WORKER: i32 = 12;
pub const THIEF: i32 = 99;

/// The way of one request; the host's counter is the guest's less `offset`.
pub struct Way {
    pub guest: Recording,
    pub host: Recording,
    pub raised: Vec<u64>,
    pub offset: u64,
}

impl Way {
    pub fn new(offset: u64) -> Self {
        let mut way = Self { guest: Recording::default(), host: Recording::default(), raised: Vec::new(), offset };
        way.host.tell(0, 1, EventKind::Switch, (0, 0, VIRTUAL_CPU));
        way
    }

    /// A request at a sector: issued, notified, begun, done, raised, handled, completed; on the guest's counter.
    pub fn request(&mut self, sector: i64, times: [u64; 7]) {
        let [issued, notified, begun, done, raised, handled, completed] = times;
        self.guest.tell(issued, 0, EventKind::BlockIssue, (5, sector, 8));
        self.guest.tell(handled, 0, EventKind::InterruptEntry, (5, 32, 0));
        self.guest.tell(completed, 0, EventKind::BlockComplete, (5, sector, 8));
        let offset = self.offset;
        self.host.tell(notified - offset, 1, EventKind::CallEntry, (VIRTUAL_CPU, 1, 0));
        self.host.tell(begun - offset, 0, EventKind::FileCall, (WORKER, sector * 512, 3));
        self.host.tell(done - offset, 0, EventKind::CallExit, (WORKER, 17, 0));
        self.raised.push(raised - offset);
    }

    /// The virtual CPU's thread is put off its CPU although it could run.
    pub fn preempt(&mut self, start: u64, end: u64) {
        self.host.tell(start - self.offset, 1, EventKind::Switch, (VIRTUAL_CPU, 0, THIEF));
        self.host.tell(end - self.offset, 1, EventKind::Switch, (THIEF, 0, VIRTUAL_CPU));
    }
}

impl Way {
    pub fn clone_of(&self) -> Self {
        Self { guest: self.guest.clone(), host: self.host.clone(), raised: self.raised.clone(), offset: self.offset }
    }
}
