//! One execution of a probe: preparation, the measuring thread, the injected disturbance, and the outcome.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use stealtime_wire::{
    ClockReading, ClockRecord, Finding, Injection, Layout, Placement, Probe, ThreadRole, TrialOutcome,
    TrialRequest,
};

use crate::clock::{self, SampleClock, TscRate};
use crate::guest_exit::ExitMaker;
use crate::injection::{self, Thefts};
use crate::recorder::{Recorder, Recording, RunningTrial, reclaim};
use crate::request::{TrialError, measuring_cpus, validate};
use crate::scheduling;
use crate::switch::RingShape;
use crate::throttling::{Lifted, Limit};
use crate::{facts, findings, preflight, steal, switch, sys, tick, wakeup};

/// Sample memory may take half of what is available, unless a number of samples was asked for.
const MEMORY_SHARE_DIVISOR: u64 = 2;

/// How long a ring of two turns to find how many switches a trial can hold at most.
const SHORTEST_TURN_SEARCH_NS: u64 = 30_000_000;

/// A request with what is needed to carry it out.
pub struct Trial<'a> {
    /// What to measure.
    pub request: &'a TrialRequest,
    /// The rate of the time-stamp counter.
    pub rate: &'a TscRate,
    /// By which others watch and stop it.
    pub running: &'a RunningTrial,
}

/// What the measuring thread brings back.
struct Measured {
    recorder: Arc<Recorder>,
    floor_units: Option<u64>,
    start: ClockReading,
    start_realtime_ns: u64,
    end: ClockReading,
    placement: Placement,
    counters: BTreeMap<String, u64>,
    findings: Vec<Finding>,
}

/// Carries out a trial and waits for its end.
///
/// # Errors
/// [`TrialError`], if it could not begin.
pub fn run_trial(trial: &Trial) -> Result<Recording, TrialError> {
    let request = trial.request;
    validate(request)?;
    let lifted = request
        .lift_rt_throttling
        .then(Lifted::lift)
        .transpose()
        .map_err(|source| TrialError::Throttling { source })?;
    let cpus = measuring_cpus(request);
    let throttling = what_stops_a_real_time_thread();
    let mut found = preflight::examine(cpus);
    found.extend(findings::several_cpus(request));
    let finished = AtomicBool::new(false);
    let (measured, thefts) = thread::scope(|scope| {
        let finished = &finished;
        let (ready, is_ready) = channel();
        let stealing = request
            .injection
            .as_ref()
            .map(|injection| start_thief(scope, trial, injection, is_ready, finished))
            .transpose()?;
        let measuring = spawn(scope, "measure", move || {
            let result = measure(trial, &ready);
            finished.store(true, Ordering::SeqCst);
            result
        })?;
        let measured = measuring.join().map_err(|_| TrialError::Panicked)?;
        let thefts = stealing.map(|handle| handle.join().map_err(|_| TrialError::Panicked)).transpose()?;
        Ok::<_, TrialError>((measured?, thefts))
    })?;
    // Somebody else may have put a lifted limit back meanwhile.
    let throttling = rt_throttling_now().or(throttling);
    drop(lifted);
    let Measured {
        recorder,
        floor_units,
        start,
        start_realtime_ns,
        end,
        placement,
        mut counters,
        findings: more,
    } = measured;
    found.extend(more);
    // A thread that did not ask for SCHED_FIFO, or was refused it, is not throttled.
    found.extend(throttling.filter(|_| placement.policy == "SCHED_FIFO"));
    let origin = recorder.origin();
    let recorder = reclaim(recorder);
    let capacity = recorder.capacity();
    let samples = recorder.into_samples();
    let check = trial.rate.check(&start, &end);
    found.extend(findings::clocks(&check));
    findings::samples(&samples, &mut counters, &mut found);
    found.extend(findings::ended_early(request, &samples, capacity, trial.running.is_cancelled()));
    let mut injected = Vec::new();
    if let Some(thefts) = thefts {
        let thefts =
            thefts.map_err(|source| TrialError::Cpus { cpus: cpus.to_vec(), allowed: allowed(), source })?;
        found.extend(thefts.refusal.as_ref().map(findings::injection_not_above));
        injected = thefts
            .stamped
            .into_iter()
            .filter_map(|(at, took)| Some((at.checked_sub(origin)?, took)))
            .collect();
        counters.insert("injected".to_owned(), injected.len() as u64);
    }
    let clock = sample_clock(&request.probe);
    let outcome = TrialOutcome {
        trial: request.trial,
        request: request.clone(),
        findings: found,
        clock: ClockRecord {
            name: match clock {
                SampleClock::Tsc => "tsc",
                SampleClock::Monotonic => "monotonic",
            }
            .to_owned(),
            units_per_s: match clock {
                SampleClock::Tsc => trial.rate.hz,
                SampleClock::Monotonic => 1e9,
            },
            tsc_hz: trial.rate.hz,
            tsc_hz_source: trial.rate.source.clone(),
            check,
            facts: facts::clocks(),
            start,
            end,
            start_realtime_ns,
            origin_units: origin,
        },
        layout: layout(&request.probe),
        placement,
        calibrated_floor_units: floor_units,
        counters,
        threads: trial.running.threads.list(),
        tracing: None,
    };
    Ok(Recording { samples, injected, outcome })
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, TrialError> {
    thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, body).map_err(TrialError::Threads)
}

fn layout(probe: &Probe) -> Layout {
    match *probe {
        Probe::Tick { .. } => Layout::Tiled,
        Probe::Switch { .. } => Layout::Gapped,
        Probe::Wakeup { interval_ns } => Layout::Periodic { interval: interval_ns },
    }
}

fn sample_clock(probe: &Probe) -> SampleClock {
    match probe {
        Probe::Tick { .. } | Probe::Switch { .. } => SampleClock::Tsc,
        Probe::Wakeup { .. } => SampleClock::Monotonic,
    }
}

/// Whether `SCHED_FIFO` was asked for.
fn is_real_time(request: &TrialRequest) -> bool {
    request.priority > 0
}

fn what_stops_a_real_time_thread() -> Option<Finding> {
    rt_throttling_now().or_else(preflight::fair_server)
}

fn rt_throttling_now() -> Option<Finding> {
    Limit::read().ok().and_then(|limit| preflight::rt_throttling(&limit))
}

fn allowed() -> Vec<u32> {
    scheduling::allowed_cpus().unwrap_or_default()
}

/// The measuring thread; tells `ready` when only the measuring is left to do.
fn measure(trial: &Trial, ready: &Sender<()>) -> Result<Measured, TrialError> {
    let TrialRequest { probe, priority, duration_ns, .. } = trial.request;
    let cpus = measuring_cpus(trial.request);
    let allowed = allowed();
    scheduling::place_on(cpus).map_err(|source| TrialError::Cpus { cpus: cpus.to_vec(), allowed, source })?;
    let mut findings = Vec::new();
    if is_real_time(trial.request) {
        findings.extend(findings::no_sched_fifo(scheduling::request_fifo(*priority), *priority, probe));
    } else {
        scheduling::leave_fifo()?;
    }
    let duration_cycles = trial.rate.to_cycles(*duration_ns);
    let (voluntary_before, involuntary_before) = sys::thread_context_switches();
    let migrations_before = scheduling::migrations();
    let mut floor_units = None;
    // Of a ring this thread only waits.
    let is_ring = matches!(probe, Probe::Switch { .. });
    trial.running.threads.enter(if is_ring { ThreadRole::Agent } else { ThreadRole::Probe });
    let mut thread_ids = vec![scheduling::thread_id()];
    let (prepared, mut counters) = match probe {
        Probe::Tick { iterations } => {
            let floor_cycles = tick::floor_cycles(*iterations, trial.rate.hz);
            floor_units = Some(floor_cycles);
            let prepared = prepare(trial, ready, samples_in(trial, floor_cycles))?;
            tick::measure(&prepared.recorder, *iterations, duration_cycles);
            (prepared, BTreeMap::new())
        }
        Probe::Wakeup { interval_ns } => {
            let prepared = prepare(trial, ready, duration_ns / interval_ns)?;
            let counts = wakeup::measure(&prepared.recorder, *interval_ns, *duration_ns);
            let named =
                [("wakeups", counts.wakeups), ("swallowed", counts.swallowed), ("early", counts.early)];
            (prepared, to_counters(named))
        }
        Probe::Switch { threads } => {
            let search_cycles = trial.rate.to_cycles(SHORTEST_TURN_SEARCH_NS);
            let &[cpu, ..] = cpus else { return Err(TrialError::NoCpu) };
            let turn_cycles = switch::shortest_turn_cycles(cpu, *priority, search_cycles)?;
            let shape = RingShape { threads: *threads, cpu, priority: *priority, duration_cycles };
            let mut prepared = None;
            let (counts, members) = switch::measure(shape, || {
                let made = prepare(trial, ready, samples_in(trial, turn_cycles))?;
                Ok::<_, TrialError>(Arc::clone(&prepared.insert(made).recorder))
            })?;
            thread_ids = members.iter().map(|member| member.id).collect();
            trial.running.threads.extend(members);
            findings.extend(findings::switches_not_confirmed(&counts));
            let named = [
                ("turns", counts.turns),
                ("warm_up_turns", counts.warm_up),
                ("not_switched", counts.not_switched),
                ("out_of_order", counts.out_of_order),
                ("kernel_context_switches", counts.context_switches),
            ];
            (prepared.ok_or(TrialError::Panicked)?, to_counters(named))
        }
    };
    trial.running.end();
    let end = clock::read_clocks();
    if let (Some(before), Some(after)) = (prepared.stolen_ns, steal::stolen_ns(measuring_cpus(trial.request)))
    {
        counters.extend(after.checked_sub(before).map(|gained| ("steal_ns".to_owned(), gained)));
    }
    let (voluntary, involuntary) = sys::thread_context_switches();
    counters.insert("voluntary_context_switches".to_owned(), voluntary - voluntary_before);
    counters.insert("involuntary_context_switches".to_owned(), involuntary - involuntary_before);
    let migrations = migrations_before.zip(scheduling::migrations());
    counters.extend(migrations.map(|(before, after)| ("migrations".to_owned(), after - before)));
    findings.extend(prepared.finding);
    sys::unlock_memory();
    let placement = scheduling::placement(thread_ids).map_err(|source| TrialError::Placement { source })?;
    // What follows (sending samples) must not run at real-time priority.
    let _ = scheduling::leave_fifo();
    let Prepared { recorder, start, start_realtime_ns, .. } = prepared;
    Ok(Measured { recorder, floor_units, start, start_realtime_ns, end, placement, counters, findings })
}

/// The last before the first sample.
struct Prepared {
    recorder: Arc<Recorder>,
    finding: Option<Finding>,
    /// As the kernel had counted then.
    stolen_ns: Option<u64>,
    start_realtime_ns: u64,
    start: ClockReading,
}

fn prepare(trial: &Trial, ready: &Sender<()>, most_samples: u64) -> Result<Prepared, TrialError> {
    let recorder = Arc::new(allocate(trial, most_samples)?);
    trial.running.attach(&recorder);
    // Code and stacks. Refused, it is a finding that the locking of the samples has made already.
    let _ = sys::lock_present_memory();
    let finding = recorder.lock_error().map(findings::memory_not_locked);
    let stolen_ns = steal::stolen_ns(measuring_cpus(trial.request));
    // Nobody waits for it where nothing is stolen.
    let _ = ready.send(());
    trial.running.begin();
    let start_realtime_ns = clock::realtime_ns();
    Ok(Prepared { recorder, finding, stolen_ns, start_realtime_ns, start: clock::read_clocks() })
}

fn to_counters<const N: usize>(named: [(&str, u64); N]) -> BTreeMap<String, u64> {
    named.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn start_thief<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    trial: &'scope Trial,
    injection: &'scope Injection,
    is_ready: Receiver<()>,
    finished: &'scope AtomicBool,
) -> Result<thread::ScopedJoinHandle<'scope, io::Result<Thefts>>, TrialError> {
    let (armed, is_armed) = channel();
    let thief = spawn(scope, "inject", move || disturb(trial, injection, &armed, &is_ready, finished))?;
    // It ends without a word if it may not run there; its result then says why.
    let _ = is_armed.recv();
    Ok(thief)
}

/// The disturbing thread; tells `armed` when it can preempt the measuring one, which tells `is_ready`.
fn disturb(
    trial: &Trial,
    injection: &Injection,
    armed: &Sender<()>,
    is_ready: &Receiver<()>,
    finished: &AtomicBool,
) -> io::Result<Thefts> {
    trial.running.threads.enter(ThreadRole::Injection);
    // Refused, it steals with whatever share it gets.
    // Before it goes to the CPU, where an ordinary thread starves beside a busy one of SCHED_FIFO.
    let refusal = scheduling::request_fifo(trial.request.priority + 1).refusal();
    scheduling::place_on(measuring_cpus(trial.request))?;
    let exit = injection.exit.map(ExitMaker::new).transpose()?;
    let most = usize::try_from(trial.request.duration_ns / injection.every_ns + 1).unwrap_or(usize::MAX);
    let thefts = Thefts { refusal, ..Thefts::with_room_for(most) };
    // The other end waits for nothing else.
    let _ = armed.send(());
    // No sleeping and looking: a thread whose sleep ends while another of its CPU is becoming SCHED_FIFO may not preempt
    // that one for the whole trial (seen on Linux 6.18).
    if is_ready.recv().is_err() {
        return Ok(thefts);
    }
    let clock = sample_clock(&trial.request.probe);
    let units_per_ns = match clock {
        SampleClock::Tsc => trial.rate.hz * 1e-9,
        SampleClock::Monotonic => 1.0,
    };
    injection::steal(thefts, injection, exit.as_ref(), clock, units_per_ns, finished)
}

/// More samples than the duration can hold; the true shortest turn may lie a little under the one seen before.
fn samples_in(trial: &Trial, turn_cycles: u64) -> u64 {
    let turns = trial.rate.to_cycles(trial.request.duration_ns) / turn_cycles.max(1);
    turns + turns / 4 + 1024
}

fn allocate(trial: &Trial, most_samples: u64) -> Result<Recorder, TrialError> {
    let request = trial.request;
    let with_gaps = matches!(request.probe, Probe::Switch { .. });
    let bytes_each = size_of::<u32>() as u64 * (1 + u64::from(with_gaps));
    let wanted = request.max_samples.unwrap_or_else(|| {
        let available = facts::memory_available_bytes().unwrap_or(u64::MAX);
        most_samples.min(available / MEMORY_SHARE_DIVISOR / bytes_each)
    });
    let samples = usize::try_from(wanted.max(1)).unwrap_or(usize::MAX);
    let bytes = wanted.saturating_mul(bytes_each);
    Recorder::new(samples, with_gaps, request.duration_ns, sample_clock(&request.probe))
        .map_err(|source| TrialError::Memory { samples, bytes, source })
}
