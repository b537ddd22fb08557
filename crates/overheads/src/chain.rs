//! The chain of each job: its latency from release to start, each stretch of it in one part.

use rustc_hash::FxHashMap;
use stealtime_wire::EventKind;

use crate::discards::{Discards, JobDiscard};
use crate::error::OverheadsError;
use crate::flags::Flags;
use crate::part::Part;
use crate::scan::{Scanned, Wake};
use crate::stretches::Stretches;
use crate::trace::Trace;

const PARTS: usize = Part::ALL.len();

/// Jobs as their threads stamped them, on the counter of the trace; all columns equally long.
#[derive(Debug, Clone, Copy, Default)]
pub struct Jobs<'a> {
    /// The job's thread, as the trace numbers it; the jobs of a thread are in their order.
    pub thread: &'a [i32],
    /// The programmed release.
    pub release: &'a [u64],
    /// Its first instruction.
    pub start: &'a [u64],
    pub finish: &'a [u64],
}

impl Jobs<'_> {
    /// Checks that the columns are equally long.
    pub fn check(&self) -> Result<(), OverheadsError> {
        let expected = self.thread.len();
        let lengths = [("release", self.release.len()), ("start", self.start.len()), ("finish", self.finish.len())];
        lengths
            .into_iter()
            .find(|&(_, rows)| rows != expected)
            .map_or(Ok(()), |(column, rows)| Err(OverheadsError::Length { table: "the jobs", column, rows, expected }))
    }
}

/// Chains, one row for each job.
#[derive(Debug, Clone, Default)]
pub struct Chains {
    /// Why there is none; [`JobDiscard::None`] where there is one.
    pub discard: Vec<JobDiscard>,
    /// By [`Part::ALL`], in cycles; all 0 where there is no chain.
    pub parts: [Vec<u64>; PARTS],
    pub flags: Vec<Flags>,
    /// In which parts an interrupt began, other than that of the timer: a bit for each of [`Part::ALL`].
    pub interrupted: Vec<u16>,
    /// In which parts the host took the CPU, likewise.
    pub taken: Vec<u16>,
    /// How long the whole interrupt lasted in which the timer expired; 0 where it was none.
    pub interrupt: Vec<u64>,
}

impl Chains {
    fn push(&mut self, chain: Result<Chain, JobDiscard>) -> JobDiscard {
        let (chain, why) = match chain {
            Ok(chain) => (chain, JobDiscard::None),
            Err(why) => (Chain::default(), why),
        };
        self.discard.push(why);
        for (column, part) in self.parts.iter_mut().zip(chain.parts) {
            column.push(part);
        }
        self.flags.push(chain.flags);
        self.interrupted.push(chain.interrupted);
        self.taken.push(chain.taken);
        self.interrupt.push(chain.interrupt);
        why
    }
}

/// Follows each job from its release to its start.
pub fn follow(
    trace: &Trace<'_>,
    scanned: &Scanned,
    jobs: &Jobs<'_>,
    taken: &Stretches,
    discards: &mut Discards,
) -> Chains {
    let mut chains = Chains::default();
    let mut last_finish = FxHashMap::default();
    let wakes = scanned.by_thread();
    for (number, &thread) in jobs.thread.iter().enumerate() {
        let before = last_finish.insert(thread, jobs.finish[number]);
        let job = Job { thread, before, release: jobs.release[number], start: jobs.start[number] };
        let chain = match before {
            Some(finish) if finish > job.release => Err(JobDiscard::Backlogged),
            _ => follow_one(trace, wakes.get(&thread).copied().unwrap_or_default(), job, taken),
        };
        discards.job(chains.push(chain));
    }
    chains
}

#[derive(Debug, Clone, Copy)]
struct Job {
    thread: i32,
    /// When the thread finished the job before.
    before: Option<u64>,
    release: u64,
    start: u64,
}

#[derive(Debug, Default)]
struct Chain {
    parts: [u64; PARTS],
    flags: Flags,
    interrupted: u16,
    taken: u16,
    interrupt: u64,
    /// Until when parts were given so far.
    at: u64,
}

impl Chain {
    /// Gives the time up to `until` to a part.
    fn give(&mut self, part: Part, until: u64, interrupted: bool, taken: &Stretches) {
        let bit = 1 << part as u16;
        self.parts[part as usize] += until - self.at;
        self.interrupted |= if interrupted { bit } else { 0 };
        self.taken |= if taken.overlap(self.at, until) { bit } else { 0 };
        self.at = until;
    }
}

fn follow_one(trace: &Trace<'_>, wakes: &[Wake], job: Job, taken: &Stretches) -> Result<Chain, JobDiscard> {
    if job.start < job.release {
        return Err(JobDiscard::StartedEarly);
    }
    if job.release < trace.covered.0 || job.start > trace.covered.1 {
        return Err(JobDiscard::OutsideTrace);
    }
    let wake = find_wake(trace, wakes, job)?;
    let cpu = usize::from(wake.cpu);
    if trace.lost[cpu].overlap(job.release, job.start) {
        return Err(JobDiscard::Hole);
    }
    let rows = &trace.rows[cpu];
    let time_of = |place: usize| trace.columns.time[rows[place] as usize];
    let mut chain = Chain { at: job.release, ..Chain::default() };
    // Interrupts between release and callback, but for the callback's own.
    // They are few rows before the interrupt's end, and far fewer than a search would look at.
    let since = (0..wake.place).rev().take_while(|&place| time_of(place) >= job.release);
    let until = since.filter(|&place| time_of(place) <= wake.entry);
    let before = until.filter(|&place| begins_interrupt(trace.kind(rows[place] as usize)));
    let own = usize::from(wake.interrupt_entry.is_some_and(|entry| entry >= job.release));
    let is_interrupted = before.count() > own;
    chain.give(Part::EventLatency, wake.entry, is_interrupted, taken);
    chain.give(Part::Release, wake.exit, wake.interrupted.0, taken);
    chain.give(Part::InterruptRest, wake.interrupt_exit, wake.interrupted.1, taken);
    chain.interrupt = wake.interrupt_entry.map_or(0, |entry| wake.interrupt_exit - entry);
    chain.flags = Flags::REAL_TIME.when(wake.priority < 100);
    let walk = Walk { trace, rows, job, wake, taken };
    walk.until_start(&mut chain)?;
    chain.flags |= Flags::INTERRUPTED.when(chain.interrupted != 0)
        | Flags::TAKEN.when(chain.taken != 0)
        | Flags::LOST_NEAR.when(trace.lost_elsewhere(wake.cpu, job.release, job.start));
    Ok(chain)
}

fn begins_interrupt(kind: EventKind) -> bool {
    matches!(kind, EventKind::InterruptEntry | EventKind::VectorEntry | EventKind::Nmi)
}

fn find_wake<'a>(trace: &Trace<'_>, wakes: &'a [Wake], job: Job) -> Result<&'a Wake, JobDiscard> {
    let from = wakes.partition_point(|wake| wake.entry < job.release);
    let mut within = wakes[from..].iter().take_while(|wake| wake.exit <= job.start);
    let Some(wake) = within.next() else {
        // Its callback may be among what was lost.
        if trace.lost.iter().any(|lost| lost.overlap(job.release, job.start)) {
            return Err(JobDiscard::Hole);
        }
        let last = from.checked_sub(1).and_then(|last| wakes.get(last));
        // Between the end of the last job and this release a sleeping thread is woken by nothing else.
        let is_early = |wake: &Wake| wake.exit > job.release || job.before.is_some_and(|finish| wake.entry > finish);
        return Err(if last.is_some_and(is_early) { JobDiscard::ReleasedEarly } else { JobDiscard::NoTimer });
    };
    if within.next().is_some() {
        return Err(JobDiscard::Ambiguous);
    }
    if wake.target != i64::from(wake.cpu) {
        return Err(JobDiscard::ReleasedElsewhere);
    }
    if wake.interrupt_exit > job.start {
        return Err(JobDiscard::NotRunning);
    }
    Ok(wake)
}

/// From the interrupt's end to the job's own stamp.
struct Walk<'a, 'b> {
    trace: &'b Trace<'a>,
    rows: &'b [u32],
    job: Job,
    wake: &'b Wake,
    taken: &'b Stretches,
}

/// What was seen since the last boundary.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// When the scheduler was entered.
    entry: Option<u64>,
    /// Whether an interrupt began before that, and since.
    interrupted: (bool, bool),
}

impl Walk<'_, '_> {
    fn until_start(&self, chain: &mut Chain) -> Result<(), JobDiscard> {
        let columns = &self.trace.columns;
        let (mut running, mut priority) = self.wake.running.ok_or(JobDiscard::RunnerUnknown)?;
        if running == self.job.thread {
            return Err(JobDiscard::NeverLeft);
        }
        let mut switches = 0;
        let mut seen = Seen::default();
        for &row in &self.rows[self.wake.place + 1..] {
            let row = row as usize;
            let time = columns.time[row];
            if time > self.job.start {
                break;
            }
            match self.trace.kind(row) {
                kind if begins_interrupt(kind) => {
                    seen.interrupted.0 |= seen.entry.is_none();
                    seen.interrupted.1 |= seen.entry.is_some();
                }
                EventKind::ScheduleEntry => seen.entry = Some(time),
                EventKind::ScheduleExit if running == self.job.thread => {
                    let part = if seen.entry.is_some() { Part::Return } else { Part::ContextSwitch };
                    let interrupted = seen.interrupted.0 || seen.interrupted.1;
                    chain.give(part, time, interrupted, self.taken);
                    seen = Seen { entry: None, interrupted: (false, false) };
                    chain.flags |= Flags::FINE;
                }
                // Only a thread that runs leaves the scheduler: the kernel left the switch out of the trace.
                EventKind::ScheduleExit if columns.thread[row] == self.job.thread => {
                    chain.give(Part::UnseenSwitch, time, seen.interrupted.0 || seen.interrupted.1, self.taken);
                    (running, priority) = (self.job.thread, self.wake.priority);
                    seen = Seen::default();
                    chain.flags |= Flags::FINE;
                }
                EventKind::ScheduleExit => seen.entry = None,
                EventKind::Switch => {
                    self.end_turn(chain, (running, priority), switches, seen, time);
                    (running, priority) = (columns.other[row], columns.priority[row]);
                    switches += 1;
                    seen = Seen::default();
                }
                _ => {}
            }
        }
        if running != self.job.thread {
            return Err(JobDiscard::NotRunning);
        }
        chain.flags |= Flags::DIRECT.when(switches == 1 && chain.parts[Part::Preemption as usize] == 0);
        let last = if chain.flags.has(Flags::FINE) { Part::Return } else { Part::Arrival };
        chain.give(last, self.job.start, seen.interrupted.0 || seen.interrupted.1, self.taken);
        Ok(())
    }

    /// Gives the time of the thread that leaves the CPU now.
    fn end_turn(&self, chain: &mut Chain, (running, priority): (i32, i16), switches: u32, seen: Seen, time: u64) {
        let is_outranked = priority > self.wake.priority;
        let (before, after) = if running == self.job.thread {
            let known = chain.flags.has(Flags::FINE);
            (if known { Part::Return } else { Part::Arrival }, Part::Preemption)
        } else if !is_outranked {
            (Part::Preemption, Part::Scheduling)
        } else if switches == 0 {
            (if seen.entry.is_some() { Part::InterruptExit } else { Part::Dispatch }, Part::Scheduling)
        } else {
            (Part::Remainder, Part::Remainder)
        };
        if let Some(entry) = seen.entry {
            chain.give(before, entry, seen.interrupted.0, self.taken);
            chain.give(after, time, seen.interrupted.1, self.taken);
        } else {
            chain.give(before, time, seen.interrupted.0, self.taken);
        }
    }
}
