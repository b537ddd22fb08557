//! User-Mode Linux, seen from its host only: its kernel has no tracing.
//!
//! The guest's user code runs in *stub* processes, its kernel in the *kernel process*, which drives the stubs
//! by ptrace. So a stub on a CPU is the guest's user code, of the guest's thread that the last `guest_switch`
//! named; the way from a stub to the kernel process and back is a *visit* to the guest's kernel, for the
//! timer if a SIGALRM came meanwhile; and nobody on a CPU, nobody waiting for one, is the guest's idleness.
//!
//! What happens inside a visit cannot be told apart: the guest's interrupts, softirqs and kernel threads are
//! one cause.

use std::collections::{HashMap, HashSet};

use crate::cause::{CauseId, Kind, Layer};
use crate::follow::{Layered, REAL_TIME_LIMIT, Sleeps, WAITING_FOR_TIMER};
use crate::naming::Naming;
use crate::processors::{FIRST_ORDINARY_PRIORITY, IDLE};
use crate::scheduler::{Doing, Event, Scheduler};
use crate::trace::{EventKind, Trace};
use crate::track::TrackBuilder;

/// By which the host's timer drives the guest's clock (arch/um/os-Linux/time.c).
const SIGALRM: i64 = 14;

/// The state of a process that stopped for its tracer, as `sched_switch` gives it (include/linux/sched.h).
const TASK_TRACED: i64 = 8;

/// The kernel process passes its SIGALRM on to a stub that runs user code (`um_timer`,
/// arch/um/kernel/time.c), which stops for it at once: one tick is two visits with a moment of the stub
/// between them, no longer than this.
const PASSED_ON_LIMIT_NS: f64 = 50e3;

/// What a visit to the guest's kernel is called that was not for its timer.
const KERNEL_ENTERED: &str = "guest kernel entered";

/// A guest, as its host sees it.
#[derive(Debug, Clone)]
pub struct UserMode<'a> {
    /// Host threads of the guest's kernel. Its stubs are found in the trace.
    pub kernel_threads: &'a [i32],
    /// Thread pointers of the guest's threads with their labels; `None` is the probe.
    pub pointers: &'a [(u64, Option<String>)],
    /// Whether the probe could always run, so that the guest's idleness is the limit of its real-time
    /// runtime. A probe that sleeps waits for the host's timer instead.
    pub probe_never_sleeps: bool,
    /// How to judge a displaced thread whose priority no event tells.
    pub real_time: bool,
}

/// A visit to the guest's kernel.
struct Visit {
    mark: usize,
    for_timer: bool,
}

struct Watcher<'a> {
    guest: &'a UserMode<'a>,
    scheduler: Scheduler<'a>,
    naming: Naming<'a>,
    track: TrackBuilder,
    /// Kernel threads first, then stubs.
    members: Vec<i32>,
    runs_next: Option<u64>,
    pointers: HashMap<u64, Option<CauseId>>,
    visit: Option<Visit>,
    timer_served_at: Option<u64>,
    /// Since when each member could run and does not.
    waits_since: Vec<Option<u64>>,
    waits: Vec<(u64, u64)>,
    sleeps: Sleeps,
    entered: CauseId,
    tick: CauseId,
    idle: CauseId,
    another_thread: CauseId,
    passed_on_limit: u64,
    cycles_per_ns: f64,
}

/// What the guest as a whole does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doings {
    Unknown,
    UserCode { cpu: u16 },
    Kernel { cpu: u16 },
    Waiting { member: usize, cpu: u16, woken: bool },
    Idle,
}

/// Find the causes of both layers of a User-Mode Linux guest.
pub(crate) fn watch<'a>(
    trace: &'a Trace<'a>,
    guest: &'a UserMode<'a>,
    tracers: &[(i32, i32)],
    labelled: &[(i32, u16)],
    labels: &'a [String],
) -> Layered {
    let mut naming = Naming::new(trace, labels, Layer::Host);
    let members = with_stubs(guest.kernel_threads, tracers);
    let entered = naming.table.id(Layer::Machine, Kind::VmExit, Some(KERNEL_ENTERED));
    let tick = naming.table.id(Layer::Machine, Kind::TimerTick, None);
    let another_thread = naming.table.id(Layer::Machine, Kind::Thread, Some("another thread"));
    let idle = if guest.probe_never_sleeps {
        naming.table.id(Layer::Machine, Kind::RtThrottling, Some(REAL_TIME_LIMIT))
    } else {
        naming.table.id(Layer::Host, Kind::VmExit, Some(WAITING_FOR_TIMER))
    };
    let pointers = guest.pointers.iter().map(|(pointer, label)| {
        let cause = label.as_ref().map(|label| naming.table.id(Layer::Machine, Kind::Thread, Some(label)));
        (*pointer, cause)
    });
    let pointers = pointers.collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
    let passed_on_limit = (PASSED_ON_LIMIT_NS * trace.cycles_per_ns) as u64;
    let scheduler = Scheduler::new(trace, labelled, &members);
    let waits_since = vec![None; members.len()];
    let watcher = Watcher {
        guest,
        scheduler,
        naming,
        track: TrackBuilder::new(),
        members,
        runs_next: None,
        pointers,
        visit: None,
        timer_served_at: None,
        waits_since,
        waits: Vec::new(),
        sleeps: Sleeps::default(),
        entered,
        tick,
        idle,
        another_thread,
        passed_on_limit,
        cycles_per_ns: trace.cycles_per_ns,
    };
    watcher.run(trace)
}

fn with_stubs(kernel_threads: &[i32], tracers: &[(i32, i32)]) -> Vec<i32> {
    let driven = tracers.iter().filter(|(_, tracer)| kernel_threads.contains(tracer));
    kernel_threads.iter().copied().chain(driven.map(|&(stub, _)| stub)).collect()
}

/// Every traced process with the thread that drives it: the one that wakes it from a stop for its tracer. The
/// pid that `guest_switch` names is of the guest's own pid namespace and says nothing here.
pub(crate) fn find_tracers(trace: &Trace<'_>) -> Vec<(i32, i32)> {
    let columns = &trace.columns;
    let mut stopped = HashSet::new();
    let mut tracers = Vec::new();
    for (row, &kind) in columns.kind.iter().enumerate() {
        if kind == EventKind::Switch as u8 && columns.value[row] & TASK_TRACED != 0 {
            stopped.insert(columns.thread[row]);
        } else if kind == EventKind::Waking as u8
            && columns.thread[row] != IDLE
            && stopped.contains(&columns.other[row])
        {
            let driven = (columns.other[row], columns.thread[row]);
            if !tracers.contains(&driven) {
                tracers.push(driven);
            }
        }
    }
    tracers
}

impl Watcher<'_> {
    fn run(mut self, trace: &Trace<'_>) -> Layered {
        while let Some(event) = self.scheduler.advance() {
            self.step(trace, event);
        }
        let end = trace.covered.1.max(trace.columns.time.last().copied().unwrap_or(0));
        self.end_visit(end);
        Layered {
            pieces: self.track.finish(end),
            table: self.naming.table,
            waits: self.waits,
            unseen: self.scheduler.unseen,
            doubtful: self.sleeps.finish(trace, end),
            ..Layered::default()
        }
    }

    fn step(&mut self, trace: &Trace<'_>, event: Event) {
        let time = event.time;
        let doings = self.doings();
        self.sleeps.note(trace, time, doings == Doings::Idle);
        if let Some(since) = self.scheduler.ran_since.take() {
            self.track.take_back(since, time);
        }
        match event.kind {
            EventKind::GuestSwitch if self.guest.kernel_threads.contains(&event.thread) => {
                self.runs_next = Some(event.value.cast_unsigned());
            }
            EventKind::Nmi => {
                let on = |cpu: u16| cpu == event.cpu;
                if matches!(doings, Doings::UserCode { cpu } | Doings::Kernel { cpu } if on(cpu)) {
                    let cause = self.naming.non_maskable();
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
                    let cycles = (event.value.max(0) as f64 * self.cycles_per_ns) as u64;
                    self.track.interject(time.saturating_sub(cycles), time, cause);
                }
            }
            _ => {}
        }
        self.note_visit(time, doings);
        if event.kind == EventKind::Signal
            && event.value == SIGALRM
            && self.scheduler.threads.member(event.thread).is_some()
            && let Some(visit) = &mut self.visit
        {
            visit.for_timer = true;
        }
        self.note_waits(time);
        let cause = self.cause(doings);
        self.track.change(time, cause);
    }

    /// The kernel process and a stub may wait at the same time, and the host's scheduler counts both.
    fn note_waits(&mut self, time: u64) {
        for (member, waits_since) in self.waits_since.iter_mut().enumerate() {
            match self.scheduler.doing(member) {
                Doing::Waiting { since, .. } => *waits_since = Some(since),
                _ => self.waits.extend(waits_since.take().map(|since| (since, time))),
            }
        }
    }

    /// A visit lasts while the kernel process runs, or is on its way to run or back, whoever keeps it
    /// waiting.
    fn note_visit(&mut self, time: u64, doings: Doings) {
        let kernel_waits = |member: usize| member < self.guest.kernel_threads.len();
        match doings {
            Doings::Kernel { .. } if self.visit.is_none() => self.begin_visit(time),
            Doings::Waiting { member, woken: true, .. } if self.visit.is_none() && kernel_waits(member) => {
                self.begin_visit(time);
            }
            Doings::Kernel { .. } | Doings::Waiting { .. } => {}
            Doings::UserCode { .. } | Doings::Idle | Doings::Unknown => self.end_visit(time),
        }
    }

    fn begin_visit(&mut self, time: u64) {
        self.track.cut(time);
        let for_timer = self.timer_served_at.is_some_and(|served| time - served <= self.passed_on_limit);
        // What is passed on once is not passed on again.
        self.timer_served_at = None;
        self.visit = Some(Visit { mark: self.track.mark(), for_timer });
    }

    fn end_visit(&mut self, time: u64) {
        let Some(visit) = self.visit.take() else { return };
        self.track.cut(time);
        if visit.for_timer {
            let (entered, tick) = (self.entered, self.tick);
            self.track.relabel(visit.mark, |piece| {
                if piece.cause == entered {
                    piece.cause = tick;
                }
            });
            self.timer_served_at = Some(time);
        }
    }

    fn doings(&self) -> Doings {
        let kernel_threads = self.guest.kernel_threads.len();
        let mut kernel = None;
        let mut waiting: Option<(u64, Doings)> = None;
        let mut asleep = false;
        for member in 0..self.members.len() {
            match self.scheduler.doing(member) {
                Doing::Running(cpu) if member >= kernel_threads => return Doings::UserCode { cpu },
                Doing::Running(cpu) => kernel = Some(Doings::Kernel { cpu }),
                Doing::Waiting { cpu, since, woken } => {
                    if waiting.is_none_or(|(first, _)| since < first) {
                        waiting = Some((since, Doings::Waiting { member, cpu, woken }));
                    }
                }
                Doing::Asleep => asleep = true,
                Doing::Unknown => {}
            }
        }
        let otherwise = if asleep { Doings::Idle } else { Doings::Unknown };
        kernel.or(waiting.map(|(_, doings)| doings)).unwrap_or(otherwise)
    }

    fn cause(&mut self, doings: Doings) -> CauseId {
        match doings {
            Doings::Unknown => CauseId::NONE,
            Doings::Idle => self.idle,
            Doings::UserCode { cpu } => self.served(cpu).unwrap_or_else(|| self.user_code()),
            Doings::Kernel { cpu } => self.served(cpu).unwrap_or(self.entered),
            Doings::Waiting { member, cpu, woken } => self.cause_of_waiting(member, cpu, woken),
        }
    }

    fn served(&mut self, cpu: u16) -> Option<CauseId> {
        let served = *self.scheduler.processors[usize::from(cpu)].innermost()?;
        Some(self.naming.served(&served))
    }

    /// The probe's own code is no cause. Before the first `guest_switch` nobody can say whose code it is.
    fn user_code(&self) -> CauseId {
        let Some(pointer) = self.runs_next else { return CauseId::NONE };
        match self.pointers.get(&pointer) {
            Some(None) => CauseId::NONE,
            Some(Some(cause)) => *cause,
            None => self.another_thread,
        }
    }

    fn cause_of_waiting(&mut self, member: usize, cpu: u16, woken: bool) -> CauseId {
        let current = self.scheduler.processors.get(usize::from(cpu)).and_then(|it| it.current);
        let Some(current) = current else { return CauseId::NONE };
        if woken && current == IDLE {
            return self.entered;
        }
        let row = self.scheduler.threads.get(current);
        if row.member.is_some() {
            // The one that hands over is still on the CPU.
            return self.entered;
        }
        let priority = self.scheduler.threads.get(self.members[member]).priority;
        let real_time = priority.map_or(self.guest.real_time, |priority| priority < FIRST_ORDINARY_PRIORITY);
        let is_lower = row.priority.is_some_and(|priority| priority >= FIRST_ORDINARY_PRIORITY);
        if !woken && real_time && (current == IDLE || is_lower) {
            return self.naming.table.id(Layer::Host, Kind::RtThrottling, Some(REAL_TIME_LIMIT));
        }
        if current == IDLE {
            return self.naming.table.id(Layer::Host, Kind::QuotaThrottling, None);
        }
        self.naming.displaced_by(current, row)
    }
}
