//! `switch`: thread switch latency between threads of the same priority (same source as [`crate::tick`],
//! section IV.b.ii).
//!
//! N `SCHED_FIFO` threads of one priority on one CPU do nothing but yield to each other. A sample is the time
//! from one thread's last instruction before `sched_yield` (the `lfence; rdtsc` in front of the `syscall`
//! instruction) to the next thread's first after its own (`lfence; rdtsc`). It holds: entering the kernel,
//! choosing, switching, leaving.
//!
//! * Clock: the time-stamp counter, cycles. The gap between two samples (book-keeping of one turn) is kept
//!   too, so that gaps and samples tile the time and each sample's start is known.
//! * Floor: the shortest sample of the trial. There is no cheaper calibration: a yield that finds nobody else
//!   is a different path.
//! * Counted, not timed: a yield after which the *same* thread ran again (`not_switched`), the first rounds
//!   in which caches warm up (`warm_up`).
//! * Counted and timed: turns out of the round robin order (`out_of_order`). One thread left and another
//!   arrived all the same, and what upsets the order may well be what took long.
//! * Confirmation: the kernel's own count of context switches of these threads (`getrusage(RUSAGE_THREAD)`).
//!   Linux books a `sched_yield` as *involuntary* (`__schedule()` takes `nivcsw` while the task's state is
//!   running), so the sum of `ru_nvcsw` and `ru_nivcsw` is compared; what it exceeds the switches by was
//!   caused by others.
//! * Limits: without `SCHED_FIFO` the order is the scheduler's choice and the result is invalid. Interrupts
//!   that come during a switch are part of the sample. All threads exist, are pinned and have touched their
//!   stacks before the first sample.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use stealtime_wire::{Finding, FindingLevel, Layout, MachineThread, Switch, ThreadRole};

use crate::clock::SampleClock;
use crate::error::TrialError;
use crate::evidence::Wanted;
use crate::keeping::Next;
use crate::observer::{take_ring_name, this_thread};
use crate::probe::{Measured, Probe};
use crate::recorder::Recorder;
use crate::running::reclaim;
use crate::scheduling;
use crate::stage::Stage;
use crate::sys::{self, thread_context_switches, time_stamp_counter, yield_processor};

/// Rounds before the first sample.
const WARM_UP_ROUNDS: u64 = 3;

/// A yielding thread calls next to nothing; a thousand of them should not fill a small guest.
const STACK_BYTES: usize = 32 << 10;

/// How long a ring of two turns to find how many switches a trial can hold at most.
const SHORTEST_TURN_SEARCH_NS: u64 = 30_000_000;

impl Probe for Switch {
    fn layout(&self) -> Option<Layout> {
        Some(Layout::Gapped)
    }

    fn clock(&self) -> SampleClock {
        SampleClock::Tsc
    }

    fn evidence(&self) -> Option<Wanted> {
        Some(Wanted::Idling)
    }

    /// A ring turns in the order of `SCHED_FIFO`, by which a switch is defined.
    fn needs_fifo(&self) -> bool {
        true
    }

    /// The last. Threads of one priority that roam over several CPUs are no ring: they would not wait for
    /// each other.
    fn cpus<'a>(&self, allowed: &'a [u32]) -> &'a [u32] {
        allowed.last().map_or(&[], std::slice::from_ref)
    }

    /// It only waits for the ring.
    fn role_of_caller(&self) -> ThreadRole {
        ThreadRole::Agent
    }

    fn validate(&self, _duration_ns: u64) -> Result<(), TrialError> {
        if (2..=1000).contains(&self.threads) {
            return Ok(());
        }
        Err(TrialError::parameter("threads", self.threads.into(), "2 to 1000".to_owned()))
    }

    fn examine(&self, allowed: &[u32]) -> Option<Finding> {
        let (last, others) = allowed.split_last().filter(|(_, others)| !others.is_empty())?;
        Some(Finding {
            code: "switch_pinned".to_owned(),
            level: FindingLevel::Limits,
            text: format!(
                "the threads of switch may use {} CPUs but were pinned to CPU {last}: on several they would not wait \
                 for each other",
                others.len() + 1
            ),
            hint: None,
        })
    }

    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError> {
        let &[cpu, ..] = stage.cpus else { return Err(TrialError::NoCpu) };
        let (request, rate) = (stage.trial.request, stage.trial.rate);
        let search_cycles = rate.to_cycles(SHORTEST_TURN_SEARCH_NS);
        let turn_cycles = shortest_turn_cycles(cpu, request.priority, search_cycles)?;
        let shape = RingShape {
            threads: self.threads,
            cpu,
            priority: request.priority,
            duration_cycles: stage.trial.duration_cycles(),
        };
        let (turned, begun) = turn(shape, || {
            let begun = stage.begin(stage.most_turns(turn_cycles), None)?;
            Ok::<_, TrialError>((Arc::clone(&begun.recorder), begun))
        })?;
        stage.trial.running.threads.extend(turned.members);
        let counts = turned.counts;
        let measured = Measured { findings: not_confirmed(&counts).into_iter().collect(), ..Measured::new(begun) };
        Ok(measured.with_counters([
            ("turns", counts.turns),
            ("warm_up_turns", counts.warm_up),
            ("not_switched", counts.not_switched),
            ("out_of_order", counts.out_of_order),
            ("kernel_context_switches", counts.context_switches),
        ]))
    }
}

/// Every turn of the ring after the first is a switch, or a yield that found nobody else.
fn not_confirmed(counts: &SwitchCounts) -> Option<Finding> {
    let claimed = counts.turns.saturating_sub(counts.not_switched + 1);
    (counts.context_switches < claimed).then(|| Finding {
        code: "switches_not_confirmed".to_owned(),
        level: FindingLevel::Invalidates,
        text: format!("{claimed} switches were seen, but the kernel counted only {}", counts.context_switches),
        hint: None,
    })
}

/// What the threads share. They run one at a time on one CPU; the atomics keep it sound if they do not.
#[derive(Default)]
struct Ring {
    last_thread: AtomicU32,
    last_left: AtomicU64,
    last_arrived: AtomicU64,
    turns: AtomicU64,
    /// The turn with which measuring begins, or begins again after a pause.
    measured_from: AtomicU64,
    /// When the pause began that the ring warms up after; 0 if it was none.
    paused_at: AtomicU64,
    /// Up to which index there is memory.
    room: AtomicUsize,
    warm_up: AtomicU64,
    not_switched: AtomicU64,
    out_of_order: AtomicU64,
    context_switches: AtomicU64,
}

/// What was counted besides the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SwitchCounts {
    /// Turns of all threads, timed or not.
    turns: u64,
    /// Turns before the first sample, and before the first after each pause.
    warm_up: u64,
    /// Yields that came back to the same thread.
    not_switched: u64,
    /// Switches to another thread than the next in the ring.
    out_of_order: u64,
    /// The kernel's count of context switches of these threads over all turns.
    context_switches: u64,
}

/// A ring that has come to rest.
struct Turned {
    counts: SwitchCounts,
    members: Vec<MachineThread>,
}

/// Where the threads wait until all of them exist.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    /// Two conditions, so that an arrival does not wake all who arrived before: of a thousand that is half a
    /// million wake-ups.
    someone_arrived: Condvar,
    was_opened: Condvar,
}

#[derive(Default)]
struct GateState {
    arrived: u32,
    opened: Option<Verdict>,
}

/// What the waiting threads are told.
#[derive(Clone)]
enum Verdict {
    Begin(Arc<Recorder>),
    GoHome,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the decision.
    fn arrive(&self) -> Verdict {
        let mut state = self.lock();
        state.arrived += 1;
        self.someone_arrived.notify_one();
        loop {
            if let Some(verdict) = &state.opened {
                return verdict.clone();
            }
            state = self.was_opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_for(&self, threads: u32) {
        let mut state = self.lock();
        while state.arrived < threads {
            state = self.someone_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Decides; the first decision holds.
    fn open(&self, verdict: Verdict) {
        self.lock().opened.get_or_insert(verdict);
        self.was_opened.notify_all();
    }
}

/// Sends home who waits at a gate that was not opened, when whoever should have done it fails or panics.
struct Doorkeeper<'a>(&'a Gate);

impl Drop for Doorkeeper<'_> {
    fn drop(&mut self) {
        self.0.open(Verdict::GoHome);
    }
}

/// A ring of yielding threads.
#[derive(Debug, Clone, Copy)]
struct RingShape {
    threads: u32,
    cpu: u32,
    priority: u32,
    duration_cycles: u64,
}

/// Measures until the deadline or until the memory is full.
///
/// Called by a thread that is pinned to the ring's CPU and runs at its priority: as none of the woken threads
/// may preempt it, all of them are runnable before the first runs. `prepare` makes the sample memory (what
/// comes with it is handed back) when all threads exist: User-Mode Linux maps every present page of a process
/// anew for each thread that starts (`force_flush_all()` in its `fork_handler()`, Linux 6.1), so that large
/// memory has to come last.
///
/// # Errors
/// If a thread cannot be started or pinned, and what `prepare` says.
fn turn<T, E: From<io::Error>>(
    shape: RingShape,
    prepare: impl FnOnce() -> Result<(Arc<Recorder>, T), E>,
) -> Result<(Turned, T), E> {
    let ring = Ring { measured_from: AtomicU64::new(warm_up_turns(shape.threads)), ..Ring::default() };
    let gate = Gate::default();
    let members: Vec<OnceLock<MachineThread>> = (0..shape.threads).map(|_| OnceLock::new()).collect();
    let not_pinned: Mutex<Option<io::Error>> = Mutex::new(None);
    let body = |number: u32| {
        take_ring_name();
        // Each thread comes here once.
        let _ = members[number as usize].set(this_thread(ThreadRole::Probe));
        let pinned = scheduling::pin_to(shape.cpu);
        // Refused, it is the trial's finding already: the caller asked for the same.
        let _ = scheduling::request_fifo(shape.priority);
        match (gate.arrive(), pinned) {
            (Verdict::Begin(recorder), Ok(())) => take_turns(&ring, &recorder, number, shape),
            (_, Err(error)) => *not_pinned.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
            (Verdict::GoHome, Ok(())) => {}
        }
    };
    let prepared = sys::run_ring(shape.threads, STACK_BYTES, &body, |started| {
        let _doorkeeper = Doorkeeper(&gate);
        started?;
        gate.wait_for(shape.threads);
        let (recorder, prepared) = prepare()?;
        ring.room.store(recorder.room(), Relaxed);
        gate.open(Verdict::Begin(recorder));
        Ok::<_, E>(prepared)
    })??;
    if let Some(error) = not_pinned.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error.into());
    }
    let members = members.into_iter().filter_map(OnceLock::into_inner).collect();
    let counts = SwitchCounts {
        turns: ring.turns.into_inner(),
        warm_up: ring.warm_up.into_inner(),
        not_switched: ring.not_switched.into_inner(),
        out_of_order: ring.out_of_order.into_inner(),
        context_switches: ring.context_switches.into_inner(),
    };
    Ok((Turned { counts, members }, prepared))
}

/// The shortest time from one switch to the next, found with a ring of two that turns for `duration_cycles`.
fn shortest_turn_cycles(cpu: u32, priority: u32, duration_cycles: u64) -> io::Result<u64> {
    const MOST_SAMPLES: usize = 100_000;
    let recorder = Arc::new(Recorder::new(MOST_SAMPLES, true, 0, SampleClock::Tsc)?);
    let shape = RingShape { threads: 2, cpu, priority, duration_cycles };
    turn(shape, || Ok::<_, io::Error>((Arc::clone(&recorder), ())))?;
    let samples = reclaim(recorder).into_samples();
    let gaps = samples.gaps().unwrap_or_default();
    let turns = samples.durations().iter().zip(gaps).map(|(&duration, &gap)| u64::from(duration) + u64::from(gap));
    Ok(turns.min().unwrap_or(1))
}

/// Gets memory for further samples, or waits for it while the other threads wait as well; false if the trial
/// is over.
///
/// Those who wait are woken in the order in which they came, which is that of the ring: a futex wakes equals
/// of `SCHED_FIFO` so, and none of them runs before this thread yields.
#[cold]
fn go_on(ring: &Ring, recorder: &Recorder, arrived: u64, shape: RingShape) -> bool {
    match recorder.next(recorder.len(), arrived) {
        Next::Go(room) => ring.room.store(room, Relaxed),
        Next::Resume(room) => {
            ring.room.store(room, Relaxed);
            ring.paused_at.store(arrived, Relaxed);
            ring.measured_from.store(ring.turns.load(Relaxed) + warm_up_turns(shape.threads), Relaxed);
            recorder.release();
        }
        Next::Stop => {
            recorder.stop();
            return false;
        }
    }
    true
}

fn warm_up_turns(threads: u32) -> u64 {
    WARM_UP_ROUNDS * u64::from(threads)
}

#[inline(never)]
fn take_turns(ring: &Ring, recorder: &Recorder, number: u32, shape: RingShape) {
    let (voluntary_before, involuntary_before) = thread_context_switches();
    loop {
        let arrived = time_stamp_counter();
        // Who comes after the end has nobody to measure from: the one before left without a stamp.
        if recorder.is_stopped() {
            break;
        }
        if recorder.is_paused() {
            recorder.wait_while_paused();
            continue;
        }
        let from = ring.last_thread.load(Relaxed);
        let turn = ring.turns.load(Relaxed);
        ring.turns.store(turn + 1, Relaxed);
        let measured_from = ring.measured_from.load(Relaxed);
        if turn < measured_from {
            ring.warm_up.fetch_add(1, Relaxed);
            ring.last_arrived.store(arrived, Relaxed);
        } else if turn == measured_from {
            match ring.paused_at.load(Relaxed) {
                0 => recorder.start(arrived, arrived.saturating_add(shape.duration_cycles)),
                paused_at => recorder.resumed(recorder.len(), arrived.wrapping_sub(paused_at), arrived),
            }
            ring.last_arrived.store(arrived, Relaxed);
        } else if from == number {
            ring.not_switched.fetch_add(1, Relaxed);
        } else {
            let left = ring.last_left.load(Relaxed);
            let index = recorder.len();
            let gap = left.wrapping_sub(ring.last_arrived.load(Relaxed));
            recorder.write_with_gap(index, gap, arrived.wrapping_sub(left));
            ring.last_arrived.store(arrived, Relaxed);
            if (from + 1) % shape.threads != number {
                ring.out_of_order.fetch_add(1, Relaxed);
            }
            if index + 1 >= ring.room.load(Relaxed) && !go_on(ring, recorder, arrived, shape) {
                break;
            }
        }
        if arrived >= recorder.deadline() && !go_on(ring, recorder, arrived, shape) {
            break;
        }
        ring.last_thread.store(number, Relaxed);
        ring.last_left.store(time_stamp_counter(), Relaxed);
        yield_processor();
    }
    let (voluntary, involuntary) = thread_context_switches();
    let switches = voluntary - voluntary_before + involuntary - involuntary_before;
    ring.context_switches.fetch_add(switches, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::RING_THREAD_NAME;

    #[test]
    fn a_turn_out_of_order_is_counted_and_timed() {
        let recorder = Recorder::new(2, true, 0, SampleClock::Tsc).unwrap();
        recorder.start(1, 2);
        let ring = Ring { turns: AtomicU64::new(100), room: AtomicUsize::new(2), ..Ring::default() };
        let shape = RingShape { threads: 3, cpu: 0, priority: 1, duration_cycles: 1 };
        // Thread 0 left, thread 1 should have come.
        take_turns(&ring, &recorder, 2, shape);
        assert_eq!((recorder.len(), ring.out_of_order.into_inner()), (1, 1));
    }

    /// Without a privilege the order is the scheduler's, but the book-keeping must hold all the same.
    #[test]
    fn gaps_and_samples_tile_the_time_and_every_turn_is_accounted_for() {
        let cpu = crate::sys::current_cpu();
        let before_affinity = scheduling::allowed_cpus().unwrap();
        scheduling::pin_to(cpu).unwrap();
        let recorder = Arc::new(Recorder::new(2_000, true, 1_000_000_000, SampleClock::Tsc).unwrap());
        let shape = RingShape { threads: 4, cpu, priority: 1, duration_cycles: 2_000_000_000 };
        let (Turned { counts, members }, ()) = turn(shape, || Ok::<_, io::Error>((Arc::clone(&recorder), ()))).unwrap();
        let after = time_stamp_counter();
        scheduling::allow(&before_affinity).unwrap();
        let origin = recorder.origin();
        let samples = reclaim(recorder).into_samples();
        assert_eq!(members.len(), 4);
        assert!(members.iter().all(|member| member.name == RING_THREAD_NAME), "{members:?}");
        let recorded = samples.durations().len() as u64;
        assert!(recorded > 0, "{counts:?}");
        let sum = |values: &[u32]| values.iter().map(|&value| u64::from(value)).sum::<u64>();
        let total = sum(samples.durations()) + sum(samples.gaps().unwrap());
        assert!(samples.saturated.is_empty() && samples.saturated_gaps.is_empty(), "{:?}", samples.saturated_gaps);
        assert!(origin + total <= after, "{origin} {total} {after}");
        assert!(counts.warm_up + recorded + counts.not_switched < counts.turns, "{counts:?}");
    }
}
