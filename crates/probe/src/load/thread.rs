//! One thread of a load, from its start to its end.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use stealtime_wire::{Load, LoadRequest};

use crate::clock::TscRate;
use crate::load::cpu::CpuWork;
use crate::load::error::LoadError;
use crate::load::memory::MemoryWork;
use crate::load::needs::bytes_of_a_thread;
use crate::load::phases::{self, Control, Pulse, Schedule};
use crate::load::rows::Rows;
use crate::load::staying::{Moved, Staying};
use crate::load::work::Work;
use crate::processor_sets::nameable_cpus;
use crate::scheduling;
use crate::sys::time_stamp_counter;

/// What a thread is told.
pub struct Assignment {
    pub number: usize,
    /// What was asked for, and can be.
    pub request: LoadRequest,
    /// The phases of the request.
    pub pulse: Option<Pulse>,
    /// By which it is released and stopped.
    pub control: Arc<Control>,
    /// The rate of the time-stamp counter.
    pub rate: TscRate,
    /// Where it says that it is ready, or why it cannot be.
    pub told: Sender<Result<Ready, LoadError>>,
}

/// What a thread says when it is ready to begin.
pub struct Ready {
    pub number: usize,
    pub thread_id: u32,
    /// Why it does not run under `SCHED_FIFO` although it was asked to.
    pub refusal: Option<io::Error>,
}

/// What a thread brings back.
#[derive(Debug)]
pub struct Worked {
    /// What it wrote down.
    pub rows: Rows,
    /// Phases in which it did not get the CPU at all.
    pub missed: u64,
    /// Whether it was put elsewhere meanwhile.
    pub moved: Option<Moved>,
}

/// What a thread has when it is ready to begin.
struct Prepared<W> {
    work: W,
    rows: Rows,
    staying: Staying,
    ready: Ready,
}

impl Assignment {
    /// Prepares, waits for the release, and works until it is stopped.
    pub fn carry_out(&self) -> Worked {
        match self.request.kind {
            Load::Cpu {} => self.prepare_and_work(|| Ok(CpuWork::new())),
            Load::Memory { block_bytes } => self.prepare_and_work(|| {
                let refused = |error| LoadError::Memory {
                    threads: self.request.threads,
                    bytes: bytes_of_a_thread(&self.request.kind),
                    source: io::Error::other(error),
                };
                MemoryWork::new(usize::try_from(block_bytes).unwrap_or(usize::MAX)).map_err(refused)
            }),
        }
    }

    fn prepare_and_work<W: Work>(&self, make: impl FnOnce() -> Result<W, LoadError>) -> Worked {
        match self.prepare(make) {
            Ok(Prepared { mut work, mut rows, mut staying, ready }) => {
                // Nobody listens if another thread has failed; then the release never comes, but the stop.
                let _ = self.told.send(Ok(ready));
                let missed = self.control.wait_for_release().map_or(0, |origin_ns| {
                    let schedule = Schedule { origin_ns, pulse: self.pulse };
                    phases::run(&mut work, schedule, &self.control, &self.rate, &mut rows, &mut staying)
                });
                Worked { rows, missed, moved: staying.end(time_stamp_counter()) }
            }
            Err(error) => {
                // As above.
                let _ = self.told.send(Err(error));
                Worked { rows: Rows::none(), missed: 0, moved: None }
            }
        }
    }

    /// Goes where it is to run, and only then takes its memory: so it lies on that CPU's memory node.
    /// `SCHED_FIFO` comes last, since touching memory takes long.
    fn prepare<W: Work>(&self, make: impl FnOnce() -> Result<W, LoadError>) -> Result<Prepared<W>, LoadError> {
        let LoadRequest { cpus, priority, .. } = &self.request;
        if !cpus.is_empty() {
            let refused = |source| LoadError::Cpus { cpus: cpus.clone(), granted: nameable_cpus(), source };
            scheduling::place_on(cpus).map_err(refused)?;
        }
        let (work, rows) = (make()?, Rows::new());
        let refusal = match priority {
            0 => scheduling::leave_fifo().map(|()| None)?,
            &priority => scheduling::request_fifo(priority).err(),
        };
        let ready = Ready { number: self.number, thread_id: scheduling::thread_id(), refusal };
        Ok(Prepared { work, rows, staying: Staying::begin(time_stamp_counter())?, ready })
    }
}
