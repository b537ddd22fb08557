//! From the events of a trace to the activations of threads.

use rustc_hash::FxHashMap;
use stealtime_wire::{EventKind, TraceColumns};

use crate::activation::{Activation, Thread};
use crate::clock::Clock;
use crate::error::ExtractError;
use crate::meter::{Meter, Reading};
use crate::taken::Taken;

/// Timers that wake a thread: sleeps and timeouts, POSIX timers, timer descriptors, `setitimer`
/// (`kernel/time/hrtimer.c`, `posix-timers.c`, `itimer.c`, `fs/timerfd.c`).
const WAKING: [&str; 4] = ["hrtimer_wakeup", "posix_timer_fn", "it_real_fn", "timerfd_tmrproc"];

/// Of these, those that live no longer than the system call in which the thread sleeps.
const OF_A_CALL: &str = "hrtimer_wakeup";

/// A timer may seem to expire so much early by the line between the clocks.
const CLOCK_ERROR_NS: i64 = 20_000;

/// A trace, and what is known besides.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    pub columns: TraceColumns<'a>,
    /// What the column `name` counts.
    pub names: &'a [String],
    pub clock: Clock,
    /// What the host took, by CPU; none of those at the end.
    pub taken: &'a [Taken],
}

/// Follows these threads through a trace; gives those that did anything, in the order of the ids.
///
/// # Errors
/// [`ExtractError`]: the columns do not fit.
pub fn follow(trace: &Trace<'_>, threads: &[i32]) -> Result<Vec<Thread>, ExtractError> {
    let columns = &trace.columns;
    let expected = columns.time.len();
    if let Some((column, rows)) = columns.uneven() {
        return Err(ExtractError::Length { column, rows, expected });
    }
    let processors = columns.cpu.iter().max().map_or(0, |&cpu| usize::from(cpu) + 1);
    let mut follower = Follower {
        trace,
        timers: trace.names.iter().map(|name| timer(name)).collect(),
        threads: Vec::new(),
        index: FxHashMap::default(),
        processors: vec![Processor::default(); processors],
        nothing: Taken::default(),
    };
    for &id in threads {
        let place = follower.threads.len();
        if *follower.index.entry(id).or_insert(place) == place {
            follower.threads.push(Following { thread: Thread { id, ..Thread::default() }, ..Following::default() });
        }
    }
    for row in 0..expected {
        let kind =
            EventKind::from_code(columns.kind[row]).ok_or(ExtractError::Kind { row, kind: columns.kind[row] })?;
        let (cpu, time) = (columns.cpu[row], columns.time[row]);
        let processor = &mut follower.processors[usize::from(cpu)];
        if time < processor.last {
            return Err(ExtractError::Backwards { row, cpu });
        }
        processor.last = time;
        follower.event(row, kind, usize::from(cpu), time);
    }
    let mut found: Vec<Thread> = follower.threads.into_iter().map(|one| one.thread).collect();
    found.retain(|thread| thread.name.is_some() || !thread.activations.is_empty());
    found.sort_unstable_by_key(|thread| thread.id);
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// It wakes no thread, or nobody knows.
    Other,
    /// It ends with the call.
    OfCall,
    Lasting,
}

fn timer(name: &str) -> Timer {
    match name {
        OF_A_CALL => Timer::OfCall,
        _ if WAKING.contains(&name) => Timer::Lasting,
        _ => Timer::Other,
    }
}

#[derive(Debug, Clone, Default)]
struct Processor {
    last: u64,
    /// Which of the threads runs here.
    runs: Option<usize>,
    /// Interrupts over each other, and since when.
    depth: u32,
    since: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing is known yet, or not any more.
    #[default]
    Unknown,
    Waiting,
    Ready,
    Running {
        cpu: usize,
    },
}

#[derive(Debug, Clone, Default)]
struct Following {
    thread: Thread,
    phase: Phase,
    meter: Meter,
    open: Option<Open>,
    /// The timer that was set last and has not expired.
    timer: Option<(i64, bool)>,
    call: Option<Call>,
    /// Something was lost since its last activation.
    broken: bool,
}

/// An activation that has not ended.
#[derive(Debug, Clone, Copy)]
struct Open {
    activation: Activation,
    began: Reading,
    /// On the way out of the call before, or into one.
    edge: u64,
}

/// A system call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Call {
    entered: u64,
    /// From here on all that runs is the call's.
    from: Reading,
    has_waited: bool,
}

struct Follower<'a> {
    trace: &'a Trace<'a>,
    /// Of each name.
    timers: Vec<Timer>,
    threads: Vec<Following>,
    index: FxHashMap<i32, usize>,
    processors: Vec<Processor>,
    nothing: Taken,
}

impl Follower<'_> {
    fn event(&mut self, row: usize, kind: EventKind, cpu: usize, time: u64) {
        let columns = &self.trace.columns;
        let thread = columns.thread[row];
        if kind == EventKind::Lost {
            return self.lost(cpu);
        }
        let ours = self.index.get(&thread).copied();
        if let Some(place) = ours {
            self.see(place, cpu, time);
        }
        match kind {
            EventKind::Switch => self.switch(row, ours, cpu, time),
            EventKind::Waking => {
                if let Some(&woken) = self.index.get(&columns.other[row]) {
                    self.wake(woken, row, time);
                }
            }
            EventKind::InterruptEntry | EventKind::VectorEntry | EventKind::SoftirqEntry => {
                let processor = &mut self.processors[cpu];
                if processor.depth == 0 {
                    processor.since = time;
                }
                processor.depth += 1;
            }
            EventKind::InterruptExit | EventKind::VectorExit | EventKind::SoftirqExit => {
                let processor = &mut self.processors[cpu];
                let was_in = processor.depth == 1;
                processor.depth = processor.depth.saturating_sub(1);
                let since = processor.since;
                if let (true, Some(place)) = (was_in, ours) {
                    let taken = self.trace.taken.get(cpu).unwrap_or(&self.nothing);
                    self.threads[place].meter.interrupted(since, time, taken);
                }
            }
            EventKind::Nmi => {
                if let (0, Some(place)) = (self.processors[cpu].depth, ours) {
                    let cycles = self.trace.clock.cycles(columns.value[row].unsigned_abs());
                    let taken = self.trace.taken.get(cpu).unwrap_or(&self.nothing);
                    self.threads[place].meter.read(time, taken);
                    self.threads[place].meter.correct(cycles);
                }
            }
            EventKind::TimerStart => {
                let name = columns.name[row] as usize;
                let timer = self.timers.get(name).copied().unwrap_or(Timer::Other);
                if let (Some(place), true) = (ours, timer != Timer::Other) {
                    self.threads[place].timer = Some((columns.value[row], timer == Timer::OfCall));
                }
            }
            EventKind::CallEntry | EventKind::CallExit | EventKind::FileCall => {
                if let Some(place) = ours {
                    self.call(place, kind != EventKind::CallExit, cpu, time);
                }
            }
            _ => {}
        }
    }

    fn lost(&mut self, cpu: usize) {
        self.processors[cpu].depth = 0;
        for one in &mut self.threads {
            match &mut one.open {
                Some(open) => open.activation.holed = true,
                None => one.broken = true,
            }
        }
    }

    /// An event shows that the thread runs here.
    fn see(&mut self, place: usize, cpu: usize, time: u64) {
        if self.threads[place].phase == (Phase::Running { cpu }) {
            return;
        }
        if let Phase::Running { cpu: elsewhere } = self.threads[place].phase {
            self.lose(place, elsewhere, time);
        }
        if let Some(other) = self.processors[cpu].runs.filter(|&other| other != place) {
            self.lose(other, cpu, time);
        }
        let one = &mut self.threads[place];
        if one.open.is_none() {
            one.begin(time, None, -1, true);
        }
        if let Some(open) = &mut one.open {
            open.activation.unseen_switch = true;
        }
        self.run(place, cpu, time);
    }

    /// The switch away from it was not told: where it is now nobody knows.
    fn lose(&mut self, place: usize, cpu: usize, time: u64) {
        let taken = self.trace.taken.get(cpu).unwrap_or(&self.nothing);
        let one = &mut self.threads[place];
        one.meter.stop(time, taken);
        one.phase = Phase::Unknown;
        one.call = None;
        if let Some(open) = &mut one.open {
            open.activation.holed = true;
        }
        one.end(time, Reading::default());
        self.processors[cpu].runs = None;
    }

    fn run(&mut self, place: usize, cpu: usize, time: u64) {
        self.processors[cpu].runs = Some(place);
        let one = &mut self.threads[place];
        one.phase = Phase::Running { cpu };
        one.meter.start(time);
        if let Some(open) = &mut one.open
            && open.activation.started == 0
        {
            open.activation.started = time;
            open.activation.own_started = time;
        }
    }

    fn switch(&mut self, row: usize, left: Option<usize>, cpu: usize, time: u64) {
        let columns = &self.trace.columns;
        self.processors[cpu].depth = 0;
        if let Some(other) = self.processors[cpu].runs.filter(|&other| Some(other) != left) {
            self.lose(other, cpu, time);
        }
        if let Some(place) = left {
            let taken = self.trace.taken.get(cpu).unwrap_or(&self.nothing);
            self.processors[cpu].runs = None;
            let one = &mut self.threads[place];
            let before = one.meter.read(time, taken);
            one.meter.stop(time, taken);
            if columns.value[row] == 0 {
                one.phase = Phase::Ready;
                if let Some(open) = &mut one.open {
                    open.activation.preemptions += 1;
                }
            } else {
                one.phase = Phase::Waiting;
                one.end(time, before);
            }
            let cpu = columns.cpu[row];
            let ran = before.ran - one.thread.ran;
            one.thread.ran = before.ran;
            *one.thread.cpus.entry(cpu).or_default() += ran;
        }
        if let Some(&place) = self.index.get(&columns.other[row]) {
            if let Phase::Running { cpu: elsewhere } = self.threads[place].phase {
                self.lose(place, elsewhere, time);
            }
            let one = &mut self.threads[place];
            one.told(columns.name[row], columns.priority[row]);
            if one.open.is_none() {
                one.begin(time, None, -1, true);
            }
            self.run(place, cpu, time);
        }
    }

    fn wake(&mut self, place: usize, row: usize, time: u64) {
        let columns = &self.trace.columns;
        let one = &mut self.threads[place];
        one.told(columns.name[row], columns.priority[row]);
        // Of a thread that has not begun to wait the kernel only takes back that it wanted to.
        if one.phase != Phase::Waiting {
            return;
        }
        let now_ns = self.trace.clock.monotonic_ns(time);
        let expired = one.timer.filter(|&(expiry_ns, _)| expiry_ns <= now_ns + CLOCK_ERROR_NS);
        if expired.is_some() {
            one.timer = None;
        }
        one.phase = Phase::Ready;
        one.begin(time, expired.map(|(expiry_ns, _)| expiry_ns), columns.thread[row], false);
    }

    fn call(&mut self, place: usize, is_entry: bool, cpu: usize, time: u64) {
        let taken = self.trace.taken.get(cpu).unwrap_or(&self.nothing);
        let one = &mut self.threads[place];
        one.thread.tells_calls = true;
        let now = one.meter.read(time, taken);
        if is_entry {
            one.call = Some(Call { entered: time, from: now, has_waited: false });
            return;
        }
        if let Some((_, true)) = one.timer {
            one.timer = None;
        }
        let call = one.call.take();
        let Some(open) = &mut one.open else { return };
        // The first that is seen of a thread may be the return of the call in which it waited.
        let from = match call {
            Some(call) => call.has_waited.then_some(call.from),
            None => Some(open.began),
        };
        if let Some(from) = from {
            open.edge += now.since(from).ran;
            open.activation.own_started = time;
        }
    }
}

impl Following {
    fn told(&mut self, name: u32, priority: i16) {
        self.thread.name = Some(name);
        if !self.thread.priorities.contains(&priority) {
            self.thread.priorities.push(priority);
        }
    }

    fn begin(&mut self, woken: u64, expiry_ns: Option<i64>, waker: i32, is_unknown: bool) {
        let holed = std::mem::take(&mut self.broken) || is_unknown;
        let activation = Activation { woken, expiry_ns, waker, holed, ..Activation::default() };
        // The thread stands still, and so does its meter.
        let began = self.meter.read(0, &Taken::default());
        if let Some(call) = &mut self.call {
            call.from = began;
        }
        self.meter.was_touched();
        self.open = Some(Open { activation, began, edge: 0 });
    }

    /// The thread waits from here on.
    fn end(&mut self, time: u64, now: Reading) {
        let Some(Open { mut activation, began, mut edge }) = self.open.take() else { return };
        activation.ended = time;
        activation.own_ended = time;
        activation.may_be_taken = self.meter.was_touched();
        if let Some(call) = &mut self.call {
            activation.own_ended = call.entered.max(activation.own_started);
            if now.ran >= call.from.ran {
                edge += now.since(call.from).ran;
            }
            call.has_waited = true;
        }
        if !activation.holed {
            let whole = now.since(began);
            activation.ran = whole.ran;
            activation.interrupts = whole.interrupts;
            activation.taken = whole.taken;
            activation.own = whole.ran.saturating_sub(edge);
        }
        self.thread.activations.push(activation);
    }
}
