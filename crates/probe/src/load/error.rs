//! Why a load could not begin, or not be brought to its end.

use std::io;

/// How long a load may keep the agent's last CPU: a stop is expected to be answered within some seconds.
pub const LONGEST_SILENCE_NS: u64 = 1_000_000_000;

/// Why a load could not begin, or not be brought to its end.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{parameter} = {value} is not possible, it must be {expected}")]
    Parameter {
        /// Its name in the request.
        parameter: &'static str,
        value: u64,
        expected: String,
    },
    #[error("a load that is on for {on_ns:?} ns and off for {off_ns:?} ns is not possible")]
    HalfAPulse { on_ns: Option<u64>, off_ns: Option<u64> },
    #[error("the CPUs {cpus:?} cannot be loaded, the kernel grants this process {granted:?}: {source}")]
    Cpus {
        /// The CPUs that were asked for.
        cpus: Vec<u32>,
        /// The CPUs that may be named.
        granted: Vec<u32>,
        /// What the kernel said.
        source: io::Error,
    },
    #[error("a SCHED_FIFO load of priority {priority} on {cpus:?} would leave the agent no CPU to answer on")]
    Starves {
        priority: u32,
        /// All CPUs of the agent.
        cpus: Vec<u32>,
    },
    #[error("no memory for {threads} threads with {bytes} bytes each: {source}")]
    Memory {
        threads: u32,
        /// Two blocks, if it copies, and its rows.
        bytes: u64,
        /// What limits it.
        source: io::Error,
    },
    #[error("the load's threads cannot be started: {0}")]
    Threads(#[from] io::Error),
    #[error("a thread of the load panicked: this is a defect of stealtime")]
    Panicked,
}

impl LoadError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Parameter { .. } | Self::Panicked => None,
            Self::HalfAPulse { .. } => Some("give both on and off, or none for a load without pause".to_owned()),
            Self::Cpus { granted, .. } => Some(format!("choose some of {granted:?}")),
            Self::Starves { .. } => {
                Some(format!("use priority 0, or let it pause: on for at most {} ms", LONGEST_SILENCE_NS / 1_000_000))
            }
            Self::Memory { .. } => {
                Some("use a smaller block or fewer threads, or give the machine more memory".to_owned())
            }
            Self::Threads(_) => Some("raise the limit of processes (ulimit -u), or use fewer threads".to_owned()),
        }
    }
}
