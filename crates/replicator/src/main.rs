//! `stealtime-replicator`: protects virtual machines by continuous checkpointing.
//!
//! One process per machine and host. `active` boots a machine and protects it; `host` accepts machines of
//! other hosts, a `standby` process for each. Whoever wins a machine goes on as its active member, in the
//! same process.

// Where nobody reads any more `eprintln!` panics; see `words`.
#![deny(clippy::print_stderr)]

mod active;
mod addresses;
mod admission;
mod alarms;
mod arguments;
mod assignment;
mod calls;
mod certificates;
mod check;
mod clock;
mod control;
mod disks;
mod encoder;
mod engine;
mod epoch_log;
mod events;
#[cfg(test)]
mod fake_guest;
mod faults;
mod figures;
mod gate;
mod guest;
mod host;
mod host_config;
mod host_facts;
mod inquiry;
mod leaving;
mod machine;
mod member_folder;
mod metrics;
mod offers;
mod pacing;
mod reception;
mod recover;
mod registers;
#[cfg(test)]
mod schema;
mod signals;
mod spec;
mod staging;
mod standby;
mod status;
#[cfg(test)]
mod test_machine;
mod thread_priority;
mod trial_load;
mod turn;
mod who_lives;
mod wording;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use stealtime_succession::ActiveEnding;
use tokio::sync::mpsc;

use active::Origin;
use arguments::{Arguments, Command};
use disks::DisksError;
use machine::Machine;
use spec::Spec;

/// The machine is elsewhere: nothing to complain of, and nothing to restart.
const SUPERSEDED: u8 = 5;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            wording::say(&format!("error: {}", wording::in_full(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Active { spec, force, only_current_disks } => {
            thread_priority::raise();
            conduct(active(&spec, force, only_current_disks))
        }
        Command::Recover { spec } => conduct(recover(&spec)),
        Command::Check { spec } => conduct(check(&spec)),
        Command::Host { config } => {
            host::run(&config)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Standby { config } => conduct(standby(&config)),
    }
}

/// Each member is one thread that conducts; what takes long has threads of its own.
fn conduct(member: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(member)
}

async fn active(spec: &Path, force: bool, only_current_disks: bool) -> Result<ExitCode> {
    let spec = Spec::read(spec)?;
    stealtime_capture::verify_images(&spec.machine)?;
    let _lock = member_folder::enter(&spec.folder, &spec.machine.name)?;
    // Before the register is told of anything: who refuses has changed nothing.
    disks::check(&spec, force && !only_current_disks).await.map_err(with_hint)?;
    let me = member_folder::new_life(&spec.host)?;
    let listener = member_folder::listen(&spec)?;
    let (asking, requests) = mpsc::channel(16);
    tokio::spawn(control::serve(listener, asking, spec.allow_faults));
    let (machine, heard) = Machine::new();
    let origin = Origin::Boot { force };
    Ok(told(&Box::pin(active::run(spec, me, (Box::new(machine), heard), origin, requests)).await?))
}

fn with_hint(error: DisksError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow::anyhow!("{} (hint: {hint})", wording::in_full(&error)),
        None => error.into(),
    }
}

async fn recover(spec: &Path) -> Result<ExitCode> {
    let account = recover::account(&Spec::read(spec)?).await?;
    std::io::stdout().write_all(format!("{}\n", serde_json::to_string(&account)?).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

async fn check(spec: &Path) -> Result<ExitCode> {
    let checks = check::check(&Spec::read(spec)?).await;
    std::io::stdout().write_all(format!("{}\n", serde_json::to_string(&checks)?).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

async fn standby(config: &Path) -> Result<ExitCode> {
    let received = reception::receive(config).await.context("nobody can be received")?;
    // The daemon has ended: the next one starts a process of its own.
    let Some(caller) = received else { return Ok(ExitCode::SUCCESS) };
    // Not before: strangers wait.
    thread_priority::raise();
    match standby::run(caller).await? {
        standby::Outcome::Won { spec, me, machine, heard, origin, requests, lock: _lock } => {
            Ok(told(&Box::pin(active::run(*spec, me, (machine, heard), origin, requests)).await?))
        }
        standby::Outcome::Ended | standby::Outcome::Left => Ok(ExitCode::SUCCESS),
    }
}

fn told(ending: &ActiveEnding) -> ExitCode {
    match ending {
        ActiveEnding::Stopped | ActiveEnding::HandedOver { .. } => ExitCode::SUCCESS,
        ActiveEnding::Superseded { .. } => ExitCode::from(SUPERSEDED),
        other => {
            match other.hint() {
                Some(hint) => wording::say(&format!("error: {other}\nhint: {hint}")),
                None => wording::say(&format!("error: {other}")),
            }
            ExitCode::FAILURE
        }
    }
}
