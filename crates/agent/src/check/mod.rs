//! `check`: is this machine quiet enough right now? One verdict with its cause, for node checks.
//!
//! It measures as `wakeup` does, on every CPU at the same time: a thread on each sleeps until absolute times one
//! interval apart and notes how late it runs again. That costs a CPU some microseconds an interval, so it takes
//! nothing from the jobs that run there, whatever their number; a busy loop would. Meanwhile the kernel's own ring
//! buffers remember the last moments (`memory`). They are read once somebody was late, and tell who had the CPU
//! (`cause`).

mod arguments;
mod bar;
mod cause;
mod evidence;
mod judge;
mod measuring;
mod memory;
mod report;
mod rows;
mod told;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::Result;
use stealtime_console::remarks;
use stealtime_probe::facts;

pub use arguments::{Check, EXIT_CODES, Format};
pub use measuring::Misuse;

use crate::check::measuring::{Plan, watch};
use crate::check::report::Report;
use crate::claims::Claims;
use crate::cpu_choice::all_cpus;
use crate::restore::put_back_leftovers;

/// Checks; the exit code is the one that whoever reads the format expects, also where this failed.
///
/// # Errors
/// Only of formats for people: those for monitoring have an answer for that too.
pub fn run(check: &Check) -> Result<ExitCode> {
    if !check.format.is_for_monitoring() {
        return examine(check);
    }
    let result = catch_unwind(AssertUnwindSafe(|| examine(check)));
    Ok(match result {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => failed(check.format, &remarks::in_full(&error)),
        Err(_) => failed(check.format, "the check panicked: this is a defect of stealtime"),
    })
}

/// Says on standard output that the check itself failed; gives the exit code for that.
pub fn failed(format: Format, why: &str) -> ExitCode {
    told::failure(format, why);
    format.exit_of_failure()
}

fn examine(check: &Check) -> Result<ExitCode> {
    put_back_leftovers()?;
    stealtime_trace::remove_leftovers()?;
    let cpus = all_cpus(check.cpu.as_ref())?;
    let plan = Plan::of(check, cpus)?;
    let (_claims, claimed) = Claims::take(&plan.cpus, "stealtime-agent check");
    let watched = watch(&plan)?;
    let report = Report::of(check, &plan, watched, claimed, facts::read());
    let code = report.state().exit(check.format);
    report.tell(check.format)?;
    Ok(code)
}
