//! Response times of many task sets, by this crate and by `response-time-analysis`, in turn.
//!
//! `throughput FILE`: a line `cost period` for each task, the highest priority first, an empty line after each set.
//! Each line on the standard input, `ours` or `peer`, analyses all sets once and is answered by a line
//! `SECONDS SUM`: wall time, and the sum of all bounds in nanoseconds, 0 for a task without one. `edf` charges
//! overheads and tests the demand of all sets; its sum is the number of sets that are schedulable.

use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::fixed_priority::fully_preemptive::dedicated_uniproc_rta;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::wcet::Scalar;
use stealtime_schedulability::{Dedicated, Interrupts, Overheads, Policy, Question, Response, Solver, Task, Workload};

/// Where the peer gives up; far beyond any busy window of a set that is not over-utilized.
const LIMIT_NS: u64 = 1_000_000_000_000;

type Curve = RBF<Sporadic, Scalar>;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("usage: throughput FILE")?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let sets = text.split("\n\n").filter(|set| !set.trim().is_empty()).map(read).collect::<Result<Vec<_>>>()?;
    // Both get the sets in their own form before any time is taken.
    let curves: Vec<Vec<Curve>> = sets.iter().map(|set| set.iter().map(curve).collect()).collect();
    let workloads: Vec<Workload> = sets.iter().map(|set| Workload::without_overheads(set)).collect();
    let mut answer = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let began = Instant::now();
        let sum = match line?.as_str() {
            "ours" => ours(&workloads),
            "edf" => sets.iter().map(|set| edf(set)).sum(),
            "peer" => curves.iter().map(|set| peer(set)).sum(),
            other => bail!("{other:?} is none of ours, edf and peer"),
        };
        writeln!(answer, "{} {sum}", began.elapsed().as_secs_f64())?;
        answer.flush()?;
    }
    Ok(())
}

fn read(set: &str) -> Result<Vec<Task>> {
    let task = |line: &str| {
        let (cost, period) = line.split_once(' ').with_context(|| format!("{line:?} is not `cost period`"))?;
        Ok(Task::implicit(cost.parse()?, period.parse()?))
    };
    set.trim().lines().map(task).collect()
}

fn curve(task: &Task) -> Curve {
    let arrivals = Sporadic::new_zero_jitter(Duration::from(task.period_ns));
    RBF::new(arrivals, Scalar::new(Service::from(task.cost_ns)))
}

fn ours(workloads: &[Workload]) -> u64 {
    let mut solver = Solver::default();
    let mut responses = Vec::new();
    let mut sum = 0;
    for workload in workloads {
        solver.responses(workload, &Dedicated, &mut responses);
        let bound = |response: &Response| if let Response::Bounded(ns) = response { *ns } else { 0 };
        sum += responses.iter().map(bound).sum::<u64>();
    }
    sum
}

/// Whether a set is schedulable under EDF, with the overheads of an ordinary kernel.
fn edf(set: &[Task]) -> u64 {
    let overheads = Overheads {
        event_latency_ns: 30_000,
        release_ns: 10_000,
        scheduling_ns: 5_000,
        context_switch_ns: 5_000,
        tick_ns: 5_000,
        tick_period_ns: 1_000_000,
        inter_processor_interrupt_ns: 0,
        cache_preemption_ns: 10_000,
    };
    let (interrupts, policy) = (Interrupts::Here, Policy::EarliestDeadlineFirst);
    let question =
        Question { interference: &[], tasks: set, levels: &[], overheads, interrupts, policy, supply: &Dedicated };
    u64::from(question.is_schedulable() == Ok(true))
}

fn peer(set: &[Curve]) -> u64 {
    let bound =
        |index: usize| dedicated_uniproc_rta(&set[index], &set[..index], Duration::from(LIMIT_NS)).map_or(0, u64::from);
    (0..set.len()).map(bound).sum()
}
