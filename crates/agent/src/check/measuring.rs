//! A thread on each CPU that notes how late it wakes, and one that looks after them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use stealtime_console::quantities::nanoseconds;
use stealtime_console::remarks::ProgressLine;
use stealtime_probe::clock::{SampleClock, read_clocks};
use stealtime_probe::quota::{self, Quota};
use stealtime_probe::recorder::Recorder;
use stealtime_probe::{scheduling, steal, thread_times, wakeup};
use stealtime_trace::Recorded;
use stealtime_wire::ClockReading;

use crate::check::arguments::{Check, Format};
use crate::check::evidence::{Expected, Late, Series};
use crate::check::judge::Levels;
use crate::check::memory::Memory;
use crate::check::told::shown;

/// Node checks are killed after 60 s (`HealthCheckProgram` of Slurm, Nagios' `service_check_timeout`).
const LONGEST: Duration = Duration::from_secs(45);

/// For `stealtime check`, which nobody kills, and which has 90 s in all.
const LONGEST_DOCUMENT: Duration = Duration::from_secs(75);
const SHORTEST: Duration = Duration::from_millis(100);

/// A timer that comes more often takes a noticeable share of a CPU.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(100);

/// Between two looks at the threads: in this time the kernel's buffers must not have forgotten what happened.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A thread that has not ended so long after its time does not run at all.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Moving to a CPU takes milliseconds. A thread that waits for longer is late from when it asked: what holds it off its
/// CPU then is what it is to measure.
const ON_CPU_WITHIN: Duration = Duration::from_millis(500);

/// Above ordinary load, so that the buffers are read in time; below whatever is real-time itself.
const LOOKER_PRIORITY: u32 = 1;

/// A measuring thread calls nothing deep.
const STACK_BYTES: usize = 256 << 10;

/// What was asked for is not possible.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misuse(String);

/// What is to be done.
pub struct Plan {
    pub cpus: Vec<u32>,
    pub duration_ns: u64,
    pub interval_ns: u64,
    pub priority: u32,
    pub levels: Levels,
    pub traces: bool,
    until_closed: bool,
    shows_progress: bool,
}

impl Plan {
    /// Checks what was asked for.
    ///
    /// # Errors
    /// A sentence with the value that is not possible.
    pub fn of(check: &Check, mut cpus: Vec<u32>) -> Result<Self, Misuse> {
        let longest = if check.format == Format::Json { LONGEST_DOCUMENT } else { LONGEST };
        let shown_duration = humantime::format_duration(check.duration);
        let ns = |duration: Duration| nanoseconds(duration).map_err(|error| Misuse(error.to_string()));
        if check.duration < SHORTEST {
            return Err(Misuse(format!("a check of {shown_duration} is too short, it must be at least 100ms")));
        }
        if check.duration > longest {
            let most = longest.as_secs();
            let instead = "`stealtime-agent wakeup` watches longer";
            return Err(Misuse(format!("a check of {shown_duration} is too long, at most {most}s: {instead}")));
        }
        if !(SHORTEST_INTERVAL..=check.duration).contains(&check.interval) {
            let interval = humantime::format_duration(check.interval);
            let expected = format!("it must be 100us to the duration of {shown_duration}");
            return Err(Misuse(format!("an interval of {interval} is not possible, {expected}")));
        }
        let critical_ns = check.bar.at_most_ns;
        let warning_ns = check.warn.map_or(Ok(critical_ns / 2), ns)?;
        if warning_ns > critical_ns {
            return Err(Misuse(format!("--warn {} is above the bar of {}", shown(warning_ns), shown(critical_ns))));
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self {
            cpus,
            duration_ns: ns(check.duration)?,
            interval_ns: ns(check.interval)?,
            priority: check.priority,
            levels: Levels { warning_ns, critical_ns },
            traces: !check.no_trace,
            until_closed: check.until_closed,
            shows_progress: !check.quiet && !check.format.is_for_monitoring(),
        })
    }
}

impl Plan {
    /// How many samples each CPU has at its end.
    pub fn samples(&self) -> u64 {
        self.duration_ns / self.interval_ns
    }

    fn expected(&self, begun_ns: u64) -> Expected {
        Expected { samples: self.samples(), interval_ns: self.interval_ns, levels: self.levels, begun_ns }
    }
}

/// A CPU that was watched.
pub struct WatchedCpu {
    pub cpu: u32,
    pub series: Series,
    /// By which the kernel's trace knows the thread.
    pub thread: i32,
    /// Why it was refused real-time priority.
    pub refused: Option<String>,
    /// How long the thread could have run and did not, as its own kernel counts, in all.
    pub run_delay_ns: Option<u64>,
    /// What the hypervisor took meanwhile, as the kernel counts it.
    pub steal_ns: Option<u64>,
}

/// All that was seen.
pub struct Watched {
    pub cpus: Vec<WatchedCpu>,
    pub elapsed_ns: u64,
    pub is_cut_short: bool,
    pub start: ClockReading,
    pub end: ClockReading,
    /// The CPU quotas of this process before and after.
    pub quotas: (Vec<Quota>, Vec<Quota>),
    /// The kernel's events of the moments that were late, or why there are none.
    pub trace: Result<Recorded, String>,
}

impl Watched {
    /// The latest wake-up of all.
    pub fn latest(&self) -> Option<(&WatchedCpu, Late)> {
        let late = self.cpus.iter().filter_map(|cpu| Some((cpu, cpu.series.latest?)));
        late.max_by_key(|(_, late)| late.late_ns)
    }
}

struct Ready {
    recorder: Arc<Recorder>,
    thread: i32,
    refused: Option<io::Error>,
}

/// A thread that is to watch a CPU.
struct Watcher {
    cpu: u32,
    handle: JoinHandle<Option<u64>>,
    go: Sender<()>,
    is_on_cpu: Receiver<io::Result<()>>,
    ready: Ready,
}

/// Watches the CPUs, all at the same time.
///
/// # Errors
/// A thread cannot be started, or may not run on its CPU.
pub fn watch(plan: &Plan) -> Result<Watched> {
    let watchers = plan.cpus.iter().map(|&cpu| Watcher::start(plan, cpu)).collect::<Result<Vec<_>>>()?;
    let mut memory = if plan.traces {
        Memory::prepare(&plan.cpus, plan.levels.warning_ns)
    } else {
        Err("it was asked not to trace".to_owned())
    };
    let interrupted = interruption(plan.until_closed)?;
    // Refused, it looks when it can.
    let _ = scheduling::request_fifo(LOOKER_PRIORITY);
    let stolen = |cpu: u32| steal::stolen_ns(&[cpu]);
    let quotas = quota::of_this_process();
    let before: Vec<Option<u64>> = plan.cpus.iter().map(|&cpu| stolen(cpu)).collect();
    if let Ok(on) = &memory {
        on.begin()?;
    }
    let start = read_clocks();
    // Under the eyes of the trace: what holds a thread off its CPU here is a lateness with a cause.
    for watcher in &watchers {
        watcher.go_on();
    }
    let asked = read_clocks().monotonic_ns;
    let until = Instant::now() + ON_CPU_WITHIN;
    let are_on_cpu = watchers.iter().map(|watcher| watcher.await_cpu(until)).collect::<Result<Vec<_>>>()?;
    let begin = |watcher: &Watcher, is_on_cpu: bool| {
        watcher.go_on();
        // Afterwards: what delays this thread in between is not that CPU's fault.
        plan.expected(if is_on_cpu { read_clocks().monotonic_ns } else { asked })
    };
    let watched: Vec<Watching> = watchers
        .into_iter()
        .zip(are_on_cpu)
        .map(|(watcher, is_on_cpu)| {
            let expected = begin(&watcher, is_on_cpu);
            Watching { expected, watcher, seen: 0, has_begun: false }
        })
        .collect();
    let (watched, is_cut_short) = look_after(plan, watched, &mut memory, interrupted);
    let after: Vec<Option<u64>> = plan.cpus.iter().map(|&cpu| stolen(cpu)).collect();
    let end = read_clocks();
    let trace = memory.and_then(Memory::end);
    let _ = scheduling::leave_fifo();
    let allowed = scheduling::allowed_cpus()?;
    let steal = before.into_iter().zip(after).map(|(before, after)| after?.checked_sub(before?));
    let mut cpus = Vec::new();
    for (Watching { watcher, expected, .. }, steal_ns) in watched.into_iter().zip(steal) {
        let series = Series::of(&watcher.ready.recorder, expected, end.monotonic_ns);
        let run_delay_ns = if watcher.handle.is_finished() {
            watcher.handle.join().map_err(|_| anyhow::anyhow!("the thread on CPU {} panicked", watcher.cpu))?
        } else {
            watcher.let_go(&allowed);
            None
        };
        cpus.push(WatchedCpu {
            cpu: watcher.cpu,
            series,
            thread: watcher.ready.thread,
            refused: watcher.ready.refused.map(|error| error.to_string()),
            run_delay_ns,
            steal_ns,
        });
    }
    let elapsed_ns = end.monotonic_ns.saturating_sub(start.monotonic_ns);
    let quotas = (quotas, quota::of_this_process());
    Ok(Watched { cpus, elapsed_ns, is_cut_short, start, end, quotas, trace })
}

impl Watcher {
    /// Starts a thread, and waits until it is ready to move to its CPU.
    fn start(plan: &Plan, cpu: u32) -> Result<Self> {
        let ((go, may_go), (send_ready, is_ready), (send_on_cpu, is_on_cpu)) = (channel(), channel(), channel());
        let (priority, interval_ns, duration_ns) = (plan.priority, plan.interval_ns, plan.duration_ns);
        let builder = thread::Builder::new().name("st-check".to_owned()).stack_size(STACK_BYTES);
        let handle = builder.spawn(move || {
            let prepared = prepare(priority, interval_ns, duration_ns);
            let recorder = prepared.as_ref().ok().map(|ready| Arc::clone(&ready.recorder));
            let _ = send_ready.send(prepared);
            // Nobody lets it go on where any CPU was refused.
            let recorder = recorder.filter(|_| may_go.recv().is_ok())?;
            let delay_ns = || thread_times::of_this_thread().map(|times| times.run_delay_ns);
            let before = delay_ns();
            let pinned = scheduling::pin_to(cpu);
            let is_refused = pinned.is_err();
            let _ = send_on_cpu.send(pinned);
            if is_refused || may_go.recv().is_err() {
                return None;
            }
            wakeup::measure(&recorder, interval_ns, duration_ns);
            let after = delay_ns();
            let _ = scheduling::leave_fifo();
            after?.checked_sub(before?)
        })?;
        match is_ready.recv() {
            Ok(Ok(ready)) => Ok(Self { cpu, handle, go, is_on_cpu, ready }),
            Ok(Err(error)) => bail!("CPU {cpu} cannot be watched: {error}"),
            Err(_) => bail!("the thread for CPU {cpu} panicked"),
        }
    }

    /// Lets it move to its CPU, and then begin.
    fn go_on(&self) {
        // One that has ended is found later.
        let _ = self.go.send(());
    }

    /// Lets it end on any CPU: its own may run it never, and a process ends with its last thread.
    fn let_go(&self, allowed: &[u32]) {
        self.ready.recorder.stop();
        // Where no other takes it either, it stays until one does.
        let _ = scheduling::allow_thread(self.ready.thread.cast_unsigned(), allowed);
    }

    /// Waits until it runs on its CPU; tells whether it came to.
    fn await_cpu(&self, until: Instant) -> Result<bool> {
        match self.is_on_cpu.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => Ok(true),
            Ok(Err(error)) => bail!("CPU {} cannot be watched: {error}", self.cpu),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => bail!("the thread on CPU {} panicked", self.cpu),
        }
    }
}

/// Prepares all that needs no CPU of its own; real-time last, as what comes before may take its time.
fn prepare(priority: u32, interval_ns: u64, duration_ns: u64) -> io::Result<Ready> {
    let samples = usize::try_from(duration_ns / interval_ns).unwrap_or(usize::MAX);
    let recorder = Arc::new(Recorder::new(samples, false, duration_ns, SampleClock::Monotonic)?);
    let refused = (priority > 0).then(|| scheduling::request_fifo(priority)).and_then(Result::err);
    Ok(Ready { recorder, thread: scheduling::thread_id().cast_signed(), refused })
}

/// A thread under way, as whoever looks after it sees it.
struct Watching {
    watcher: Watcher,
    expected: Expected,
    seen: usize,
    has_begun: bool,
}

impl Watching {
    fn has_ended(&self) -> bool {
        self.watcher.handle.is_finished()
    }

    /// How late it was since the last look, and how late it is by now for what comes next.
    fn look(&mut self, now_ns: u64) -> (u64, u64) {
        let recorder = &self.watcher.ready.recorder;
        let length = recorder.len();
        let mut done_ns = u64::from(recorder.longest_since(self.seen));
        self.seen = length;
        if let Some(begun) = Series::late_start(recorder, self.expected).filter(|_| !self.has_begun) {
            done_ns = done_ns.max(begun.late_ns);
            self.has_begun = true;
        }
        (done_ns, Series::waiting_ns(recorder, self.expected, now_ns))
    }
}

/// Looks after the threads until all have ended, or have had the time to; tells whether it was interrupted.
fn look_after(
    plan: &Plan,
    mut watched: Vec<Watching>,
    memory: &mut Result<Memory, String>,
    interrupted: &AtomicBool,
) -> (Vec<Watching>, bool) {
    let begun = Instant::now();
    let mut limit = begun + Duration::from_nanos(plan.duration_ns) + PATIENCE;
    let mut progress = ProgressLine::begin();
    let (mut shown_at, mut longest_ns, mut is_stopped) = (begun, 0, false);
    loop {
        thread::sleep(LOOK_EVERY);
        let now_ns = read_clocks().monotonic_ns;
        for one in &mut watched {
            let (done_ns, waits_ns) = one.look(now_ns);
            if let Ok(memory) = memory {
                memory.note(done_ns, waits_ns);
            }
            longest_ns = longest_ns.max(done_ns).max(waits_ns);
        }
        if watched.iter().all(Watching::has_ended) || Instant::now() > limit {
            break;
        }
        if interrupted.load(Ordering::Relaxed) && !is_stopped {
            for one in &watched {
                one.watcher.ready.recorder.stop();
            }
            limit = Instant::now() + PATIENCE;
            is_stopped = true;
        }
        if plan.shows_progress && shown_at.elapsed() >= progress.pace() {
            shown_at = Instant::now();
            let (elapsed_s, of_s) = (begun.elapsed().as_secs_f64(), plan.duration_ns as f64 * 1e-9);
            progress.show(&format!("{elapsed_s:.0} of {of_s:.0} s, {} at the latest", shown(longest_ns)));
        }
    }
    progress.finish();
    (watched, is_stopped)
}

/// Becomes true with Ctrl-C, SIGTERM or SIGHUP, and when standard input is closed where that was asked for.
fn interruption(until_closed: bool) -> io::Result<&'static AtomicBool> {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    // Refused only if another handler exists already; then a Ctrl-C ends the process, and the watchdog cleans up.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    if until_closed {
        thread::Builder::new().name("st-stdin".to_owned()).spawn(|| {
            // One that cannot be read has nobody at its other end.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            INTERRUPTED.store(true, Ordering::Relaxed);
        })?;
    }
    Ok(&INTERRUPTED)
}
