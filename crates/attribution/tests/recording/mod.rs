//! A trace written by hand, event by event, and what became of its spikes.

pub mod virtual_world;

use std::ops::Range;

use stealtime_attribution::{
    Attribution, AttributionError, EventKind, Followed, Labelled, NO_NAME, Spikes, Trace, TraceColumns, TraceError,
    World, attribute,
};

/// Nanoseconds are cycles in these tests.
pub const CYCLES_PER_NS: f64 = 1.0;

/// The thread that is measured natively.
pub const PROBE: i32 = 100;

/// Columns that grow.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    pub time: Vec<u64>,
    pub cpu: Vec<u16>,
    pub kind: Vec<u8>,
    pub thread: Vec<i32>,
    pub value: Vec<i64>,
    pub other: Vec<i32>,
    pub priority: Vec<i16>,
    pub name: Vec<u32>,
    pub names: Vec<String>,
    pub covered: (u64, u64),
}

impl Recording {
    pub fn until(end: u64) -> Self {
        Self { covered: (0, end), ..Self::default() }
    }

    fn name_of(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return NO_NAME;
        }
        let known = self.names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        u32::try_from(place).unwrap()
    }

    #[allow(clippy::too_many_arguments, reason = "the columns of the table")]
    pub fn event(
        &mut self,
        time: u64,
        cpu: u16,
        kind: EventKind,
        thread: i32,
        value: i64,
        other: i32,
        priority: i16,
        name: &str,
    ) -> &mut Self {
        let name = self.name_of(name);
        self.time.push(time);
        self.cpu.push(cpu);
        self.kind.push(kind as u8);
        self.thread.push(thread);
        self.value.push(value);
        self.other.push(other);
        self.priority.push(priority);
        self.name.push(name);
        self
    }

    /// `left` goes (state 0: it could go on) and the thread `next` with a priority and a name comes.
    pub fn switch(&mut self, time: u64, cpu: u16, left: i32, state: i64, next: (i32, i16, &str)) -> &mut Self {
        self.event(time, cpu, EventKind::Switch, left, state, next.0, next.1, next.2)
    }

    pub fn waking(&mut self, time: u64, cpu: u16, waker: i32, target: i64, woken: (i32, i16, &str)) -> &mut Self {
        self.event(time, cpu, EventKind::Waking, waker, target, woken.0, woken.1, woken.2)
    }

    /// Something is entered or left.
    pub fn served(&mut self, time: u64, cpu: u16, kind: EventKind, thread: i32, number: i64, name: &str) -> &mut Self {
        self.event(time, cpu, kind, thread, number, 0, 0, name)
    }

    /// The timer interrupts a thread.
    pub fn tick(&mut self, times: Range<u64>, cpu: u16, thread: i32) -> &mut Self {
        self.served(times.start, cpu, EventKind::VectorEntry, thread, 236, "local_timer");
        self.served(times.end, cpu, EventKind::VectorExit, thread, 236, "local_timer")
    }

    /// While `running` is on this CPU, the time of the thread `whose` is added up.
    pub fn runtime(&mut self, time: u64, cpu: u16, running: i32, whose: i32, ns: i64) -> &mut Self {
        self.event(time, cpu, EventKind::Runtime, running, ns, whose, 0, "")
    }

    pub fn lost(&mut self, time: u64, cpu: u16, events: i64) -> &mut Self {
        self.event(time, cpu, EventKind::Lost, 0, events, 0, 0, "")
    }

    pub fn trace(&self) -> Result<Trace<'_>, TraceError> {
        let columns = TraceColumns {
            time: &self.time,
            cpu: &self.cpu,
            kind: &self.kind,
            thread: &self.thread,
            value: &self.value,
            other: &self.other,
            priority: &self.priority,
            name: &self.name,
        };
        Trace::new(columns, &self.names, self.covered, CYCLES_PER_NS)
    }
}

/// The only probe, real-time.
pub const PROBES: &[i32] = &[PROBE];

/// Follow threads as real-time ones.
pub fn followed(threads: &[i32]) -> Followed<'_> {
    Followed { threads, real_time: true, limit_lifted: false }
}

/// A trace whose threads have only their own names.
pub fn unlabelled<'a>(trace: &'a Trace<'a>) -> Labelled<'a> {
    Labelled { trace, threads: &[], labels: &[], cpus: None }
}

/// Split one spike with no floor, and say its parts in words, the largest first.
pub fn parts_of(world: &World<'_>, start: u64, duration: u64) -> Result<Vec<(String, u64)>, AttributionError> {
    let spikes = Spikes { start: &[start], duration: &[duration], floor: 0 };
    let found = attribute(world, spikes, &[])?;
    Ok(in_words(&found, 0))
}

/// The parts of a spike: layer, kind and name.
pub fn in_words(found: &Attribution, spike: usize) -> Vec<(String, u64)> {
    let row = |place: usize| usize::try_from(found.parts.first[place]).unwrap();
    (row(spike)..row(spike + 1))
        .map(|part| {
            let cause = found.causes.get(found.parts.cause[part]).unwrap();
            let name = cause.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            (format!("{} {}{name}", cause.layer.name(), cause.kind.name()), found.parts.cycles[part])
        })
        .collect()
}
