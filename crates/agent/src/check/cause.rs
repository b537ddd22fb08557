//! Why a wake-up was late: from the kernel's events, else from what the kernel counts.

use serde::Serialize;
use stealtime_attribution::{Attribution, attribute};
use stealtime_attribution::{Cause as Known, Followed, Labelled, Spikes, Trace, World};
use stealtime_trace::Recorded;
use stealtime_wire::ClockReading;

use crate::check::evidence::Late;
use crate::check::rows::{Runner, rows_between, stopped_within, untold_within, who_ran};
use crate::check::told::{plain, shown};

/// So long before a wake-up its story begins: who ran must have been seen coming.
const BEFORE_NS: u64 = 300_000_000;

/// So long after it the events still matter.
const AFTER_NS: u64 = 1_000_000;

/// A cause is known where the trace tells who had the CPU, but for one part in so many.
const MOST_UNTOLD: u64 = 10;
const NOT_WHOLE: &str = "the kernel's trace leaves out switches of that CPU";
const CHECK_ANOTHER: &str =
    "`stealtime-agent check -a CPU` checks another one; restart this kernel, which no longer tells who runs there";

/// A part of a delay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub kind: &'static str,
    pub name: Option<String>,
    pub ns: u64,
}

/// What is known of a delay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Continues "CPU 1 was 4.2 ms late: ".
    pub text: String,
    pub is_known: bool,
    /// Largest first.
    pub parts: Vec<Part>,
    #[serde(skip)]
    pub hint: Option<String>,
}

/// A delay, and what else is known of its CPU at that time.
#[derive(Debug, Clone)]
pub struct Circumstances {
    pub cpu: u32,
    pub late: Late,
    /// The measuring thread, as the trace has it.
    pub thread: i32,
    pub is_real_time: bool,
    pub limit_is_lifted: bool,
    pub steal_ns: Option<u64>,
    /// How many other CPUs were late at the same time, of how many.
    pub with_it: (usize, usize),
    pub is_virtual: bool,
    /// What quotas held this process back meanwhile.
    pub quota: Option<String>,
    pub start: ClockReading,
    pub end: ClockReading,
}

impl Cause {
    /// Finds the cause.
    pub fn of(it: &Circumstances, trace: Result<Recorded, String>) -> Self {
        match trace.and_then(|recorded| Told::of(it, recorded)) {
            Ok(told) => told.cause(it),
            Err(why) if why == NOT_WHOLE => Self { hint: Some(CHECK_ANOTHER.to_owned()), ..Self::unknown(it, &why) },
            Err(why) => Self::unknown(it, &why),
        }
    }

    /// Without a trace: what counters tell, which is not who ran.
    fn unknown(it: &Circumstances, why: &str) -> Self {
        let mut text = format!("cause not known, because {}", plain(why));
        if let Some(counted) = it.counted() {
            text = format!("{text}; {counted}");
        }
        let hint = "run it as root on the host's PID namespace, so that the kernel's trace tells who had the CPU";
        Self { text, is_known: false, parts: Vec::new(), hint: Some(it.hint_of_counts().unwrap_or(hint).to_owned()) }
    }
}

impl Circumstances {
    /// Whether the hypervisor had the CPU for most of the lateness, as steal time tells it.
    fn is_stolen(&self) -> bool {
        self.steal_ns.is_some_and(|steal_ns| steal_ns > self.late.late_ns / 2)
    }

    /// Evidence that needs no trace: what explains most comes first.
    fn counted(&self) -> Option<String> {
        let stolen = self.steal_ns.filter(|&steal_ns| steal_ns > 0);
        let stolen = stolen.map(|ns| format!("the hypervisor took {} from this CPU meanwhile (steal)", shown(ns)));
        let (first, second) =
            if self.is_stolen() { (stolen, self.quota.clone()) } else { (self.quota.clone(), stolen) };
        first.or(second).or_else(|| {
            let (late, others) = self.with_it;
            (others > 0 && late == others).then(|| "all CPUs were late at the same time".to_owned())
        })
    }

    fn hint_of_counts(&self) -> Option<&'static str> {
        self.is_stolen().then_some(OVERCOMMITTED).or_else(|| self.quota.is_some().then_some(RAISE_QUOTA))
    }

    /// A time of `CLOCK_MONOTONIC` as cycles: on the line through the readings around it.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^53 from the start")]
    fn cycles(&self, monotonic_ns: u64) -> u64 {
        let since_ns = monotonic_ns.saturating_sub(self.start.monotonic_ns);
        self.start.tsc + (since_ns as f64 * self.cycles_per_ns()) as u64
    }

    fn cycles_per_ns(&self) -> f64 {
        let cycles = self.end.tsc.wrapping_sub(self.start.tsc);
        cycles as f64 / (self.end.monotonic_ns - self.start.monotonic_ns).max(1) as f64
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^53")]
    fn ns(&self, cycles: u64) -> u64 {
        (cycles as f64 / self.cycles_per_ns()) as u64
    }
}

const OVERCOMMITTED: &str =
    "the host has more virtual CPUs to run than CPUs: ask for dedicated ones, or for fewer guests";
/// A kernel may leave out a switch (`untold_within`): whoever came by it and stays is not seen to be there.
const UNTOLD: &str = "what this kernel does not tell (interrupts were off, a switch is missing)";
const TRACE_THE_HOST: &str = "trace the host beside it: `stealtime run latency` on the host names who had the CPU";
const MOVE_THREAD: &str = "keep that thread off this CPU (cpuset, taskset), or lower its priority (chrt)";
const RAISE_QUOTA: &str = "raise the quota (CPUQuota= of systemd, limits.cpu of Kubernetes, --cpus of docker)";

/// What a trace tells.
struct Told {
    parts: Vec<Part>,
    runner: Option<Runner>,
    /// For how long a signal kept the thread from running.
    stopped_ns: u64,
}

impl Told {
    fn of(it: &Circumstances, recorded: Recorded) -> Result<Self, String> {
        let thread = it.thread;
        let (start, end) = (it.cycles(it.late.due_ns), it.cycles(it.late.due_ns + it.late.late_ns));
        let from = it.cycles(it.late.due_ns.saturating_sub(BEFORE_NS)).max(it.start.tsc);
        let until = it.cycles(it.late.due_ns + it.late.late_ns + AFTER_NS).min(it.end.tsc);
        let (columns, names) = rows_between(recorded, from, until)?;
        let trace = Trace::new(columns.borrowed(), &names, (from, until), it.cycles_per_ns())
            .map_err(|error| error.to_string())?;
        let threads = [thread];
        let followed = Followed { threads: &threads, real_time: it.is_real_time, limit_lifted: it.limit_is_lifted };
        let world = World::Native(Labelled { trace: &trace, threads: &[], labels: &[], cpus: None }, followed);
        let spikes = Spikes { start: &[start], duration: &[end.saturating_sub(start)], floor: 0 };
        let found = attribute(&world, spikes, &[]).map_err(|error| error.to_string())?;
        if !found.parts.judged.first().copied().unwrap_or(false) {
            return Err("the kernel's buffers had overwritten that moment when they were read".to_owned());
        }
        if untold_within(&columns, it.cpu, (start, end)) > end.saturating_sub(start) / MOST_UNTOLD {
            return Err(NOT_WHOLE.to_owned());
        }
        Ok(Self {
            parts: parts(it, &found),
            runner: who_ran(&columns, &names, (it.cpu, thread), (start, end)),
            stopped_ns: it.ns(stopped_within(&columns, thread, (start, end))),
        })
    }

    fn cause(self, it: &Circumstances) -> Cause {
        let Self { mut parts, runner, stopped_ns } = self;
        if stopped_ns > it.late.late_ns / 2 {
            let part = Part { kind: "stopped", name: None, ns: stopped_ns };
            return Cause {
                text: format!(
                    "the check itself was stopped by a signal (SIGSTOP or a debugger) for {}",
                    shown(stopped_ns)
                ),
                is_known: true,
                parts: vec![part],
                hint: Some("nothing is known of the machine in that time: run the check again".to_owned()),
            };
        }
        let named = |part: &Part| part.name.as_deref().map(plain).unwrap_or_default();
        let ran = runner.as_ref().map(|one| format!("{} (thread {})", plain(&one.name), one.thread));
        let Some(first) = parts.first_mut() else { return Cause::unknown(it, "the trace shows no reason") };
        let for_ns = shown(first.ns);
        let (text, hint) = match first.kind {
            "thread" if first.name.as_deref() == Some("idle") => (
                format!("its CPU took {for_ns} to leave an idle state"),
                Some("boot with idle=poll or cpuidle off, if it has to be faster"),
            ),
            "thread" => {
                if let Some(one) = runner.as_ref() {
                    first.name = Some(one.name.clone());
                }
                let verb =
                    if runner.as_ref().is_some_and(|one| one.is_real_time) { "preempted by" } else { "waited for" };
                let who = runner.as_ref().map_or_else(|| named(first), |one| plain(&one.name));
                (format!("{verb} {who} for {for_ns}"), Some(MOVE_THREAD))
            }
            "timer_tick" => (format!("the timer interrupt took {for_ns}"), None),
            "interrupt" => (
                format!("interrupt {} took {for_ns}", named(first)),
                Some("move that interrupt to another CPU (/proc/irq/N/smp_affinity)"),
            ),
            "softirq" => (
                format!("softirq {} took {for_ns}", named(first)),
                Some("move the interrupts that raise it to another CPU (/proc/irq/N/smp_affinity)"),
            ),
            "rt_throttling" => (
                format!(
                    "the kernel's limit on real-time threads held it back for {for_ns}{}",
                    ran.map(|ran| format!(" while {ran} ran")).unwrap_or_default()
                ),
                Some("find the real-time thread that uses up its share (sched_rt_runtime_us, default 950 ms a second)"),
            ),
            "quota_throttling" => (format!("its group's CPU quota held it back for {for_ns}"), Some(RAISE_QUOTA)),
            "unexplained" => return above(it, parts, runner.as_ref()),
            _ => (format!("{} {} for {for_ns}", first.kind, named(first)), None),
        };
        // Whoever runs while a quota holds a thread back looks as if they had displaced it.
        let (text, hint) = match it.quota.as_ref().filter(|_| parts.first().is_some_and(|one| one.kind == "thread")) {
            Some(quota) => (format!("{text}; {quota}"), Some(RAISE_QUOTA)),
            None => (text, hint),
        };
        Cause { text, is_known: true, parts, hint: hint.map(str::to_owned) }
    }
}

/// Nothing woke the thread: something below or above this kernel had the CPU, or whoever was on it let no interrupt
/// through.
fn above(it: &Circumstances, parts: Vec<Part>, runner: Option<&Runner>) -> Cause {
    let mostly = runner.filter(|one| it.ns(one.cycles) > it.late.late_ns / 2);
    let is_stolen = it.is_stolen();
    if let Some(one) = mostly.filter(|one| one.is_real_time && !is_stolen) {
        let ns = it.ns(one.cycles);
        let part = Part { kind: "thread", name: Some(one.name.clone()), ns };
        let text = format!("preempted by {} for {}", plain(&one.name), shown(ns));
        return Cause { text, is_known: true, parts: vec![part], hint: Some(MOVE_THREAD.to_owned()) };
    }
    let for_ns = shown(parts.first().map_or(0, |part| part.ns));
    let (late, others) = it.with_it;
    let together = if others > 0 && late == others { ", as all other CPUs" } else { "" };
    let stolen = it.steal_ns.filter(|&steal_ns| steal_ns > 0);
    let (text, hint) = match stolen {
        Some(steal_ns) if is_stolen => (
            format!(
                "the hypervisor ran something else for {for_ns}{together} (steal time of this CPU grew by {})",
                shown(steal_ns)
            ),
            OVERCOMMITTED,
        ),
        Some(steal_ns) => (
            format!(
                "the trace shows nothing that ran for {for_ns}{together}, and steal time of this CPU grew by {} only: \
                 its hypervisor, or {UNTOLD}",
                shown(steal_ns)
            ),
            TRACE_THE_HOST,
        ),
        None if it.is_virtual => (
            format!("the trace shows nothing that ran for {for_ns}{together}: its hypervisor, or {UNTOLD}"),
            TRACE_THE_HOST,
        ),
        None => (
            format!("the trace shows nothing that ran for {for_ns}{together}: firmware (SMI), or {UNTOLD}"),
            "look for SMIs (turbostat, hwlatdetect) and at the kernel's irqsoff tracer",
        ),
    };
    let on_it = mostly.map(|one| format!("; {} was on the CPU", plain(&one.name))).unwrap_or_default();
    Cause { text: text + &on_it, is_known: is_stolen, parts, hint: Some(hint.to_owned()) }
}

fn parts(it: &Circumstances, found: &Attribution) -> Vec<Part> {
    let causes = found.parts.cause.iter().zip(&found.parts.cycles);
    let part =
        |cause: &Known, cycles: u64| Part { kind: cause.kind.name(), name: cause.name.clone(), ns: it.ns(cycles) };
    let mut parts: Vec<Part> =
        causes.filter_map(|(&cause, &cycles)| Some(part(found.causes.get(cause)?, cycles))).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    parts
}

#[cfg(test)]
mod tests {
    use stealtime_trace::{Kind, Row};

    use super::*;
    use crate::columns::Columns;

    const PROBE: i32 = 100;
    const NAMES: [&str; 3] = ["st-check", "kworker/1:2", "irq/24-eth0"];

    fn circumstances() -> Circumstances {
        let reading = |ns: u64| ClockReading { tsc: 2 * ns, monotonic_raw_ns: ns, monotonic_ns: ns, bracket_tsc: 0 };
        Circumstances {
            cpu: 1,
            late: Late { due_ns: 1_000, late_ns: 4_000 },
            thread: PROBE,
            is_real_time: true,
            limit_is_lifted: false,
            steal_ns: Some(0),
            with_it: (0, 1),
            is_virtual: false,
            quota: None,
            start: reading(0),
            end: reading(10_000),
        }
    }

    /// Switches: time in ns, CPU, thread that leaves, its state, thread that comes, its priority, its name.
    fn columns(switches: &[(u64, u16, i32, i64, i32, i16, u32)]) -> Columns {
        let mut columns = Columns::default();
        for &(ns, cpu, thread, value, other, priority, name) in switches {
            columns.push(&Row { time: 2 * ns, cpu, kind: Kind::Switch, thread, value, other, priority, name });
        }
        columns
    }

    fn told(parts: &[(&'static str, Option<&str>, u64)], runner: Option<Runner>) -> Told {
        let part =
            |&(kind, name, ns): &(&'static str, Option<&str>, u64)| Part { kind, name: name.map(str::to_owned), ns };
        Told { parts: parts.iter().map(part).collect(), runner, stopped_ns: 0 }
    }

    #[test]
    fn who_had_the_cpu_longest_is_named_with_its_number() {
        let columns = columns(&[
            (500, 1, PROBE, 1, 7, 120, 1),
            (900, 0, 0, 0, 8, 10, 2),
            (1_500, 1, 7, 0, 9, 10, 2),
            (1_600, 1, 9, 1, 7, 120, 1),
            (4_900, 1, 7, 0, PROBE, 19, 0),
        ]);
        let it = circumstances();
        let names = NAMES.map(str::to_owned);
        let within = (it.cycles(1_000), it.cycles(5_000));
        let ran = who_ran(&columns, &names, (it.cpu, PROBE), within).unwrap();
        assert_eq!(ran, Runner { name: "kworker/1:2".to_owned(), thread: 7, is_real_time: false, cycles: 7_600 });
        let cause = told(&[("thread", Some("kworker"), 3_800)], Some(ran)).cause(&it);
        assert_eq!(cause.text, "waited for kworker/1:2 for 3.8 us");
        assert_eq!(cause.parts[0].name.as_deref(), Some("kworker/1:2"));
    }

    #[test]
    fn a_real_time_thread_preempts_and_an_ordinary_one_ran_under_the_limit() {
        let runner = |is_real_time| Runner { name: "hog".to_owned(), thread: 7, is_real_time, cycles: 6_000 };
        let preempted = told(&[("thread", Some("hog"), 3_000)], Some(runner(true))).cause(&circumstances());
        assert_eq!(preempted.text, "preempted by hog for 3 us");
        let limit = ("rt_throttling", Some("limit of real-time runtime"), 3_000);
        let limited = told(&[limit], Some(runner(false))).cause(&circumstances());
        assert!(limited.text.ends_with("held it back for 3 us while hog (thread 7) ran"), "{}", limited.text);
    }

    #[test]
    fn who_leaves_without_having_come_shows_that_the_trace_is_not_whole() {
        let it = circumstances();
        let within = (it.cycles(1_000), it.cycles(5_000));
        let whole = [(500, 1, PROBE, 1, 0, 120, 0), (900, 1, 0, 0, 7, 4, 1), (4_900, 1, 7, 0, PROBE, 19, 0)];
        assert_eq!(untold_within(&columns(&whole), it.cpu, within), 0);
        assert_eq!(untold_within(&columns(&[whole[0], whole[2]]), it.cpu, within), it.cycles(4_900) - it.cycles(1_000));
        // What is missing before the delay, or of another CPU, says nothing of it.
        let earlier = [(300, 1, 7, 0, PROBE, 19, 0), (400, 1, 8, 0, PROBE, 19, 0)];
        assert_eq!(untold_within(&columns(&[&earlier[..], &whole[..]].concat()), it.cpu, within), 0);
        assert_eq!(untold_within(&columns(&[whole[0], whole[2]]), 0, within), 0);
    }

    #[test]
    fn a_signal_that_stopped_the_thread_is_no_fault_of_the_machine() {
        let columns =
            columns(&[(500, 1, PROBE, 1, 0, 120, 0), (1_100, 1, PROBE, 4, 0, 120, 0), (4_600, 1, 0, 0, PROBE, 19, 0)]);
        let it = circumstances();
        let stopped_ns = it.ns(stopped_within(&columns, PROBE, (it.cycles(1_000), it.cycles(5_000))));
        assert_eq!(stopped_ns, 3_500);
        let cause = Told { stopped_ns, ..told(&[("unexplained", None, 4_000)], None) }.cause(&it);
        assert!(cause.text.starts_with("the check itself was stopped by a signal"), "{}", cause.text);
    }

    #[test]
    fn what_no_kernel_sees_is_the_hypervisor_only_where_steal_time_says_so() {
        let unexplained = || told(&[("unexplained", None, 4_000)], None);
        let stolen = unexplained().cause(&Circumstances { steal_ns: Some(10_000_000), ..circumstances() });
        assert!(stolen.is_known && stolen.text.starts_with("the hypervisor ran something else"), "{}", stolen.text);
        // A tick of the kernel's clock explains no lateness of seven.
        let mostly_unknown = Circumstances { steal_ns: Some(10_000_000), ..circumstances() };
        let late = Late { late_ns: 74_000_000, ..mostly_unknown.late };
        let partly = unexplained().cause(&Circumstances { late, ..mostly_unknown });
        assert!(!partly.is_known && partly.text.contains("grew by 10 ms only: its hypervisor, or"), "{}", partly.text);
        let guest = unexplained().cause(&Circumstances { is_virtual: true, with_it: (1, 1), ..circumstances() });
        assert!(!guest.is_known && guest.text.contains(", as all other CPUs: its hypervisor, or"), "{}", guest.text);
        let metal = unexplained().cause(&circumstances());
        assert!(!metal.is_known && metal.text.contains("SMI"), "{}", metal.text);
    }

    #[test]
    fn who_was_on_the_cpu_while_nothing_woke_the_thread_is_named() {
        let unexplained = |is_real_time| {
            let runner = Runner { name: "hog".to_owned(), thread: 7, is_real_time, cycles: 6_000 };
            told(&[("unexplained", None, 4_000)], Some(runner))
        };
        let urgent = unexplained(true).cause(&circumstances());
        assert_eq!((urgent.text.as_str(), urgent.is_known), ("preempted by hog for 3 us", true));
        let ordinary = unexplained(false).cause(&circumstances());
        assert!(!ordinary.is_known && ordinary.text.ends_with("; hog was on the CPU"), "{}", ordinary.text);
        let stolen = Circumstances { steal_ns: Some(10_000_000), ..circumstances() };
        assert!(unexplained(false).cause(&stolen).text.starts_with("the hypervisor"));
    }

    #[test]
    fn without_a_trace_counters_are_told_and_no_cause() {
        let why = || Err("it was asked not to trace".to_owned());
        let plain = Cause::of(&circumstances(), why());
        assert_eq!(
            (plain.text.as_str(), plain.is_known),
            ("cause not known, because it was asked not to trace", false)
        );
        let counted = Circumstances { steal_ns: Some(20_000_000), ..circumstances() };
        let text = Cause::of(&counted, why()).text;
        assert!(text.ends_with("; the hypervisor took 20 ms from this CPU meanwhile (steal)"), "{text}");
        let late = Late { late_ns: 74_000_000, ..counted.late };
        let few = Circumstances { late, steal_ns: Some(10_000_000), ..circumstances() };
        let hint = Cause::of(&few, why()).hint.unwrap();
        assert!(hint.starts_with("run it as root"), "a tick of steal time is no over-commitment: {hint}");
        let quota = Circumstances { quota: Some("a CPU quota held its threads back".to_owned()), ..circumstances() };
        assert!(Cause::of(&quota, why()).hint.unwrap().starts_with("raise the quota"));
        let runner = Runner { name: "bash".to_owned(), thread: 7, is_real_time: false, cycles: 6_000 };
        let beside = told(&[("thread", Some("bash"), 3_000)], Some(runner)).cause(&quota);
        assert_eq!(beside.text, "waited for bash for 3 us; a CPU quota held its threads back");
    }
}
