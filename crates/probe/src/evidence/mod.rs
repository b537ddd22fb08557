//! Evidence of a limit on real-time threads: the stretches in which the measured CPU ran an ordinary thread, or
//! nothing, while the probe could have run.
//!
//! A thread of `SCHED_FIFO` that can run keeps ordinary ones from its CPU, and keeps it from idling, unless its
//! kernel stops it: by RT throttling, or in favour of the fair server. A thief of higher priority, an interrupt,
//! or a host that takes the whole machine away leave no such stretch. So a limit explains a sample only as far as
//! such stretches lie within it, whatever it could have done.
//!
//! The kernel's switches on that CPU tell them (`perf_event_open(2)` on the tracepoint `sched_switch`): next to
//! nothing where a busy thread has the CPU. The threads of a ring switch all the time, and to record each switch
//! would be a part of what is measured; of them only idling is recorded (`cpu_idle`), which never happens beside a
//! ring that is not stopped. Where neither can be had nothing is explained, and the reason is told.
//!
//! A thread on another CPU reads the events now and then, asleep otherwise. Where there is no other CPU they are
//! read after the last sample: an ordinary thread that wants the measured CPU is what the fair server serves.

mod follow;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use stealtime_owner::TraceIds;
use stealtime_trace::Tracefs;
use stealtime_trace::format::{EventFormat, Field};
use stealtime_wire::{ClockReading, ThreadRole};

use crate::clock;
use crate::evidence::follow::{Event, Follower};
use crate::running::RunningTrial;
use crate::scheduling;
use crate::sys::{CpuEvents, Record};

pub use follow::Seen;

/// A ring buffer of a CPU has room for some 5,000 switches.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Events of several CPUs are put in order; those of one may be seen a little after those of another.
const LATE_NS: u64 = 10_000_000;

/// `PWR_EVENT_EXIT` (`include/trace/events/power.h`) in the field `state` of `cpu_idle`.
const IDLE_EXIT: i64 = 0xFFFF_FFFF;

/// Of the kernel's priorities the first of an ordinary thread (`MAX_RT_PRIO`, `include/linux/sched/prio.h`).
const FIRST_ORDINARY_PRIORITY: i64 = 100;

/// The states of a thread that waits or has ended (`TASK_REPORT`, `include/linux/sched.h`); without one of them it
/// could have gone on.
const WAITING_STATES: i64 = 0xFF;

/// What to record of a probe's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Its one thread never sleeps: who runs instead.
    Switches,
    /// Its threads hand over to each other all the time, and one of them could always run: idling.
    Idling,
}

/// Watches the CPUs of a probe.
pub struct Watch {
    wanted: Wanted,
    layout: Layout,
    cpus: Vec<CpuEvents>,
    /// Read and not followed yet: time, place in `cpus`, event.
    pending: Vec<(u64, usize, Event)>,
    follower: Follower,
}

impl Watch {
    pub fn begin(wanted: Wanted, cpus: &[u32]) -> Result<Self, String> {
        if wanted == Wanted::Switches && TraceIds::here() == TraceIds::Unknown {
            return Err("this PID namespace does not know its threads' ids in the kernel's events".to_owned());
        }
        let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
        let layout = Layout::read(&tracefs)?;
        let (tracepoint, with_arrivals) = match wanted {
            Wanted::Switches => (layout.switch_id, true),
            Wanted::Idling => (layout.idle_id, false),
        };
        let open = |&cpu: &u32| CpuEvents::open(cpu, tracepoint, with_arrivals);
        let events: Result<Vec<CpuEvents>, _> = cpus.iter().map(open).collect();
        let cpus = events.map_err(|error| format!("the events of its CPU are refused: {error}"))?;
        let follower = Follower::new(cpus.len(), wanted == Wanted::Idling);
        Ok(Self { wanted, layout, cpus, pending: Vec::new(), follower })
    }

    /// Looks now and then until the other end of `stopped` is gone.
    pub fn look_until(&mut self, stopped: &Receiver<()>, running: &RunningTrial) {
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            self.look(running, clock::read_clocks().monotonic_raw_ns.saturating_sub(LATE_NS));
        }
    }

    /// Stops recording.
    pub fn end(mut self, running: &RunningTrial) -> Seen {
        self.look(running, u64::MAX);
        self.follower.into_seen()
    }

    fn look(&mut self, running: &RunningTrial, until_ns: u64) {
        for (place, events) in self.cpus.iter_mut().enumerate() {
            let mut last_ns = 0;
            events.read(|record| match record {
                Record::Event { raw_ns, event } => {
                    last_ns = raw_ns;
                    self.pending.extend(self.layout.understand(event).map(|event| (raw_ns, place, event)));
                }
                Record::Came { raw_ns, thread } => {
                    last_ns = raw_ns;
                    self.pending.push((raw_ns, place, Event::Came { thread }));
                }
                Record::Lost => self.pending.push((last_ns, place, Event::Lost)),
            });
        }
        self.pending.sort_by_key(|&(raw_ns, ..)| raw_ns);
        let ripe = self.pending.partition_point(|&(raw_ns, ..)| raw_ns <= until_ns);
        let probe = (self.wanted == Wanted::Switches).then(|| probe_thread(running)).flatten();
        for (raw_ns, place, event) in self.pending.drain(..ripe) {
            self.follower.take(raw_ns, place, event, probe);
        }
    }
}

fn probe_thread(running: &RunningTrial) -> Option<u32> {
    running.threads.list().into_iter().find(|thread| thread.role == ThreadRole::Probe).map(|thread| thread.id)
}

/// Whether somebody can look without taking part in what is looked at.
pub fn has_other_cpu(cpus: &[u32]) -> bool {
    scheduling::allowed_cpus().is_ok_and(|allowed| allowed.iter().any(|cpu| !cpus.contains(cpu)))
}

/// Stretches on the clock of samples that count the time-stamp counter, as (start, duration) from `origin` on.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cycles of a trial are below 2^53")]
pub fn from_origin(stretches: &[(u64, u64)], start: &ClockReading, end: &ClockReading, origin: u64) -> Vec<(u64, u64)> {
    let cycles_per_ns = end.tsc.saturating_sub(start.tsc) as f64
        / end.monotonic_raw_ns.saturating_sub(start.monotonic_raw_ns).max(1) as f64;
    let units = |raw_ns: u64| {
        let since_start = raw_ns.saturating_sub(start.monotonic_raw_ns) as f64 * cycles_per_ns;
        (start.tsc + since_start as u64).saturating_sub(origin)
    };
    let on_clock = stretches.iter().map(|&(from, to)| (units(from), units(to)));
    on_clock.filter(|(from, to)| to > from).map(|(from, to)| (from, to - from)).collect()
}

/// Where in the kernel's events is what is read of them.
struct Layout {
    switch_id: u16,
    previous: Field,
    previous_state: Field,
    previous_priority: Field,
    next: Field,
    next_priority: Field,
    idle_id: u16,
    state: Field,
}

impl Layout {
    fn read(tracefs: &Tracefs) -> Result<Self, String> {
        let format = |event: &str| {
            let file = format!("events/{event}/format");
            let text = std::fs::read_to_string(tracefs.path(&file)).map_err(|error| format!("{file}: {error}"))?;
            EventFormat::parse(&text).map_err(|problem| format!("{file}: {problem}"))
        };
        let (switch, idle) = (format("sched/sched_switch")?, format("power/cpu_idle")?);
        Ok(Self {
            switch_id: switch.id,
            previous: switch.required("prev_pid")?,
            previous_state: switch.required("prev_state")?,
            previous_priority: switch.required("prev_prio")?,
            next: switch.required("next_pid")?,
            next_priority: switch.required("next_prio")?,
            idle_id: idle.id,
            state: idle.required("state")?,
        })
    }

    fn understand(&self, event: &[u8]) -> Option<Event> {
        let id = u16::from_ne_bytes(event.get(..2)?.try_into().ok()?);
        if id == self.idle_id {
            return Some(Event::Idle { enters: self.state.number(event)? & IDLE_EXIT != IDLE_EXIT });
        }
        if id != self.switch_id {
            return None;
        }
        let thread = |field: Field| u32::try_from(field.number(event)?).ok();
        Some(Event::Switch {
            previous: thread(self.previous)?,
            previous_could_run: self.previous_state.number(event)? & WAITING_STATES == 0,
            previous_is_ordinary: self.previous_priority.number(event)? >= FIRST_ORDINARY_PRIORITY,
            next: thread(self.next)?,
            next_is_ordinary: self.next_priority.number(event)? >= FIRST_ORDINARY_PRIORITY,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_put_on_the_clock_of_the_samples() {
        let reading = |tsc, monotonic_raw_ns| ClockReading { tsc, monotonic_raw_ns, monotonic_ns: 0, bracket_tsc: 0 };
        // 2 cycles in a nanosecond; sample 0 begins 100 cycles after the first reading.
        let (start, end) = (reading(1_000, 500), reading(3_000, 1_500));
        let found = from_origin(&[(400, 540), (600, 700), (700, 710)], &start, &end, 1_100);
        assert_eq!(found, [(100, 200), (300, 20)], "what ended before sample 0 is left out");
        assert_eq!(from_origin(&[(400, 600)], &start, &end, 1_100), [(0, 100)]);
    }

    /// On the kernel of whoever builds: what it is asked for is there, or it says what is refused.
    #[test]
    fn the_switches_of_a_cpu_are_seen_or_it_is_said_why_not() {
        let cpus = scheduling::allowed_cpus().unwrap();
        match Watch::begin(Wanted::Switches, &cpus) {
            Err(reason) => {
                assert!(!reason.is_empty());
                eprintln!("skipped: {reason}");
            }
            Ok(mut watch) => {
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                for events in &mut watch.cpus {
                    events.read(|record| {
                        if let Record::Event { event, .. } = record {
                            assert!(watch.layout.understand(event).is_some(), "{event:?}");
                            watch.pending.push((0, 0, Event::Lost));
                        }
                    });
                }
                assert!(watch.pending.len() >= 20, "{} events of 20 sleeps", watch.pending.len());
            }
        }
    }
}
