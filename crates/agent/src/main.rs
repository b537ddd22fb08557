//! `stealtime-agent`: what runs inside a machine under test.
//!
//! One static binary for every platform, so that native and guest are compared with the same machine code.
//! It is a child process natively and over ssh (`serve`), `/init` of a guest (as process 1), or a tool
//! without Python (`check`, `tick`, `switch`, `wakeup`, `contend`, `rtload`, `disk`, `net`, `load`). What watches
//! from outside (`counter`, `count`, `ask`, `blackout`, `rtp`) is the crate `stealtime-witness`.
//! `guard` makes a command die with its parent, `restore` puts back what a killed agent had changed,
//! `discipline` keeps the clock of a guest that is stopped often.

// Where nobody reads any more `eprintln!` panics; see `stealtime_console::remarks`.
#![deny(clippy::print_stderr)]

mod alone;
mod arguments;
mod cgroup;
mod channel;
mod check;
mod claims;
mod columns;
mod contend;
mod cpu_choice;
mod cpu_list;
mod devices;
mod discipline;
mod guard;
mod init;
mod load;
mod load_alone;
mod moment;
mod netlink;
mod network;
mod probes;
mod process_one;
mod program;
mod restore;
mod rtload;
mod sample_source;
mod serve;
mod streams;
mod tables;
mod trace_table;
mod tracing;

use std::env;
use std::process::ExitCode;

use clap::Parser;
use stealtime_console::document::is_broken_pipe;
use stealtime_console::remarks;
use stealtime_probe::TrialError;
use stealtime_probe::load::LoadError;

use crate::arguments::{Arguments, Command};
use crate::cgroup::CgroupError;

fn main() -> ExitCode {
    let line: Vec<String> = env::args_os().map(|one| one.to_string_lossy().into_owned()).collect();
    if process_one::is_init(&line) {
        return init::run();
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error, &line),
    };
    let result = match arguments.command {
        Command::Check(check) => check::run(&check),
        Command::Serve => serve::on_standard_streams(),
        Command::Guard(guard) => guard::run(&guard),
        Command::Clock => alone::clock(),
        Command::Discipline => discipline::run(),
        Command::Restore(restore) => restore::run(&restore),
        Command::Probe(probe) => alone::measure(&probe),
        Command::Load(load) => load_alone::run(&load),
        Command::Contend(contend) => contend::run(&contend),
        Command::Rtload(arguments) => rtload::run(&arguments),
        Command::Device(device) => device.run(),
        Command::Witness(witness) => witness.run(),
    };
    result.unwrap_or_else(|error| {
        // Whoever reads our output has stopped (`| head`): nobody wants to hear about it.
        if !is_broken_pipe(&error) {
            report(&error);
        }
        if error.is::<check::Misuse>() { ExitCode::from(2) } else { stealtime_witness::exit_code(&error) }
    })
}

/// A command line that asks for help, or is wrong. A program that monitors reads of the latter only the exit code and
/// standard output.
fn misused(error: &clap::Error, line: &[String]) -> ExitCode {
    let format = check::Format::of_arguments(line).filter(|format| error.use_stderr() && format.is_for_monitoring());
    let Some(format) = format else { error.exit() };
    let text = error.to_string();
    let said = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("wrong usage");
    check::failed(format, said.trim_start_matches("error: "))
}

/// One sentence for a person, on stderr.
fn report(error: &anyhow::Error) {
    remarks::error(error);
    if let Some(hint) = hint(error) {
        remarks::say(format_args!("hint: {hint}"));
    }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    let of_trial = || error.downcast_ref::<TrialError>()?.hint();
    let of_load = || error.downcast_ref::<LoadError>()?.hint();
    let of_cgroup = || error.downcast_ref::<CgroupError>().map(CgroupError::hint);
    of_trial().or_else(of_load).or_else(of_cgroup).or_else(|| stealtime_witness::hint(error))
}
