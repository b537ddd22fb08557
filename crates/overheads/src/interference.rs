//! What takes a CPU from the jobs and is in no sample that an analysis charges: the interrupts of devices and of other
//! CPUs, softirqs, timers of others, and real-time threads that are none of the jobs'.

use rustc_hash::FxHashSet;
use stealtime_wire::EventKind;

use crate::trace::Trace;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TakerClass {
    /// The handler of a device's interrupt.
    Device,
    /// An interrupt of the CPU's own in which no timer expired, such as another CPU's request.
    Vector,
    /// An interrupt in which timers expired, neither the tick nor one that wakes a job's thread.
    OtherTimer,
    Softirq,
    /// A thread at least as urgent as the least urgent job's.
    RealTimeThread,
}

impl TakerClass {
    pub const ALL: [Self; 5] = [Self::Device, Self::Vector, Self::OtherTimer, Self::Softirq, Self::RealTimeThread];

    /// As documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device interrupt",
            Self::Vector => "interrupt",
            Self::OtherTimer => "timer interrupt of others",
            Self::Softirq => "softirq",
            Self::RealTimeThread => "real-time thread",
        }
    }
}

/// One stretch that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taking {
    pub class: TakerClass,
    pub cpu: u16,
    /// The place of its name among those of the trace, or none ([`u32::MAX`]).
    pub name: u32,
    pub start: u64,
    pub end: u64,
    /// Without what came on top of it.
    pub net: u64,
}

/// What has begun on a CPU, the innermost last.
struct Open {
    kind: EventKind,
    number: i64,
    name: u32,
    at: u64,
    nested: u64,
    expiries: u16,
    /// Its time is in a sample: it is the tick, or wakes a job's thread.
    is_charged: bool,
}

/// Who has the CPU.
struct Running {
    is_other: bool,
    name: u32,
    at: u64,
    nested: u64,
}

/// Goes over the CPUs that jobs' threads ran on. `own` are these threads.
pub fn interference(trace: &Trace<'_>, own: &FxHashSet<i32>) -> Vec<Taking> {
    let columns = &trace.columns;
    let mut takings = Vec::new();
    for (cpu, rows) in (0_u16..).zip(&trace.rows) {
        let own_priorities = rows
            .iter()
            .map(|&row| row as usize)
            .filter(|&row| trace.kind(row) == EventKind::Switch && own.contains(&columns.other[row]));
        let Some(least_urgent) = own_priorities.map(|row| columns.priority[row]).max() else { continue };
        let mut pass = Pass { trace, own, cpu, least_urgent, stack: Vec::new(), running: None, takings: &mut takings };
        for &row in rows {
            pass.step(row as usize);
        }
    }
    takings
}

struct Pass<'a, 'b, 'c> {
    trace: &'b Trace<'a>,
    own: &'b FxHashSet<i32>,
    cpu: u16,
    /// The largest priority of a job's thread, as the kernel counts.
    least_urgent: i16,
    stack: Vec<Open>,
    running: Option<Running>,
    takings: &'c mut Vec<Taking>,
}

impl Pass<'_, '_, '_> {
    fn step(&mut self, row: usize) {
        let columns = &self.trace.columns;
        let (at, number, name) = (columns.time[row], columns.value[row], columns.name[row]);
        match self.trace.kind(row) {
            EventKind::Lost => {
                self.stack.clear();
                self.running = None;
            }
            kind @ (EventKind::InterruptEntry | EventKind::VectorEntry | EventKind::SoftirqEntry) => {
                self.stack.push(Open { kind, number, name, at, nested: 0, expiries: 0, is_charged: false });
            }
            EventKind::InterruptExit => self.end(EventKind::InterruptEntry, number, at),
            EventKind::VectorExit => self.end(EventKind::VectorEntry, number, at),
            EventKind::SoftirqExit => self.end(EventKind::SoftirqEntry, number, at),
            EventKind::TimerEntry => {
                let is_tick = self.trace.is_tick(row);
                if let Some(open) = self.stack.last_mut() {
                    open.expiries = open.expiries.saturating_add(1);
                    open.is_charged |= is_tick;
                }
            }
            EventKind::Waking if self.own.contains(&columns.other[row]) => {
                // A softirq that wakes one is in no sample: only the interrupt is.
                if let Some(open) = self.stack.last_mut().filter(|open| open.expiries > 0) {
                    open.is_charged = true;
                }
            }
            EventKind::Switch => {
                // No interrupt reaches over a switch: what is open has lost its end.
                self.stack.clear();
                self.end_turn(at);
                let priority = columns.priority[row];
                let is_other = !self.own.contains(&columns.other[row]) && priority <= self.least_urgent;
                self.running = Some(Running { is_other, name, at, nested: 0 });
            }
            _ => {}
        }
    }

    fn end(&mut self, kind: EventKind, number: i64, at: u64) {
        let Some(position) = self.stack.iter().rposition(|open| open.kind == kind && open.number == number) else {
            return;
        };
        self.stack.truncate(position + 1);
        let Some(open) = self.stack.pop() else { return };
        let length = at - open.at;
        match (self.stack.last_mut(), self.running.as_mut()) {
            (Some(around), _) => around.nested += length,
            (None, Some(running)) => running.nested += length,
            (None, None) => {}
        }
        if open.is_charged && kind != EventKind::SoftirqEntry {
            return;
        }
        let class = match kind {
            EventKind::SoftirqEntry => TakerClass::Softirq,
            EventKind::InterruptEntry => TakerClass::Device,
            _ if open.expiries > 0 => TakerClass::OtherTimer,
            _ => TakerClass::Vector,
        };
        self.take(class, open.name, (open.at, at), open.nested);
    }

    fn end_turn(&mut self, at: u64) {
        if let Some(turn) = self.running.take().filter(|turn| turn.is_other) {
            self.take(TakerClass::RealTimeThread, turn.name, (turn.at, at), turn.nested);
        }
    }

    fn take(&mut self, class: TakerClass, name: u32, (start, end): (u64, u64), nested: u64) {
        let net = (end - start).saturating_sub(nested);
        self.takings.push(Taking { class, cpu: self.cpu, name, start, end, net });
    }
}
