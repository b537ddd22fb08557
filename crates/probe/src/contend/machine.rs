//! What the machine itself tells while the tasks work: how many threads want a CPU, how often its kernel switches
//! and is interrupted, and which programs run and stand ready. M. Friedman's figures 25, 26 and 29 show the same of
//! Windows.
//!
//! A thread wakes up once a second on the CPUs of the tasks and reads `/proc`; where a reading takes long, as in a
//! guest that waits for its host, more seldom, so that all of them take no more than a hundredth of a CPU. That is
//! part of what the machine does; its own CPU time is told. Programs are told apart by name; threads of the kernel
//! are none. What is not a whole interval is left out: at the end the threads of the work are gone, and what they
//! did since with them.
//!
//! * Time on a CPU and time ready for one: `schedstat` of each thread (`Documentation/scheduler/sched-stats.rst`).
//!   A wait is added when it ends. How long all threads of a program stood ready, divided by the interval, is how
//!   many of them stood ready in the mean.
//! * Threads that want a CPU: `procs_running` of `/proc/stat` at that moment, without the one that reads it.
//! * Switches and interrupts: `ctxt` and the sum of `intr` of `/proc/stat`, of all kinds, those of the timer too.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::rows::Reading;
use crate::sys::{KernelClock, kernel_clock_ns, thread_cpu_ns, wait_while};
use crate::thread_times::{ThreadFile, ThreadTimes};

/// Run times are brought up to date at the timer tick, so much shorter ones would tell less.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The intervals of longer work are longer, so that its readings take no more memory.
const MOST_INTERVALS: u64 = 4_000;
/// An interval is at least so many times as long as the reading at its beginning took.
const INTERVAL_PER_COST: u64 = 100;
/// Programs by name in an interval, beside the work itself; all others are one.
const MOST_PROGRAMS: usize = 5;
/// Of other programs. To read more would take more than a hundredth of a CPU: then the work alone is read.
const MOST_THREADS: usize = 1_500;
/// What is left of the usual limit of 1,024 is for everything else; further ones are opened for each reading.
const MOST_OPEN_FILES: usize = 800;
/// What the program is called that does the work.
const WORK: &str = "contend";
const OTHERS: &str = "all others";
/// `USER_HZ` of x86, as in `processors`.
const TICK_NS: u64 = 10_000_000;
/// Of the whole machine: queue, switches, interrupts, busy, stolen, threads that were left out.
const WHOLE_ROWS: u64 = 6;

/// How much memory the readings of work take that may last for so long.
pub fn most_bytes(duration_ns: u64) -> u64 {
    let intervals = duration_ns / interval_ns(duration_ns) + 1;
    intervals * (WHOLE_ROWS + 2 * (MOST_PROGRAMS as u64 + 2)) * size_of::<Reading>() as u64
}

/// What was read, and what that took.
#[derive(Default)]
pub struct Readings {
    pub rows: Vec<Reading>,
    pub cpu_ns: u64,
}

/// Reads from now on, which is just before the tasks are let go, until `is_over` is no longer 0.
pub fn read_until(is_over: &AtomicU32, duration_ns: u64) -> Readings {
    let (begin_ns, interval_ns, cpu_ns) = (now_ns(), interval_ns(duration_ns), thread_cpu_ns());
    let mut programs = Programs::new();
    let mut readings = Readings::default();
    let mut before = Kernel::read(begin_ns);
    programs.used_since();
    let mut due_ns = begin_ns + interval_ns.max(INTERVAL_PER_COST * (thread_cpu_ns() - cpu_ns));
    loop {
        while is_over.load(Ordering::Acquire) == 0 && now_ns() < due_ns {
            wait_while(is_over, 0, Some(due_ns));
        }
        if is_over.load(Ordering::Acquire) != 0 {
            break;
        }
        let reading_ns = thread_cpu_ns();
        let after = Kernel::read(now_ns());
        let elapsed_ns = after.at_ns - before.at_ns;
        let row = |program: Arc<str>, figure, value| Reading {
            at_ns: after.at_ns - begin_ns,
            elapsed_ns,
            program,
            figure,
            value,
        };
        let whole: Arc<str> = "".into();
        readings.rows.extend(after.since(&before).map(|(figure, value)| row(Arc::clone(&whole), figure, value)));
        let used = programs.used_since();
        if programs.left_out > 0 {
            readings.rows.push(row(whole, "threads_left_out", programs.left_out as u64));
        }
        for (name, times) in busiest(used) {
            readings.rows.push(row(Arc::clone(&name), "run_ns", times.run_ns));
            readings.rows.push(row(name, "ready_ns", times.run_delay_ns));
        }
        before = after;
        let least_ns = INTERVAL_PER_COST * (thread_cpu_ns() - reading_ns);
        // One that comes late is not made up for.
        due_ns = (due_ns + interval_ns).max(before.at_ns + least_ns);
    }
    readings.cpu_ns = thread_cpu_ns() - cpu_ns;
    readings
}

fn interval_ns(duration_ns: u64) -> u64 {
    INTERVAL_NS.max(duration_ns / MOST_INTERVALS)
}

/// The work first, then those that ran or stood ready the longest; all others together.
fn busiest(mut used: HashMap<Arc<str>, ThreadTimes>) -> Vec<(Arc<str>, ThreadTimes)> {
    let work = used.remove_entry(WORK);
    let mut others: Vec<_> = used.into_iter().filter(|(_, times)| times.run_ns + times.run_delay_ns > 0).collect();
    others.sort_by(|(name, times), (other, of_other)| {
        let (one, two) = (times.run_ns + times.run_delay_ns, of_other.run_ns + of_other.run_delay_ns);
        two.cmp(&one).then_with(|| name.cmp(other))
    });
    let rest = others.split_off(others.len().min(MOST_PROGRAMS));
    let together = rest.into_iter().map(|(_, times)| times).reduce(added);
    work.into_iter().chain(others).chain(together.map(|times| (OTHERS.into(), times))).collect()
}

fn added(one: ThreadTimes, two: ThreadTimes) -> ThreadTimes {
    ThreadTimes { run_ns: one.run_ns + two.run_ns, run_delay_ns: one.run_delay_ns + two.run_delay_ns }
}

/// What the kernel counts of the whole machine; none where it does not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kernel {
    at_ns: u64,
    wanting: Option<u64>,
    switches: Option<u64>,
    interrupts: Option<u64>,
    busy_ns: Option<u64>,
    stolen_ns: Option<u64>,
}

impl Kernel {
    fn read(at_ns: u64) -> Self {
        Self { at_ns, ..fs::read_to_string("/proc/stat").map_or_else(|_| Self::default(), |text| Self::parse(&text)) }
    }

    fn parse(stat: &str) -> Self {
        let mut kernel = Self::default();
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let (name, mut numbers) = (words.next(), words.map_while(|word| word.parse::<u64>().ok()));
            match name {
                // user nice system idle iowait irq softirq steal
                Some("cpu") => {
                    let ticks: Vec<u64> = numbers.take(8).collect();
                    if ticks.len() >= 4 {
                        let idle: u64 = ticks.iter().skip(3).take(2).sum();
                        let stolen = ticks.get(7).copied();
                        let all: u64 = ticks.iter().sum();
                        kernel.busy_ns = Some((all - idle - stolen.unwrap_or(0)) * TICK_NS);
                        kernel.stolen_ns = stolen.map(|ticks| ticks * TICK_NS);
                    }
                }
                Some("ctxt") => kernel.switches = numbers.next(),
                Some("intr") => kernel.interrupts = numbers.next(),
                // The one that reads runs.
                Some("procs_running") => kernel.wanting = numbers.next().map(|count| count.saturating_sub(1)),
                _ => {}
            }
        }
        kernel
    }

    /// What has no value, or went backwards, has no row.
    fn since(&self, before: &Self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let gained = |of: fn(&Self) -> Option<u64>| of(self)?.checked_sub(of(before)?);
        let figures = [
            ("threads_wanting_cpu", self.wanting),
            ("context_switches", gained(|one| one.switches)),
            ("interrupts", gained(|one| one.interrupts)),
            ("busy_ns", gained(|one| one.busy_ns)),
            ("stolen_ns", gained(|one| one.stolen_ns)),
        ];
        figures.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// The threads of this machine as they were read last.
struct Programs {
    /// As `/proc` numbers this process, which may be in another namespace than it knows.
    own: Option<u32>,
    processes: HashMap<u32, Process>,
    threads: HashMap<u32, Thread>,
    /// Whether there was a reading: a thread that was not there then began since, and all that it did is new.
    has_begun: bool,
    left_out: usize,
}

struct Process {
    name: Arc<str>,
    /// It is no program, and none of its threads is read.
    is_of_kernel: bool,
}

struct Thread {
    /// None where too many are open.
    file: Option<ThreadFile>,
    times: ThreadTimes,
}

impl Programs {
    fn new() -> Self {
        let own = fs::read_link("/proc/self").ok().and_then(|path| path.to_str()?.parse().ok());
        Self { own, processes: HashMap::new(), threads: HashMap::new(), has_begun: false, left_out: 0 }
    }

    /// What each program used since it was asked last, by name.
    fn used_since(&mut self) -> HashMap<Arc<str>, ThreadTimes> {
        let listed = self.list();
        let mut now = HashMap::with_capacity(listed.len());
        let mut used: HashMap<Arc<str>, ThreadTimes> = HashMap::new();
        for (process, thread) in listed {
            let known = self.threads.remove(&thread);
            let Some((found, gained)) = self.read(process, thread, known, now.len() < MOST_OPEN_FILES) else {
                continue;
            };
            now.insert(thread, found);
            let Some(name) = self.processes.get(&process).map(|one| Arc::clone(&one.name)) else { continue };
            let sum = used.entry(name).or_default();
            *sum = added(*sum, gained);
        }
        (self.threads, self.has_begun) = (now, true);
        used
    }

    /// Reads one thread, and says what it gained; none if it has ended.
    fn read(&self, process: u32, thread: u32, known: Option<Thread>, may_keep: bool) -> Option<(Thread, ThreadTimes)> {
        let (file, before) = known.map_or((None, None), |one| (one.file, Some(one.times)));
        // A number that was given away anew is another thread, whose file is not open yet.
        let kept = file.and_then(|file| Some((file.times()?, file)));
        let (times, file) = kept.or_else(|| {
            let file = ThreadFile::open(process, thread)?;
            Some((file.times()?, file))
        })?;
        let gained = match before {
            Some(before) => times.since(before).unwrap_or(times),
            None if self.has_begun => times,
            None => ThreadTimes::default(),
        };
        Some((Thread { file: may_keep.then_some(file), times }, gained))
    }

    /// The processes and threads that there are now; of too many only those of the work.
    fn list(&mut self) -> Vec<(u32, u32)> {
        let mut threads: Vec<(u32, u32)> = Vec::new();
        let mut processes = HashMap::new();
        let mut others = 0;
        for process in numbers_in("/proc") {
            let is_own = Some(process) == self.own;
            if self.left_out > 0 && !is_own {
                continue;
            }
            let known = self.processes.remove(&process);
            let is_of_kernel = known.as_ref().map_or_else(|| !is_own && is_of_kernel(process), |one| one.is_of_kernel);
            let before = threads.len();
            if !is_of_kernel {
                threads.extend(numbers_in(&format!("/proc/{process}/task")).map(|thread| (process, thread)));
            }
            others += if is_own { 0 } else { threads.len() - before };
            let name = match known {
                Some(one) if is_of_kernel => one.name,
                None if is_of_kernel => Arc::from(""),
                _ if is_own => WORK.into(),
                _ => program_name(&fs::read(format!("/proc/{process}/comm")).unwrap_or_default()).into(),
            };
            processes.insert(process, Process { name, is_of_kernel });
        }
        self.processes = processes;
        if others > MOST_THREADS {
            self.left_out = others;
            threads.retain(|&(process, _)| Some(process) == self.own);
        }
        threads
    }
}

/// Threads of the kernel have no command line.
fn is_of_kernel(process: u32) -> bool {
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|text| text.is_empty())
}

/// Threads of one kind count as one: `worker/0:1` is `worker`.
fn program_name(comm: &[u8]) -> String {
    let text = String::from_utf8_lossy(comm);
    let name = text.trim_end_matches('\n');
    let kind = name.split_once('/').map_or(name, |(kind, _)| kind);
    if kind.is_empty() { "?".to_owned() } else { kind.to_owned() }
}

fn numbers_in(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn now_ns() -> u64 {
    kernel_clock_ns(KernelClock::Monotonic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  10 1 5 100 20 2 3 4 9 0\ncpu0 10 1 5 100 20 2 3 4 9 0\nintr 1234 5 6\nctxt 77\n\
                        btime 1\nprocs_running 3\nprocs_blocked 0\n";

    #[test]
    fn the_kernels_counts_are_read_without_the_reader_itself() {
        let kernel = Kernel::parse(STAT);
        assert_eq!(kernel.wanting, Some(2));
        assert_eq!((kernel.switches, kernel.interrupts), (Some(77), Some(1234)));
        assert_eq!((kernel.busy_ns, kernel.stolen_ns), (Some(21 * TICK_NS), Some(4 * TICK_NS)));
        assert_eq!(Kernel::parse("ctxt x\n"), Kernel::default());
    }

    #[test]
    fn what_went_backwards_or_is_not_counted_has_no_row() {
        let (before, after) = (Kernel::parse(STAT), Kernel::parse("intr 1300\nctxt 70\nprocs_running 1\n"));
        let rows: Vec<_> = after.since(&before).collect();
        assert_eq!(rows, [("threads_wanting_cpu", 0), ("interrupts", 66)]);
    }

    #[test]
    fn the_work_comes_first_and_the_many_are_one() {
        let times = |run_ns| ThreadTimes { run_ns, run_delay_ns: 0 };
        let mut used: HashMap<Arc<str>, ThreadTimes> =
            (1..=8).map(|one| (format!("program {one}").into(), times(one))).collect();
        used.insert(WORK.into(), times(0));
        used.insert("idle".into(), times(0));
        let told = busiest(used);
        let names: Vec<&str> = told.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, [WORK, "program 8", "program 7", "program 6", "program 5", "program 4", OTHERS]);
        assert_eq!(told[6].1.run_ns, 1 + 2 + 3);
    }

    #[test]
    fn those_of_one_kind_have_one_name_and_any_bytes_are_a_name() {
        assert_eq!(program_name(b"kworker/0:1-events\n"), "kworker");
        assert_eq!(program_name(b"a \xff) R\n"), "a \u{fffd}) R");
        assert_eq!(program_name(b""), "?");
        assert_eq!(program_name(b"/\n"), "?");
    }

    #[test]
    fn this_program_is_the_work_and_what_it_does_is_seen() {
        let mut programs = Programs::new();
        assert_eq!(programs.used_since().values().map(|one| one.run_ns).sum::<u64>(), 0, "a history is no use");
        let begin_ns = thread_cpu_ns();
        while thread_cpu_ns() - begin_ns < 30_000_000 {
            std::hint::spin_loop();
        }
        assert!(programs.used_since()[WORK].run_ns >= 10_000_000);
    }
}
