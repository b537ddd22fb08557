//! One execution of a probe: preparation, the measuring thread, the injected disturbance, and the outcome.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use stealtime_wire::{ClockReading, ClockRecord, ThreadRole, TrialOutcome};

use crate::clock::{SampleClock, TscRate};
use crate::error::TrialError;
use crate::evidence::{self, Seen, Wanted, Watch, from_origin};
use crate::injection::{Disturbance, Thefts};
use crate::keeping::Keeping;
use crate::measuring::{Finished, measure};
use crate::needs::STACK_BYTES;
use crate::place_watch::{self, Moved};
use crate::probe::Probe;
use crate::processor_sets::nameable_cpus;
use crate::request::validate;
use crate::running::{Recording, reclaim};
use crate::stage::Begun;
use crate::throttling::Lifted;
use crate::trial::Trial;
use crate::{facts, findings, injection, preflight, quota, registry, scheduling, throttling};

/// A quota of the fair scheduler does not bind these policies.
const REALTIME: [&str; 3] = ["SCHED_FIFO", "SCHED_RR", "SCHED_DEADLINE"];

/// Of a ring of threads only idling is looked at.
const NO_IDLING: &str = "a ring switches too often to be watched, and its CPU was not told to idle";

/// Carries out a trial and waits for its end.
pub fn run_trial(trial: &Trial) -> Result<Recording, TrialError> {
    let request = trial.request;
    let probe = registry::find(&request.probe);
    validate(request, probe)?;
    let needs = probe.needs(request).and(injection::needed_bytes(request), || "the injected thefts".to_owned());
    needs.refuse_more_than_there_is()?;
    let lift = || Lifted::lift().map_err(|source| TrialError::Throttling { source });
    let lifted = request.lift_rt_throttling.then(lift).transpose()?;
    let cpus = probe.cpus(&request.cpus);
    let limit = preflight::limit_on_real_time(cpus);
    let mut found = preflight::examine(cpus);
    found.extend(probe.examine(&request.cpus));
    found.extend(findings::injection_roams(request, cpus));
    trial.running.note(found.clone());
    trial.running.note(limit.clone().map(|(_, finding)| finding).filter(|_| request.priority > 0));
    let wanted = probe.evidence().filter(|_| limit.is_some() && request.priority > 0);
    let mut watch = wanted.map(|wanted| Watch::begin(wanted, cpus));
    let seeing = watch.as_mut().and_then(|watch| watch.as_mut().ok());
    let quotas = quota::of_this_process();
    let (finished, thefts, moved) = measure_beside_others(trial, probe, seeing)?;
    let quotas = preflight::cpu_quotas(&quotas, &quota::of_this_process());
    // Somebody else may have put a lifted limit back meanwhile.
    let limit = preflight::rt_throttling_now().or(limit);
    drop(lifted);
    found.extend(throttling::left_lifted().map(|left| left.finding()));
    let Finished { begun, end, floor_units, rows, rtload, placement, mut counters, findings: more } = finished;
    let clock = clock_record(trial.rate, probe.clock(), &begun, end);
    found.extend(more);
    found.extend(place_watch::judge(cpus, moved.as_ref(), &placement, counters.get("migrations").copied()));
    if !REALTIME.contains(&placement.policy.as_str()) {
        found.extend(quotas);
    }
    // A thread that did not ask for SCHED_FIFO, or was refused it, is not stopped by it.
    let limit = limit.filter(|_| placement.policy == "SCHED_FIFO");
    let seen = watch.map(|watch| watch.map(|watch| watch.end(trial.running)));
    let mut ordinary = Vec::new();
    let mut told = None;
    if let Some((mut limit, mut finding)) = limit {
        if probe.evidence().is_some() {
            let seen = seen.unwrap_or_else(|| Err("there was none when the trial began".to_owned()));
            // Linux 6.18 records nothing while a CPU idles.
            let told_nothing = |seen: &Seen| wanted == Some(Wanted::Idling) && seen.stretches.is_empty();
            match seen.and_then(|seen| if told_nothing(&seen) { Err(NO_IDLING.to_owned()) } else { Ok(seen) }) {
                Ok(seen) => {
                    ordinary = from_origin(&seen.stretches, &clock.start, &clock.end, clock.origin_units);
                    counters.insert("ordinary".to_owned(), ordinary.len() as u64);
                    counters.insert("ordinary_lost".to_owned(), seen.lost);
                }
                Err(reason) => {
                    finding = preflight::unseen(finding, &reason);
                    limit.unseen = Some(reason);
                }
            }
            told = Some(limit);
        }
        found.push(finding);
    }
    let recorder = reclaim(begun.recorder);
    let hit = recorder.hit();
    let is_full = recorder.keeping() == Keeping::Whole && recorder.len() == recorder.capacity();
    let samples = recorder.into_samples();
    found.extend(findings::clocks(&clock.check));
    let layout = probe.layout();
    let is_cancelled = trial.running.is_cancelled();
    if let Some(layout) = layout {
        findings::samples(&samples, &mut counters, &mut found);
        found.extend(findings::stepped_back(&samples.saturated, &samples.saturated_gaps, clock.units_per_s));
        let watched_units = trial.running.taken().watched_until_end(&samples, layout);
        findings::watched(watched_units, &samples.pauses, clock.units_per_s, &mut counters, &mut found);
        found.extend(findings::ended_early(request, layout, &counters, is_full, is_cancelled));
        let hit = request.on_threshold.zip(hit);
        found.extend(hit.map(|(asked, hit)| findings::over_threshold(asked, &hit, clock.units_per_s)));
    }
    let mut injected = Vec::new();
    if let Some(thefts) = thefts {
        let refused = |source| TrialError::Cpus { cpus: cpus.to_vec(), granted: nameable_cpus(), source };
        let thefts = thefts.map_err(refused)?;
        found.extend(thefts.refusal.as_ref().map(findings::injection_not_above));
        found.extend(probe.examine_injection());
        injected = thefts.since(clock.origin_units);
        counters.insert("injected".to_owned(), injected.len() as u64);
    }
    let outcome = TrialOutcome {
        trial: request.trial,
        request: request.clone(),
        findings: found,
        clock,
        layout,
        placement,
        calibrated_floor_units: floor_units,
        rtload,
        limit: told,
        counters,
        threads: trial.running.threads.list(),
        tracing: None,
        threshold: hit,
    };
    Ok(Recording { samples, rows, injected, ordinary, outcome })
}

fn clock_record(rate: &TscRate, clock: SampleClock, begun: &Begun, end: ClockReading) -> ClockRecord {
    ClockRecord {
        name: clock.name().to_owned(),
        units_per_s: clock.units_per_s(rate),
        tsc_hz: rate.hz,
        tsc_hz_source: rate.source.clone(),
        check: rate.check(&begun.start, &end),
        facts: facts::clocks(),
        start: begun.start,
        end,
        start_realtime_ns: begun.start_realtime_ns,
        origin_units: begun.recorder.origin(),
    }
}

/// Measures on a thread of its own, beside one that sees whether it stays there, one that sees who else runs there
/// where there is another CPU for it, and the one that disturbs it where that was asked for.
fn measure_beside_others(
    trial: &Trial,
    probe: &dyn Probe,
    watch: Option<&mut Watch>,
) -> Result<MeasuredBeside, TrialError> {
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let finished = &finished;
        let (ready, is_ready) = channel();
        let (measures, has_ended) = channel();
        let cpus = probe.cpus(&trial.request.cpus);
        let has_other_cpu = evidence::has_other_cpu(cpus);
        let look = move || place_watch::watch(trial.running, trial.rate, cpus, &has_ended);
        let watching = has_other_cpu.then(|| spawn(scope, "st-watch", look)).transpose()?;
        let (is_over, over) = channel();
        let looking = match watch.filter(|_| has_other_cpu) {
            Some(watch) => Some(spawn(scope, "st-evidence", move || {
                trial.running.threads.enter(ThreadRole::Agent);
                // On the measured CPU it would not get a turn, and would itself be what the fair server serves.
                scheduling::keep_off(cpus).map(|()| watch.look_until(&over, trial.running))
            })?),
            None => None,
        };
        let start_thief = |injection| start_thief(scope, Disturbance { trial, probe, injection, is_ready, finished });
        let stealing = trial.request.injection.as_ref().map(start_thief).transpose()?;
        let measuring = spawn(scope, "measure", move || {
            let result = measure(trial, probe, &ready);
            finished.store(true, Ordering::SeqCst);
            drop(measures);
            result
        })?;
        let measured = measuring.join().map_err(|_| TrialError::Panicked)?;
        drop::<Sender<()>>(is_over);
        // Refused another CPU it has ended at once; then the events are read afterwards.
        looking.map(|handle| handle.join().map_err(|_| TrialError::Panicked)).transpose()?;
        let thefts = stealing.map(|handle| handle.join().map_err(|_| TrialError::Panicked)).transpose()?;
        let moved = watching.map(|handle| handle.join().map_err(|_| TrialError::Panicked)).transpose()?.flatten();
        Ok((measured?, thefts, moved))
    })
}

/// What was measured, what was stolen meanwhile, and whether a measuring thread was moved.
type MeasuredBeside = (Finished, Option<io::Result<Thefts>>, Option<Moved>);

fn start_thief<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    disturbance: Disturbance<'scope>,
) -> Result<thread::ScopedJoinHandle<'scope, io::Result<Thefts>>, TrialError> {
    let (armed, is_armed) = channel();
    let thief = spawn(scope, "inject", move || disturbance.carry_out(&armed))?;
    // It ends without a word if it may not run there; its result then says why.
    let _ = is_armed.recv();
    Ok(thief)
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, TrialError> {
    let builder = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    builder.spawn_scoped(scope, body).map_err(TrialError::Threads)
}
