//! A known load: what a neighbour does to a machine, and how much of it.
//!
//! [`cpu`] and [`memory`] say what the work is, [`phases`] when it is done, [`rows`] what is written down.
//! All memory is had and touched before the first phase; while a load is on nothing is allocated and nothing
//! but rows is written. Start and end of each row are stamped with the time-stamp counter, so that cause and
//! effect can be put on one time line.

mod answering;
mod cpu;
mod error;
mod findings;
mod memory;
mod needs;
mod phases;
mod rows;
mod staying;
mod thread;
mod work;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use stealtime_wire::{ClockReading, Finding, Load, LoadOutcome, LoadRequest, WorkUnit};

use crate::clock::{self, TscRate};
use crate::load::answering::{Answering, Retreat};
use crate::load::cpu::CpuWork;
pub use crate::load::error::LoadError;
use crate::load::memory::MemoryWork;
use crate::load::phases::{Control, Pulse};
use crate::load::thread::{Assignment, Ready, Worked};
use crate::load::work::Work;
use crate::processor_sets::granted_cpus;
use crate::scheduling;

/// How the threads are called, in `top` and in traces.
pub const THREAD_NAME: &str = "st-load";

/// More threads than that are no load but a mistake.
const MOST_THREADS: u32 = 256;

/// Shorter phases would be more switching than load.
const SHORTEST_PHASE_NS: u64 = 100_000;

/// One page; the paper's block has 9 MB.
const SMALLEST_BLOCK_BYTES: u64 = 4096;

/// A stretch in which one thread was on, cut at a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadRow {
    pub thread: u32,
    /// The time-stamp counter at its beginning.
    pub start: u64,
    /// Cycles to its end.
    pub duration: u64,
    /// Work done in it, in the load's unit.
    pub work: u64,
}

#[derive(Debug)]
pub struct LoadRecording {
    /// The table `load`, in the order of `start`.
    pub rows: Vec<LoadRow>,
    pub outcome: LoadOutcome,
}

/// A load that is on; dropped, it ends by itself.
#[derive(Debug)]
pub struct RunningLoad {
    control: Arc<Control>,
    threads: Vec<JoinHandle<Worked>>,
    thread_ids: Vec<u32>,
    request: LoadRequest,
    rate: TscRate,
    start: ClockReading,
    findings: Vec<Finding>,
    /// The agent's threads, which come back last.
    retreat: Option<Retreat>,
}

impl RunningLoad {
    /// Starts the threads, waits until each has its memory and its place, and lets them begin together. The calling
    /// thread keeps off the CPUs that a load under `SCHED_FIFO` would keep it from, until that has ended.
    ///
    /// # Errors
    /// [`LoadError`]; nothing runs then.
    pub fn start(request: &LoadRequest, rate: &TscRate) -> Result<Self, LoadError> {
        Self::start_beside(request, rate, &[])
    }

    /// The same where other threads of the agent must run as well, by which it hears that it is to stop: their own ids.
    pub fn start_beside(request: &LoadRequest, rate: &TscRate, agent_threads: &[u32]) -> Result<Self, LoadError> {
        let pulse = validate(request)?;
        let inherited = scheduling::allowed_cpus()?;
        let granted = granted_cpus().unwrap_or_else(|_| inherited.clone());
        let Answering { cpus, finding } = answering::find(request, pulse, &inherited, &granted)?;
        let mut findings = findings::before(request, pulse);
        findings.extend(finding);
        let mut load = Self {
            control: Arc::new(Control::default()),
            threads: Vec::new(),
            thread_ids: vec![0; request.threads as usize],
            request: request.clone(),
            rate: rate.clone(),
            start: clock::read_clocks(),
            findings: Vec::new(),
            retreat: None,
        };
        let (told, ready) = channel();
        for number in 0..request.threads as usize {
            let assignment = Assignment {
                number,
                request: request.clone(),
                pulse,
                control: Arc::clone(&load.control),
                rate: rate.clone(),
                told: told.clone(),
            };
            let body = move || assignment.carry_out();
            load.threads.push(Builder::new().name(THREAD_NAME.to_owned()).spawn(body)?);
        }
        drop(told);
        let mut refused = None;
        for _ in 0..request.threads {
            // Closed without a word if a thread panicked before it was ready.
            let Ready { number, thread_id, refusal } = ready.recv().map_err(|_| LoadError::Panicked)??;
            load.thread_ids[number] = thread_id;
            refused = refused.or(refusal);
        }
        findings.extend(refused.map(|error| findings::no_sched_fifo(&error, request.priority)));
        load.findings = findings;
        // The threads of the load were started before, and are where this one was.
        load.retreat = cpus.map(|cpus| Retreat::to(&cpus, agent_threads)).transpose()?;
        load.start = clock::read_clocks();
        load.control.release();
        Ok(load)
    }

    /// The threads that load, as the machine's kernel counts them.
    pub fn thread_ids(&self) -> &[u32] {
        &self.thread_ids
    }

    /// Ends the load and gathers what its threads wrote down. Each ends after its current step, some
    /// microseconds (in a translated guest some tenths of a millisecond) after it gets the CPU.
    pub fn stop(mut self) -> Result<LoadRecording, LoadError> {
        self.control.stop();
        let threads = std::mem::take(&mut self.threads);
        let worked: Vec<Worked> = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| LoadError::Panicked))
            .collect::<Result<_, _>>()?;
        let end = clock::read_clocks();
        let sum = |of: fn(&Worked) -> u64| worked.iter().map(of).sum::<u64>();
        let (work, on_cycles) = (sum(|one| one.rows.work), sum(|one| one.rows.on_cycles));
        let mut findings = std::mem::take(&mut self.findings);
        findings.extend(findings::after(sum(|one| one.missed), sum(|one| one.rows.lost), work));
        findings.extend(crate::findings::clocks(&self.rate.check(&self.start, &end)));
        findings.extend(self.first_moved(&worked));
        let mut rows = table(&self.thread_ids, worked);
        rows.sort_unstable_by_key(|row| (row.start, row.thread));
        let on_ns = self.rate.to_ns(on_cycles);
        let outcome = LoadOutcome {
            unit: unit(&self.request.kind),
            work,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and below 2^53")]
            on_ns: on_ns.round() as u64,
            rate_per_s: if on_cycles == 0 { 0.0 } else { work as f64 * 1e9 / on_ns },
            tsc_hz: self.rate.hz,
            start: self.start,
            end,
            thread_ids: self.thread_ids.clone(),
            findings,
        };
        Ok(LoadRecording { rows, outcome })
    }

    /// What is to be told of the first thread that did not stay where it was put; a cpuset moves all of them.
    fn first_moved(&self, worked: &[Worked]) -> Option<Finding> {
        let since_start_s = |tsc: u64| self.rate.to_ns(tsc.saturating_sub(self.start.tsc)) * 1e-9;
        let mut threads = self.thread_ids.iter().zip(worked);
        let (thread, moved) = threads.find_map(|(&thread, one)| Some((thread, one.moved.as_ref()?)))?;
        Some(staying::finding(thread, moved, since_start_s))
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.control.stop();
        drop(self.retreat.take());
    }
}

/// The rows of all threads in one table, made for as many as there are. Those of a thread go once they are in it.
fn table(thread_ids: &[u32], worked: Vec<Worked>) -> Vec<LoadRow> {
    let mut rows = Vec::with_capacity(worked.iter().map(|one| one.rows.kept().len()).sum());
    for (&thread, one) in thread_ids.iter().zip(worked) {
        let row = |row: &rows::Row| LoadRow { thread, start: row.start, duration: row.duration, work: row.work };
        rows.extend(one.rows.kept().iter().map(row));
    }
    rows
}

fn unit(kind: &Load) -> WorkUnit {
    match kind {
        Load::Cpu {} => CpuWork::UNIT,
        Load::Memory { .. } => MemoryWork::UNIT,
    }
}

fn validate(request: &LoadRequest) -> Result<Option<Pulse>, LoadError> {
    let out_of = |parameter, value, expected: String| Err(LoadError::Parameter { parameter, value, expected });
    if !(1..=MOST_THREADS).contains(&request.threads) {
        return out_of("threads", request.threads.into(), format!("1 to {MOST_THREADS}"));
    }
    if request.priority > 99 {
        return out_of("priority", request.priority.into(), "0 (ordinary scheduling) to 99".to_owned());
    }
    if let Load::Memory { block_bytes } = request.kind
        && block_bytes < SMALLEST_BLOCK_BYTES
    {
        return out_of("block_bytes", block_bytes, format!("at least {SMALLEST_BLOCK_BYTES}"));
    }
    needs::refuse_too_much(request, stealtime_memory::room(Path::new("/")).as_ref())?;
    let (on_ns, off_ns) = match (request.on_ns, request.off_ns) {
        (None, None) => return Ok(None),
        (Some(on_ns), Some(off_ns)) => (on_ns, off_ns),
        (on_ns, off_ns) => return Err(LoadError::HalfAPulse { on_ns, off_ns }),
    };
    // A year is more than enough, and keeps sums of times far from 2^64.
    let possible = SHORTEST_PHASE_NS..=365 * 86_400 * 1_000_000_000;
    let expected = || format!("{} to {}", possible.start(), possible.end());
    if !possible.contains(&on_ns) {
        return out_of("on_ns", on_ns, expected());
    }
    if !possible.contains(&off_ns) {
        return out_of("off_ns", off_ns, expected());
    }
    Ok(Some(Pulse { on_ns, off_ns }))
}
