//! `stealtime-agent`: what runs inside a machine under test.
//!
//! One static binary for every platform, so that native and guest are compared with the same machine code.
//! It is a child process natively and over ssh (`serve`), `/init` of a guest (as process 1), or a tool
//! without Python (`tick`, `switch`, `wakeup`, `contend`, `rtload`, `load`). `counter` is a workload whose
//! losses can be proved, `count` and `ask` are its clients, `blackout` tells how long any client saw nothing.
//! `rtp` sends and receives streams of voice packets.
//! `guard` makes a command die with its parent, `restore` puts back what a killed agent had changed,
//! `discipline` keeps the clock of a guest that is stopped often.

// Where nobody reads any more `eprintln!` panics; see `remarks`.
#![deny(clippy::print_stderr)]

mod alone;
mod arguments;
mod blackout;
mod cgroup;
mod channel;
mod claims;
mod contend;
mod counter;
mod counting;
mod cpu_choice;
mod cpu_list;
mod discipline;
mod document;
mod guard;
mod init;
mod load;
mod load_alone;
mod netlink;
mod network;
mod probes;
mod process_one;
mod quantities;
mod remarks;
mod restore;
mod round_trips;
mod rtload;
mod rtp;
mod sample_source;
mod serve;
mod streams;
mod tables;
mod trace_table;
mod tracing;

use std::process::ExitCode;

use clap::Parser;
use stealtime_probe::TrialError;
use stealtime_probe::load::LoadError;

use crate::arguments::{Arguments, Command};
use crate::blackout::BlackoutError;
use crate::cgroup::CgroupError;
use crate::counting::CountError;
use crate::rtp::SocketError;

fn main() -> ExitCode {
    if process_one::is_process_one() {
        return init::run();
    }
    let result = match Arguments::parse().command {
        Command::Serve => serve::on_standard_streams(),
        Command::Guard(guard) => guard::run(&guard),
        Command::Clock => alone::clock(),
        Command::Discipline => discipline::run(),
        Command::Restore(restore) => restore::run(&restore),
        Command::Probe(probe) => alone::measure(&probe),
        Command::Load(load) => load_alone::run(&load),
        Command::Contend(contend) => contend::run(&contend),
        Command::Rtload(arguments) => rtload::run(&arguments),
        Command::Rtp(rtp) => rtp::run(&rtp),
        Command::Counter(counter) => counter::run(&counter),
        Command::Count(count) => counting::run(&count),
        Command::Blackout(settings) => blackout::run(&settings),
        Command::Ask(ask) => counting::run_ask(&ask),
    };
    result.unwrap_or_else(|error| {
        // Whoever reads our output has stopped (`| head`): nobody wants to hear about it.
        if !is_broken_pipe(&error) {
            report(&error);
        }
        error.downcast_ref::<BlackoutError>().map_or(ExitCode::FAILURE, blackout::exit_code)
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let written = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let kind = written.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind());
        kind == Some(std::io::ErrorKind::BrokenPipe)
    })
}

/// One sentence for a person, on stderr.
fn report(error: &anyhow::Error) {
    remarks::say(format_args!("error: {}", remarks::in_full(error)));
    if let Some(hint) = hint(error) {
        remarks::say(format_args!("hint: {hint}"));
    }
}

fn hint(error: &anyhow::Error) -> Option<String> {
    let of_trial = || error.downcast_ref::<TrialError>()?.hint();
    let of_load = || error.downcast_ref::<LoadError>()?.hint();
    let of_cgroup = || error.downcast_ref::<CgroupError>().map(CgroupError::hint);
    let of_count = || Some(error.downcast_ref::<CountError>()?.hint().to_owned());
    let of_socket = || Some(error.downcast_ref::<SocketError>()?.hint().to_owned());
    let of_blackout = || Some(error.downcast_ref::<BlackoutError>()?.hint().to_owned());
    of_trial().or_else(of_load).or_else(of_cgroup).or_else(of_count).or_else(of_socket).or_else(of_blackout)
}
