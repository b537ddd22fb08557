//! `rtload`: periodic real-time tasks without a control plane.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use stealtime_console::document::{Head, NOT_VALID, RowFile, conclude, tell, write_findings};
use stealtime_console::quantities::{nanoseconds, parse_bytes};
use stealtime_probe::clock::{Settling, TscRate};
use stealtime_probe::running::Taken;
use stealtime_probe::tick::calibrate_on;
use stealtime_probe::{RunningTrial, Trial, facts, run_trial};
use stealtime_wire::{Facts, Probe, RealTimePolicy, RealTimeTask, Rtload, StreamName, TrialOutcome, TrialRequest};

use crate::claims::Claims;
use crate::cpu_choice::{all_cpus, one_cpu};
use crate::cpu_list::CpuList;
use crate::probes::Thefts;
use crate::restore::{Watchdog, put_back_leftovers};
use crate::tables;

/// The busy loop is calibrated at this length.
const LOOP_NS: u64 = 68_000;
const MISSED: u8 = 3;
pub const EXIT_CODES: &str =
    "Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 a job missed its deadline, 4 measured but not valid";

/// How tasks are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Policy {
    /// Fixed priorities on one CPU, shorter deadlines first
    Fifo,
    /// Earliest deadline first as the kernel has it, with a budget for each job
    Deadline,
}

/// A task as it is written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "each says its unit")]
struct Task {
    cost_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
}

/// `rtload`
#[derive(Debug, Args)]
pub struct RtloadArguments {
    /// The tasks, each COST/PERIOD or COST/PERIOD/DEADLINE, e.g. 1ms/10ms; all are first released together
    #[arg(required = true, value_name = "TASK", value_parser = parse_task)]
    tasks: Vec<Task>,
    /// How the tasks are scheduled
    #[arg(long, value_enum, default_value = "fifo")]
    policy: Policy,
    /// The CPUs to run on, e.g. 1; fifo uses the first [default: the last isolated one, else the last that this process
    /// was started on; for the policy deadline all that it was started on]
    #[arg(short = 'a', long, value_name = "CPUS", value_parser = CpuList::parse)]
    cpu: Option<CpuList>,
    /// How long jobs are released
    #[arg(short = 'D', long, default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// SCHED_FIFO priority of the task with the shortest deadline; each next one has one less
    #[arg(short, long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=99))]
    priority: u32,
    /// How much of its cost a job takes when nothing interrupts it
    #[arg(long, default_value_t = 95, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=100))]
    work: u64,
    /// How long a job may run under the policy deadline, of its cost
    #[arg(long, default_value_t = 100, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    budget: u64,
    /// Threads under ordinary scheduling that thrash the caches meanwhile
    #[arg(long, default_value_t = 0)]
    polluters: u32,
    /// The memory that each of them walks at random
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_bytes)]
    polluter_memory: u64,
    /// A thread on another CPU releases the tasks, by waking them
    #[arg(long)]
    released_elsewhere: bool,
    /// Lift RT throttling while measuring, then restore it (needs root)
    #[arg(long)]
    lift_rt_throttling: bool,
    #[command(flatten)]
    thefts: Thefts,
    /// Write a row for each job to this Arrow IPC stream file
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Print one JSON document on standard output
    #[arg(long)]
    json: bool,
}

fn parse_task(text: &str) -> std::result::Result<Task, String> {
    let times: Vec<u64> = text.split('/').map(parse_time).collect::<std::result::Result<_, _>>()?;
    match times[..] {
        [cost_ns, period_ns] => Ok(Task { cost_ns, period_ns, deadline_ns: period_ns }),
        [cost_ns, period_ns, deadline_ns] => Ok(Task { cost_ns, period_ns, deadline_ns }),
        _ => Err(format!("{text:?} is no task, write for example 1ms/10ms or 1ms/10ms/8ms")),
    }
}

fn parse_time(text: &str) -> std::result::Result<u64, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{text:?} is no duration: {error}"))?;
    match nanoseconds(duration) {
        Ok(0) => Err(format!("{text:?} is no time that a task could have")),
        Ok(time_ns) => Ok(time_ns),
        Err(error) => Err(error.to_string()),
    }
}

/// `stealtime-agent rtload`
pub fn run(arguments: &RtloadArguments) -> Result<ExitCode> {
    put_back_leftovers().context("RT throttling cannot be put back")?;
    let cpus = match arguments.policy {
        Policy::Deadline => all_cpus(arguments.cpu.as_ref())?,
        Policy::Fifo => one_cpu(arguments.cpu.as_ref())?,
    };
    let Some(&cpu) = cpus.first() else { bail!("no CPU was given to measure") };
    let (_claims, claimed) = Claims::take(&cpus, "stealtime-agent rtload");
    let machine = facts::read();
    let rate = TscRate::since(&Settling::begin().wait());
    let calibrated = calibrate_on(cpu, arguments.priority, LOOP_NS, &rate);
    let (loop_iterations, _) = calibrated.with_context(|| format!("CPU {cpu} cannot be measured"))?;
    let request = arguments.request(cpus, loop_iterations)?;
    let rows = RowFile::create(arguments.rows.as_deref())?;
    let watchdog = request.lift_rt_throttling.then(Watchdog::start).transpose()?;
    let running = Arc::new(RunningTrial::new());
    let on_signal = Arc::clone(&running);
    // Refused only if another handler exists already; then a Ctrl-C ends the process, and the watchdog restores.
    let _ = ctrlc::set_handler(move || on_signal.cancel());
    let mut recording = run_trial(&Trial { request: &request, rate: &rate, running: &running })?;
    drop(watchdog);
    recording.outcome.findings.extend(claimed);
    let document = Document::of(recording.outcome.clone(), machine);
    let told = tell(arguments.json, &document, |output| document.write_text(output));
    let fill = |rows: &mut _| tables::write(&recording, Taken::default(), StreamName::Jobs, rows);
    let written = rows.map_or(Ok(()), |file| file.fill(fill));
    Ok(conclude(document.exit_code(), [told, written]))
}

impl RtloadArguments {
    fn request(&self, cpus: Vec<u32>, loop_iterations: u64) -> Result<TrialRequest> {
        let mut sorted = self.tasks.clone();
        sorted.sort_by_key(|task| task.deadline_ns);
        let percent = |of: u64, percent: u64| u128::from(of) * u128::from(percent) / 100;
        let tasks = (1..).zip(sorted).map(|(number, Task { cost_ns, period_ns, deadline_ns })| {
            let iterations = percent(cost_ns, self.work) * u128::from(loop_iterations) / u128::from(LOOP_NS);
            let budget_ns = u64::try_from(percent(cost_ns, self.budget)).unwrap_or(u64::MAX).min(deadline_ns);
            RealTimeTask {
                name: format!("t{number}"),
                period_ns,
                deadline_ns,
                cost_ns,
                budget_ns: (self.policy == Policy::Deadline).then_some(budget_ns),
                iterations: u64::try_from(iterations).unwrap_or(u64::MAX).max(1),
            }
        });
        Ok(TrialRequest {
            lift_rt_throttling: self.lift_rt_throttling,
            injection: self.thefts.injection()?,
            ..TrialRequest::plain(
                Probe::Rtload(Rtload {
                    policy: match self.policy {
                        Policy::Fifo => RealTimePolicy::Fifo,
                        Policy::Deadline => RealTimePolicy::Deadline,
                    },
                    tasks: tasks.collect(),
                    polluters: self.polluters,
                    polluter_bytes: self.polluter_memory,
                    released_elsewhere: self.released_elsewhere,
                    drawn: None,
                }),
                cpus,
                self.priority,
                nanoseconds(self.duration)?,
            )
        })
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    released: u64,
    missed: u64,
    outcome: TrialOutcome,
    machine: Facts,
}

impl Document {
    fn of(outcome: TrialOutcome, machine: Facts) -> Self {
        let count = |name: &str| outcome.counters.get(name).copied().unwrap_or(0);
        Self {
            head: Head::of(&outcome.findings),
            released: count("released"),
            missed: count("missed"),
            outcome,
            machine,
        }
    }

    fn exit_code(&self) -> ExitCode {
        if !self.head.valid {
            ExitCode::from(NOT_VALID)
        } else if self.missed > 0 {
            ExitCode::from(MISSED)
        } else {
            ExitCode::SUCCESS
        }
    }

    fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(output, "missed {} of {} deadlines", self.missed, self.released)?;
        let (Probe::Rtload(asked), Some(told)) = (&self.outcome.request.probe, &self.outcome.rtload) else {
            return write_findings(&self.outcome.findings, output);
        };
        writeln!(
            output,
            "{:<6} {:>12} {:>12} {:>12} {:>9} {:>7} {:>14} {:>14}",
            "task", "cost us", "period us", "deadline us", "jobs", "missed", "median us", "worst us"
        )?;
        let us = |ns: u64| ns as f64 * 1e-3;
        let response = |units: Option<u64>| {
            units.map_or("-".to_owned(), |units| format!("{:.1}", units as f64 / told.conversion.tsc_per_ns * 1e-3))
        };
        for (task, one) in asked.tasks.iter().zip(&told.tasks) {
            writeln!(
                output,
                "{:<6} {:>12.1} {:>12.1} {:>12.1} {:>9} {:>7} {:>14} {:>14}",
                task.name,
                us(task.cost_ns),
                us(task.period_ns),
                us(task.deadline_ns),
                one.released,
                one.late + one.unstarted,
                response(one.median_response_units),
                response(one.worst_response_units)
            )?;
        }
        write_findings(&self.outcome.findings, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_with_or_without_a_deadline() {
        let task = |cost_ns, period_ns, deadline_ns| Task { cost_ns, period_ns, deadline_ns };
        assert_eq!(parse_task("1ms/10ms"), Ok(task(1_000_000, 10_000_000, 10_000_000)));
        assert_eq!(parse_task("250us/1s/5ms"), Ok(task(250_000, 1_000_000_000, 5_000_000)));
        for text in ["1ms", "1ms/10ms/8ms/1ms", "0s/10ms", "1/10", ""] {
            assert!(parse_task(text).is_err(), "{text}");
        }
    }
}
