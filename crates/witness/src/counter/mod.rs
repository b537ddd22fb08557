//! `counter`: a guest program whose whole state is its memory, and which can prove that none of it is
//! missing.
//!
//! It counts for its clients over TCP and UDP (`protocol`, `ledger`), and meanwhile rewrites pages of memory
//! at a set rate, each of which tells by itself whether it is the right one of the right time (`memory`).
//! Nothing is kept on disk unless it is told to (`disk`): what survives the machine it ran on, survived because the
//! memory did. The client is `counting`.

mod churn;
mod disk;
mod identity;
mod ledger;
mod memory;
mod order;
pub mod protocol;
mod server;
mod settings;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use stealtime_console::remarks;

#[cfg(test)]
pub use ledger::Ledger;
pub use ledger::extend_chain;
pub use server::{OnReboot, Server};
pub use settings::Counter;

/// `stealtime-agent counter`
pub fn run(counter: &Counter) -> Result<ExitCode> {
    let server = Server::bind(counter, OnReboot::Refuse, |line| remarks::say(line))?;
    let addresses = server.addresses()?;
    // What stands on standard output once requests are answered.
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &addresses)?;
    writeln!(output)?;
    output.flush()?;
    drop(output);
    server.serve()?;
    Ok(ExitCode::SUCCESS)
}
