//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Protects virtual machines by continuous checkpointing. Usually started by `stealtime protect`.
#[derive(Debug, Parser)]
#[command(name = "stealtime-replicator", version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boot a machine and protect it, until it ends or runs elsewhere
    Active {
        /// The specification of the machine, as `stealtime protect start` writes it
        #[arg(long, value_name = "FILE")]
        spec: PathBuf,
        /// Start even if the register says that the machine runs elsewhere, unless that is renewed
        #[arg(long)]
        force: bool,
        /// Also with --force, start only from disk images that are current
        #[arg(long)]
        only_current_disks: bool,
    },
    /// Tell as JSON whether anybody still has the state of a machine, as after a power cut of both its hosts
    Recover {
        /// The specification of the machine
        #[arg(long, value_name = "FILE")]
        spec: PathBuf,
    },
    /// Tell as JSON what would keep a machine from being started here and protected; nothing is started
    Check {
        /// The specification of the machine
        #[arg(long, value_name = "FILE")]
        spec: PathBuf,
    },
    /// Receive machines from other hosts, with one standby process for each
    Host {
        /// The configuration of this host, as `stealtime protect host` writes it
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Receive on the socket on standard input, and be the standby of who comes (started by `host`)
    #[command(hide = true)]
    Standby {
        /// The configuration of this host
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}
