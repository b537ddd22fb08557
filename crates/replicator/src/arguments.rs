//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Protects virtual machines by continuous checkpointing. `stealtime protect` is its front.
#[derive(Debug, Parser)]
#[command(name = "stealtime-replicator", version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boot a machine and protect it, until it ends or its role is lost
    Active {
        /// What to run, as `stealtime protect start` writes it
        #[arg(long, value_name = "FILE")]
        spec: PathBuf,
        /// Take the machine over although the register says that it runs elsewhere: after watching that
        /// nobody renews
        #[arg(long)]
        force: bool,
    },
    /// Take machines of other hosts: one standby process for each
    Host {
        /// Who this host is, as `stealtime protect host` writes it
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Receive on the socket on standard input, and be the standby of who comes (started by `host`)
    #[command(hide = true)]
    Standby {
        /// Who this host is
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}
