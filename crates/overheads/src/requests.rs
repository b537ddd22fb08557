//! Inter-processor interrupts: from the moment that one CPU wakes a thread of another to that CPU's handler.
//!
//! LITMUS^RT measures `SEND_RESCHED` so, from the sender's request on; here it begins at the wake-up that leads to it,
//! so that what the waker does in between counts. A kernel sends a request only if the thread may go first, and none
//! to an idle CPU that looks by itself. So a wake-up counts only of a real-time thread that is more urgent than who
//! runs on the other CPU, where the request comes before anything else is chosen there. Of several that one request
//! serves the first counts.

use stealtime_wire::EventKind;

use crate::flags::Flags;
use crate::sample::{Sample, SampleKind};
use crate::scan::is_real_time;
use crate::stretches::Stretches;
use crate::trace::Trace;

/// What one CPU did, in the order of time.
#[derive(Default)]
struct Cpu {
    /// When, and the priority of who was chosen.
    switches: Vec<(u64, i16)>,
    /// Handlers of interrupts that began, and whether another CPU asked for it.
    handlers: Vec<(u64, bool)>,
}

struct WakeUp {
    at: u64,
    thread: i32,
    priority: i16,
    target: u16,
}

/// Goes over all CPUs.
pub fn requests(trace: &Trace<'_>, taken: &Stretches) -> Vec<Sample> {
    let columns = &trace.columns;
    let mut cpus: Vec<Cpu> = Vec::new();
    let mut wake_ups = Vec::new();
    for (cpu, rows) in (0_u16..).zip(&trace.rows) {
        let mut own = Cpu::default();
        for row in rows.iter().map(|&row| row as usize) {
            let at = columns.time[row];
            match trace.kind(row) {
                EventKind::Switch => own.switches.push((at, columns.priority[row])),
                EventKind::InterruptEntry => own.handlers.push((at, false)),
                EventKind::VectorEntry => own.handlers.push((at, trace.is_request(row))),
                EventKind::Waking if is_real_time(columns.priority[row]) => {
                    let other = u16::try_from(columns.value[row]).ok().filter(|&target| target != cpu);
                    let (thread, priority) = (columns.other[row], columns.priority[row]);
                    wake_ups.extend(other.map(|target| WakeUp { at, thread, priority, target }));
                }
                _ => {}
            }
        }
        cpus.push(own);
    }
    wake_ups.sort_by_key(|one| (one.target, one.at));
    let mut samples: Vec<Sample> = Vec::new();
    for one in wake_ups {
        let Some(sample) = cpus.get(usize::from(one.target)).and_then(|cpu| cpu.answer(&one, trace, taken)) else {
            continue;
        };
        let end = |of: &Sample| (of.cpu, of.start + of.duration);
        if samples.last().is_none_or(|last| end(last) != end(&sample)) {
            samples.push(sample);
        }
    }
    samples
}

impl Cpu {
    /// The request that a wake-up led to.
    fn answer(&self, wake_up: &WakeUp, trace: &Trace<'_>, taken: &Stretches) -> Option<Sample> {
        let (at, cpu) = (wake_up.at, wake_up.target);
        let next = self.switches.partition_point(|&(time, _)| time <= at);
        let &(since, running) = self.switches.get(next.checked_sub(1)?)?;
        if running <= wake_up.priority {
            return None;
        }
        let first = self.handlers.partition_point(|&(time, _)| time < at);
        let before = self.handlers.get(first..)?.iter().position(|&(_, is_request)| is_request)?;
        let end = self.handlers.get(first + before)?.0;
        // Chosen, or somebody else, without any request; or it is not known what happened.
        if self.switches.get(next).is_some_and(|&(time, _)| time < end)
            || trace.lost.get(usize::from(cpu)).is_some_and(|lost| lost.overlap(since, end))
        {
            return None;
        }
        let flags = Flags::REAL_TIME
            | Flags::INTERRUPTED.when(before > 0)
            | Flags::TAKEN.when(taken.overlap(at, end))
            | Flags::LOST_NEAR.when(trace.lost_elsewhere(cpu, at, end));
        let (kind, thread, duration) = (SampleKind::Request, wake_up.thread, end - at);
        Some(Sample { kind, cpu, thread, start: at, duration, flags, expiries: 0, releases: 0, ticks: 0 })
    }
}
