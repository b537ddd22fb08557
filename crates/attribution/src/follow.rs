//! One layer by following threads: the probe in the machine under test, or the thread that is a virtual CPU
//! on the host.

use crate::cause::{CauseId, CauseTable, Kind, Layer};
use crate::naming::Naming;
use crate::processors::{FIRST_ORDINARY_PRIORITY, IDLE};
use crate::scheduler::{Event, Focus, Scheduler};
use crate::trace::{EventKind, Trace};
use crate::track::{Piece, TrackBuilder};

/// What a virtual CPU's thread does when it sleeps.
pub(crate) const WAITING_IN_EMULATOR: &str = "waiting in the emulator";
/// What a User-Mode Linux guest does whose probe sleeps.
pub(crate) const WAITING_FOR_TIMER: &str = "waiting for its timer";
/// The kernel's limit of real-time runtime (`sched_rt_runtime_us`).
pub(crate) const REAL_TIME_LIMIT: &str = "limit of real-time runtime";
/// The deadline server that runs ordinary threads beside real-time ones (Linux 6.12).
pub(crate) const FAIR_SERVER: &str = "fair server";

/// A thread that was woken and finds its CPU idle runs as soon as the CPU has left that state, which takes
/// microseconds, tens of them where the CPU is virtual. From this time on it is held back.
const LEAVING_IDLE_LIMIT_NS: f64 = 1e6;

/// Whom to follow, and as what.
#[derive(Debug, Clone)]
pub struct Followed<'a> {
    /// The threads; several are one group that runs while any of them does.
    pub threads: &'a [i32],
    /// Whether they are known to be real-time threads, whatever the events tell so far.
    pub real_time: bool,
    /// Whether the limit of real-time runtime was lifted, so that only the fair server is left.
    pub limit_lifted: bool,
}

/// A layer over time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layered {
    pub pieces: Vec<Piece>,
    /// What the numbers in `pieces` mean.
    pub table: CauseTable,
    /// When the group was known not to run, whatever the reason.
    pub off: Vec<(u64, u64)>,
    /// The same, where the end is inferred because a switch was not recorded.
    pub off_inferred: Vec<(u64, u64)>,
    /// When it could have run but did not.
    pub waits: Vec<(u64, u64)>,
    /// From when on it was on which CPU.
    pub places: Vec<(u64, u16)>,
    /// When a switch must have happened that was not recorded.
    pub unseen: Vec<(u64, u64)>,
    /// Of sleeps, from when on the wake-up may have been lost.
    pub doubtful: Vec<(u64, u64)>,
}

/// The sleeps of what is followed. A thread is woken on whatever CPU its waker has, also on one that it may
/// not use: a sleep in which events were lost anywhere may have ended then, and what followed was a wait.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    since: Option<u64>,
    doubtful: Vec<(u64, u64)>,
}

impl Sleeps {
    /// Take what is known from this time on.
    pub fn note(&mut self, trace: &Trace<'_>, time: u64, asleep: bool) {
        if asleep {
            self.since.get_or_insert(time);
        } else if let Some(since) = self.since.take() {
            let lost_since = trace.first_loss_within((since, time));
            self.doubtful.extend(lost_since.map(|lost_since| (lost_since, time)));
        }
    }

    /// Give the doubtful stretches.
    pub fn finish(mut self, trace: &Trace<'_>, end: u64) -> Vec<(u64, u64)> {
        self.note(trace, end, false);
        self.doubtful
    }
}

/// The time in which the group could run and does not.
struct Wait {
    mark: usize,
    since: u64,
    woken: bool,
    real_time: bool,
}

struct Follower<'a> {
    layer: Layer,
    followed: &'a Followed<'a>,
    scheduler: Scheduler<'a>,
    naming: Naming<'a>,
    track: TrackBuilder,
    wait: Option<Wait>,
    off_since: Option<u64>,
    /// Why the hypervisor has each member's CPU.
    exits: Vec<CauseId>,
    leaving_idle: CauseId,
    asleep: CauseId,
    quota: CauseId,
    cycles_per_ns: f64,
    off: Vec<(u64, u64)>,
    off_inferred: Vec<(u64, u64)>,
    waits: Vec<(u64, u64)>,
    places: Vec<(u64, u16)>,
    sleeps: Sleeps,
}

/// Follow a group of threads through a trace.
pub(crate) fn follow<'a>(
    trace: &'a Trace<'a>,
    layer: Layer,
    followed: &'a Followed<'a>,
    labelled: &[(i32, u16)],
    labels: &'a [String],
) -> Layered {
    let mut naming = Naming::new(trace, labels, layer);
    let (leaving_idle, asleep) = match layer {
        Layer::Machine => (naming.table.id(layer, Kind::Thread, Some("idle")), CauseId::NONE),
        Layer::Host | Layer::Above => {
            let waiting = naming.table.id(layer, Kind::VmExit, Some(WAITING_IN_EMULATOR));
            (waiting, waiting)
        }
    };
    let quota = naming.table.id(layer, Kind::QuotaThrottling, None);
    let follower = Follower {
        layer,
        followed,
        scheduler: Scheduler::new(trace, labelled, followed.threads),
        naming,
        track: TrackBuilder::new(),
        wait: None,
        off_since: None,
        exits: vec![CauseId::NONE; followed.threads.len()],
        leaving_idle,
        asleep,
        quota,
        cycles_per_ns: trace.cycles_per_ns,
        off: Vec::new(),
        off_inferred: Vec::new(),
        waits: Vec::new(),
        places: Vec::new(),
        sleeps: Sleeps::default(),
    };
    follower.run(trace)
}

impl Follower<'_> {
    fn run(mut self, trace: &Trace<'_>) -> Layered {
        while let Some(event) = self.scheduler.advance() {
            self.step(trace, event);
        }
        let end = trace.covered.1.max(trace.columns.time.last().copied().unwrap_or(0));
        self.end_wait(end);
        if let Some(since) = self.off_since {
            self.off.push((since, end));
        }
        // It may have run in between, where that was lost.
        self.off.retain(|&stretch| trace.first_loss_within(stretch).is_none());
        self.off_inferred.retain(|&stretch| trace.first_loss_within(stretch).is_none());
        Layered {
            pieces: self.track.finish(end),
            table: self.naming.table,
            off: self.off,
            off_inferred: self.off_inferred,
            waits: self.waits,
            places: self.places,
            unseen: self.scheduler.unseen,
            doubtful: self.sleeps.finish(trace, end),
        }
    }

    fn step(&mut self, trace: &Trace<'_>, event: Event) {
        let time = event.time;
        let focus = self.scheduler.focus();
        self.sleeps.note(trace, time, focus == Focus::Asleep);
        if let Some(since) = self.scheduler.ran_since.take() {
            self.track.take_back(since, time);
            self.end_off(since);
        }
        if let Some(&(since, until)) = self.scheduler.unseen.last()
            && until == time
        {
            // When it came back is not known, but that it was off until then.
            self.end_off(since);
        }
        self.note_exits(event);
        match focus {
            Focus::Waiting { member, woken, .. } if self.wait.is_none() => {
                self.track.cut(time);
                let real_time = self.is_real_time(member);
                self.wait = Some(Wait { mark: self.track.mark(), since: time, woken, real_time });
            }
            Focus::Waiting { .. } => {}
            _ => self.end_wait(time),
        }
        match focus {
            Focus::Running { .. } | Focus::Unknown => {
                if let Some(since) = self.off_since.take()
                    && focus != Focus::Unknown
                {
                    match event.seen {
                        None => self.off.push((since, time.max(since))),
                        // When exactly is not known well enough to compare clocks by it.
                        Some((until, _)) => self.off_inferred.push((since, until.max(since))),
                    }
                }
            }
            Focus::Waiting { .. } | Focus::Asleep => {
                let begun = event.seen.map_or(time, |(_, from)| from);
                self.off_since = Some(self.off_since.unwrap_or(begun));
            }
        }
        if let Focus::Running { cpu, .. } = focus
            && self.places.last().is_none_or(|&(_, at)| at != cpu)
        {
            self.places.push((time, cpu));
        }
        if event.kind == EventKind::Nmi && matches!(focus, Focus::Running { cpu, .. } if cpu == event.cpu) {
            let cause = self.naming.non_maskable();
            self.track.interject(time.saturating_sub(self.cycles(event.value)), time, cause);
        }
        let cause = self.cause(focus);
        self.track.change(time, cause);
    }

    /// It was off the CPU until this time at least.
    fn end_off(&mut self, time: u64) {
        self.end_wait(time);
        self.off_inferred.extend(self.off_since.take().map(|since| (since, time.max(since))));
    }

    fn note_exits(&mut self, event: Event) {
        let Some(member) = self.scheduler.threads.member(event.thread) else { return };
        match event.kind {
            EventKind::VmExit => {
                self.exits[usize::from(member)] = self.naming.vm_exit(event.name, event.value);
            }
            EventKind::VmEntry => self.exits[usize::from(member)] = CauseId::NONE,
            _ => {}
        }
    }

    fn cause(&mut self, focus: Focus) -> CauseId {
        match focus {
            Focus::Unknown => CauseId::NONE,
            Focus::Asleep => self.asleep,
            Focus::Running { member, cpu } => match self.scheduler.processors[usize::from(cpu)].innermost() {
                Some(served) => self.naming.served(served),
                None => self.exits[member],
            },
            Focus::Waiting { member, cpu, woken } => self.cause_of_waiting(member, cpu, woken),
        }
    }

    fn cause_of_waiting(&mut self, member: usize, cpu: u16, woken: bool) -> CauseId {
        let Some(processor) = self.scheduler.processors.get(usize::from(cpu)) else { return CauseId::NONE };
        let Some(current) = processor.current else { return CauseId::NONE };
        let row = self.scheduler.threads.get(current);
        let real_time = self.is_real_time(member);
        if !woken && current == IDLE {
            return if real_time { self.limited(REAL_TIME_LIMIT) } else { self.quota };
        }
        let is_lower = row.priority.is_some_and(|priority| priority >= FIRST_ORDINARY_PRIORITY);
        if !woken && real_time && is_lower {
            let name = if self.followed.limit_lifted { FAIR_SERVER } else { REAL_TIME_LIMIT };
            return self.limited(name);
        }
        if self.layer == Layer::Machine
            && let Some(served) = processor.innermost()
        {
            return self.naming.served(served);
        }
        if current == IDLE { self.leaving_idle } else { self.naming.displaced_by(current, row) }
    }

    fn limited(&mut self, name: &str) -> CauseId {
        self.naming.table.id(self.layer, Kind::RtThrottling, Some(name))
    }

    fn end_wait(&mut self, time: u64) {
        let Some(wait) = self.wait.take() else { return };
        self.track.cut(time);
        let until = time.max(wait.since);
        self.waits.push((wait.since, until));
        let is_held_back = (until - wait.since) as f64 > LEAVING_IDLE_LIMIT_NS * self.cycles_per_ns;
        if wait.woken && is_held_back {
            let held = if wait.real_time { self.limited(REAL_TIME_LIMIT) } else { self.quota };
            let leaving_idle = self.leaving_idle;
            self.track.relabel(wait.mark, |piece| {
                if piece.cause == leaving_idle {
                    piece.cause = held;
                }
            });
        }
        if !wait.real_time {
            self.extend_quota(wait.mark);
        }
    }

    /// Where the CPU was idle the thread was throttled, and it became so when its wait began: whoever ran in
    /// between took nothing from it.
    fn extend_quota(&mut self, mark: usize) {
        let quota = self.quota;
        let mut until = 0;
        self.track.relabel(mark, |piece| {
            if piece.cause == quota {
                until = piece.end;
            }
        });
        self.track.relabel(mark, |piece| {
            if piece.end <= until {
                piece.cause = quota;
            }
        });
    }

    fn is_real_time(&self, member: usize) -> bool {
        let thread = self.followed.threads[member];
        let priority = self.scheduler.threads.get(thread).priority;
        // A thread becomes a real-time one while it runs, which no event tells until it is switched to again.
        self.followed.real_time || priority.is_some_and(|priority| priority < FIRST_ORDINARY_PRIORITY)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a positive value")]
    fn cycles(&self, ns: i64) -> u64 {
        (ns.max(0) as f64 * self.cycles_per_ns) as u64
    }
}
