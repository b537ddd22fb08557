//! The verdict in words and figures, for each of those who read it.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;
use stealtime_console::document::{Head, finding, tell, write_findings};
use stealtime_probe::preflight;
use stealtime_probe::processor_sets::named;
use stealtime_probe::quota::Quota;
use stealtime_wire::{Facts, Finding, FindingLevel, Reading};

use crate::check::arguments::{Check, Format};
use crate::check::bar::Bar;
use crate::check::cause::{Cause, Circumstances};
use crate::check::evidence::{Late, Series};
use crate::check::judge::{BUSY, Evidence, State, judge};
use crate::check::measuring::{Plan, Watched, WatchedCpu};
use crate::check::told::{NPD_LENGTH, cut, shown};

/// A CPU of the document.
#[derive(Serialize)]
struct CpuFigures {
    cpu: u32,
    max_ns: Option<u64>,
    steal_ns: Option<u64>,
    #[serde(flatten)]
    series: Series,
}

/// The latest wake-up of all.
#[derive(Serialize)]
struct Worst {
    cpu: u32,
    late_ns: u64,
    /// Since the check began.
    at_s: f64,
}

/// What came of a check: what `--format json` prints.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    head: Head,
    state: State,
    /// One sentence.
    summary: String,
    hint: Option<String>,
    bar: Bar,
    warning_ns: u64,
    worst: Option<Worst>,
    /// Of the worst, where it was over a level.
    cause: Option<Cause>,
    elapsed_s: f64,
    interval_ns: u64,
    policy: &'static str,
    priority: u32,
    steal_ns: Option<u64>,
    cpus: Vec<CpuFigures>,
    machine: Facts,
    #[serde(skip)]
    findings: Vec<Finding>,
}

impl Report {
    /// Judges what was seen.
    pub fn of(check: &Check, plan: &Plan, watched: Watched, mut findings: Vec<Finding>, machine: Facts) -> Self {
        let is_refused = watched.cpus.iter().any(|cpu| cpu.refused.is_some());
        let latest = watched.latest().map(|(cpu, late)| (cpu.cpu, late));
        let evidence = evidence(plan, &watched);
        let (state, why) = judge(evidence, plan.levels);
        let quotas = preflight::cpu_quotas(&watched.quotas.0, &watched.quotas.1);
        findings.extend(watched.cpus.iter().find_map(|cpu| Some(refusal(plan, cpu.refused.as_ref()?))));
        findings.extend(check.bar.watched_s.map(|asked_s| watched_too_short(&check.bar, asked_s, watched.elapsed_ns)));
        if is_refused || plan.priority == 0 {
            findings.extend(quotas);
        }
        let reason = why.map(|why| finding("not_judged", FindingLevel::Invalidates, why.to_owned(), None));
        findings.extend(reason);
        let steal_ns = watched.cpus.iter().map(|cpu| cpu.steal_ns).sum();
        let (elapsed_ns, origin_ns) = (watched.elapsed_ns, watched.start.monotonic_ns);
        let cpus = watched.cpus.iter().map(CpuFigures::of).collect();
        let is_late = latest.is_some_and(|(_, late)| late.late_ns > plan.levels.warning_ns);
        let cause = is_late.then(|| find_cause(plan, watched, &machine)).flatten();
        let at_s = |late: Late| late.due_ns.saturating_sub(origin_ns) as f64 / 1e9;
        let worst = latest.map(|(cpu, late)| Worst { cpu, late_ns: late.late_ns, at_s: at_s(late) });
        let hint = match (state, why) {
            (State::NotJudged, Some(BUSY)) => {
                Some("run it as root or grant CAP_SYS_NICE, so that ordinary threads do not count".to_owned())
            }
            _ => cause.as_ref().and_then(|cause| cause.hint.clone()),
        };
        let policy = if plan.priority > 0 && !is_refused { "SCHED_FIFO" } else { "SCHED_OTHER" };
        let mut report = Self {
            head: Head::of(&findings),
            state,
            summary: String::new(),
            hint,
            bar: check.bar.clone(),
            warning_ns: plan.levels.warning_ns,
            worst,
            cause,
            elapsed_s: elapsed_ns as f64 / 1e9,
            interval_ns: plan.interval_ns,
            policy,
            priority: if policy == "SCHED_FIFO" { plan.priority } else { 0 },
            steal_ns,
            cpus,
            machine,
            findings,
        };
        report.summary = report.sentence(why);
        report
    }

    pub fn state(&self) -> State {
        self.state
    }

    fn sentence(&self, why: Option<&str>) -> String {
        let numbers: Vec<u32> = self.cpus.iter().map(|cpu| cpu.cpu).collect();
        let where_and_when = format!(
            "{} {} in {:.1} s",
            if numbers.len() == 1 { "CPU" } else { "CPUs" },
            named(&numbers),
            self.elapsed_s
        );
        let Some(worst) = &self.worst else {
            return format!("not judged, because {}", why.unwrap_or("nothing was measured"));
        };
        let late = shown(worst.late_ns);
        let bar = shown(self.bar.at_most_ns);
        let cause = self.cause.as_ref().map(|cause| format!(": {}", cause.text)).unwrap_or_default();
        match self.state {
            State::Ok => format!("at most {late} late, bar {bar}, {where_and_when}"),
            State::Warning | State::Critical => format!("{late} late on CPU {}, bar {bar}{cause}", worst.cpu),
            State::NotJudged => {
                let why = why.unwrap_or_default();
                format!("not judged, because {why}: {late} late on CPU {}, bar {bar}{cause}", worst.cpu)
            }
        }
    }

    /// Prints it.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn tell(&self, format: Format) -> Result<()> {
        tell(format == Format::Json, self, |output| match format {
            Format::Text | Format::Json => self.write_text(output),
            Format::Nagios => self.write_nagios(output),
            Format::Gcm => writeln!(output, "{}: {}", self.state.word(), self.for_program()),
            Format::Npd => writeln!(output, "{}", cut(&self.short(), NPD_LENGTH)),
        })
    }

    /// `CRITICAL: 4.2 ms, preempted by kworker/1:2`
    fn for_program(&self) -> String {
        let (Some(worst), Some(cause), State::Warning | State::Critical) = (&self.worst, &self.cause, self.state)
        else {
            return self.summary.clone();
        };
        format!("{} on CPU {}, {}", shown(worst.late_ns), worst.cpu, cause.text)
    }

    /// Where there is room for little: who, not for how long.
    fn short(&self) -> String {
        let text = self.for_program();
        if self.state == State::Warning { format!("warning: {text}") } else { text }
    }

    fn write_nagios(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(output, "STEALTIME {} - {} | {}", self.state.word(), self.summary, self.performance())?;
        for finding in &self.findings {
            writeln!(output, "note: {}", finding.text.replace('|', "?"))?;
        }
        self.hint.as_ref().map_or(Ok(()), |hint| writeln!(output, "hint: {}", hint.replace('|', "?")))
    }

    /// `'label'=value[UOM];[warn];[crit];[min]`
    fn performance(&self) -> String {
        // A thousandth is no binary fraction: times 1e-3, 131646 ns are 131.64600000000002 us.
        let us = |ns: u64| format!("{}us", ns as f64 / 1e3);
        let latest = self.worst.as_ref().map(|worst| {
            let (warning, critical) = (self.warning_ns as f64 / 1e3, self.bar.at_most_ns as f64 / 1e3);
            format!("max={};{warning};{critical};0", us(worst.late_ns))
        });
        let p99 = self.cpus.iter().filter_map(|cpu| cpu.series.p99_ns).max();
        let over: u64 = self.cpus.iter().map(|cpu| cpu.series.over_bar).sum();
        let figures = [
            latest,
            p99.map(|ns| format!("p99={};;;0", us(ns))),
            Some(format!("over_bar={over};;;0")),
            self.steal_ns.map(|ns| format!("steal={}ms;;;0", ns as f64 / 1e6)),
        ];
        figures.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(output, "{}: {}", self.state.word(), self.summary)?;
        let samples: u64 = self.cpus.iter().map(|cpu| cpu.series.samples).sum();
        let policy = if self.priority > 0 { format!("SCHED_FIFO {}", self.priority) } else { self.policy.to_owned() };
        writeln!(
            output,
            "{samples} wake-ups on {} {} in {:.1} s, one every {} at {policy}",
            self.cpus.len(),
            if self.cpus.len() == 1 { "CPU" } else { "CPUs" },
            self.elapsed_s,
            shown(self.interval_ns)
        )?;
        if let Some(cause) = self.cause.as_ref().filter(|cause| cause.parts.len() > 1) {
            let parts = cause.parts.iter().filter(|part| part.ns > 0).take(5);
            let told = parts.map(|part| {
                let name = part.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
                format!("{} {}{name}", shown(part.ns), part.kind.replace('_', " "))
            });
            writeln!(output, "of that: {}", told.collect::<Vec<_>>().join(", "))?;
        }
        if let Some(hint) = &self.hint {
            writeln!(output, "hint: {hint}")?;
        }
        write_findings(&self.findings, output)
    }
}

impl CpuFigures {
    fn of(watched: &WatchedCpu) -> Self {
        Self {
            cpu: watched.cpu,
            max_ns: watched.series.latest.map(|late| late.late_ns),
            steal_ns: watched.steal_ns,
            series: watched.series.clone(),
        }
    }
}

fn evidence(plan: &Plan, watched: &Watched) -> Evidence {
    let samples = watched.cpus.iter().map(|cpu| cpu.series.samples).sum();
    let Some((cpu, late)) = watched.latest() else { return Evidence { samples, ..Evidence::default() } };
    let excused_ns = match &cpu.refused {
        // Without the kernel's count anything may be.
        Some(_) => cpu.run_delay_ns.unwrap_or(u64::MAX),
        None => 0,
    };
    let expected = watched.cpus.len() as u64 * plan.samples();
    let is_cut_short = watched.is_cut_short && samples < expected;
    Evidence { longest_ns: late.late_ns, excused_ns, samples, is_cut_short }
}

fn find_cause(plan: &Plan, watched: Watched, machine: &Facts) -> Option<Cause> {
    let (cpu, late) = watched.latest()?;
    let others = watched.cpus.iter().filter(|other| other.cpu != cpu.cpu);
    let is_with_it = |other: &&WatchedCpu| other.series.latest.is_some_and(|one| late.is_mostly(one));
    let with_it = (others.clone().filter(is_with_it).count(), others.count());
    let is_real_time = plan.priority > 0 && cpu.refused.is_none();
    let (before, after) = &watched.quotas;
    let has_acted = |one: &&Quota| one.stopped_since(before).is_some_and(|did| did.times > 0);
    let held_back = after.iter().find(has_acted).filter(|_| !is_real_time);
    let circumstances = Circumstances {
        cpu: cpu.cpu,
        late,
        thread: cpu.thread,
        is_real_time,
        limit_is_lifted: matches!(machine.get("sched_rt_runtime_us"), Some(Reading::Value(value)) if value.is_null()),
        steal_ns: cpu.steal_ns,
        with_it,
        is_virtual: matches!(machine.get("hypervisor"), Some(Reading::Value(value)) if value.as_bool() == Some(true)),
        quota: held_back.map(|one| format!("a CPU quota held its threads back meanwhile ({})", one.file.display())),
        start: watched.start,
        end: watched.end,
    };
    Some(Cause::of(&circumstances, watched.trace))
}

/// What it means that real-time priority was refused.
fn refusal(plan: &Plan, error: &str) -> Finding {
    let text = format!(
        "SCHED_FIFO {} was refused ({error}): every ordinary thread may make a wake-up late, so only what they cannot \
         explain is called over the bar",
        plan.priority
    );
    let hint = "run it as root, or grant it: ulimit -r 99, or CAP_SYS_NICE";
    finding("no_sched_fifo", FindingLevel::Limits, text, Some(hint))
}

fn watched_too_short(bar: &Bar, asked_s: u64, elapsed_ns: u64) -> Finding {
    let text = format!(
        "the bar {} asks to watch for {} h, and the latest wake-up grows with time: {:.0} s within it are no pass of that \
         bar, only no failure",
        bar.name,
        asked_s / 3600,
        elapsed_ns as f64 * 1e-9
    );
    finding("watched_too_short", FindingLevel::Limits, text, Some("`stealtime run` watches as long as the bar asks"))
}
