//! Why a host does not stand by for a machine, as it is told to the user of the other host.

use serde::{Deserialize, Serialize};
use stealtime_succession::Term;

use crate::version::ProtocolVersion;

/// Why a host does not take a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Refusal {
    #[error("{member:?} is no member of {their_host}")]
    Member {
        /// What it calls itself.
        member: String,
        /// The host that it speaks for.
        their_host: String,
    },
    #[error("{host} cannot stand by for {vm}, because {vm} runs on {host}")]
    SameHost { host: String, vm: String },
    #[error("{vm} is on {host} already")]
    AlreadyHere { host: String, vm: String },
    #[error("{host} has seen {known} of {vm}, and was asked in {asked}")]
    OldTerm {
        host: String,
        vm: String,
        /// The highest term heard of.
        known: Term,
        asked: Term,
        /// Who has it in that term.
        holder: String,
    },
    #[error(
        "{host} looks into another register than {their_host}: {their_host} holds {vm} in {asked}, and {register} has {}",
        known.map_or_else(|| "nothing of it".to_owned(), |known| format!("another record, of {known}"))
    )]
    OtherRegister {
        host: String,
        /// The active member's host.
        their_host: String,
        vm: String,
        /// That of the host which refuses.
        register: String,
        /// The term of what it holds.
        known: Option<Term>,
        /// The term of the hello.
        asked: Term,
    },
    #[error("{host} could take nothing over: {reason}")]
    NoRegister { host: String, reason: String },
    #[error("QEMU is {theirs:?} on {their_host} and {ours:?} on {host}")]
    QemuVersion {
        host: String,
        /// The active member's host.
        their_host: String,
        theirs: String,
        ours: String,
    },
    #[error("QEMU on {host} has no machine type {machine:?}")]
    Machine {
        host: String,
        /// The machine type that was asked for.
        machine: String,
    },
    #[error("{vm} runs with {accelerator}, which does not work on {host}")]
    Accelerator { host: String, vm: String, accelerator: String },
    #[error("{vm} has {memory_bytes} bytes of memory, which is no whole number of pages")]
    MemorySize { vm: String, memory_bytes: u64 },
    #[error("{vm} needs {} MiB on {host}, and {} MiB are available", needed_bytes >> 20, available_bytes >> 20)]
    Memory {
        host: String,
        vm: String,
        /// What its RAM file and staging take.
        needed_bytes: u64,
        available_bytes: u64,
    },
    /// It is to ask again later.
    #[error("{host} receives {copies} machines at a time, and {vm} waits for its turn")]
    Busy {
        host: String,
        vm: String,
        /// At the most.
        copies: usize,
    },
    /// The host is to go down: what stood by here would go with it.
    #[error("{host} is leaving: it is to go down, and takes no machines until it is back")]
    Leaving { host: String },
    #[error("{host} has no file {path} that a machine may boot from")]
    ImageMissing { host: String, path: String },
    #[error("{path} has the SHA-256 {theirs} on {their_host} and another one on {host}")]
    ImageDiffers {
        host: String,
        /// The active member's host.
        their_host: String,
        path: String,
        theirs: String,
    },
    #[error("the memory block {block} has {theirs} on {their_host} and {ours} on {host}")]
    RamBlock {
        host: String,
        /// The active member's host.
        their_host: String,
        /// The first block that differs.
        block: String,
        /// Its length there, in words.
        theirs: String,
        /// Its length here, in words.
        ours: String,
    },
    /// Anything else, for example that QEMU would not start.
    #[error("{reason}")]
    Other {
        reason: String,
        /// What the user may do about it.
        hint: String,
    },
}

impl Refusal {
    /// The same as far as hosts of another version of the protocol know it.
    #[must_use]
    pub fn known_in(&self, version: ProtocolVersion) -> Self {
        match self {
            Self::Busy { .. } | Self::Leaving { .. } if version < ProtocolVersion::NEWEST => {
                Self::Other { reason: self.to_string(), hint: self.hint().to_owned() }
            }
            refusal => refusal.clone(),
        }
    }

    /// What the user may do about it.
    pub fn hint(&self) -> &str {
        match self {
            Self::Member { .. } => "use the same version of stealtime on both hosts",
            Self::SameHost { .. } => "give another host in `standby_hosts`",
            Self::AlreadyHere { .. } => "stop it there with `stealtime protect stop`, or choose another name",
            Self::OldTerm { .. } => "another host has taken the machine over; this one must not go on",
            Self::OtherRegister { .. } => {
                "name the same etcd, or a folder that both hosts see, as [register] in VM.toml and in HOST.toml there"
            }
            Self::NoRegister { .. } => "see that its register runs, and that it is reached from that host",
            Self::QemuVersion { .. } => "install QEMU of the same release on both hosts",
            Self::Machine { .. } => {
                "choose a versioned machine type that `qemu-system-x86_64 -machine help` lists on both hosts"
            }
            Self::Accelerator { .. } => {
                "run `stealtime doctor` there, or protect the machine with accelerator = \"tcg\""
            }
            Self::MemorySize { .. } => "give the machine a multiple of 1 MiB",
            Self::Memory { .. } => "give the machine less memory, or stop something on that host",
            Self::Busy { .. } => "`copies` in HOST.toml there says how many, `copy_order` in VM.toml which ones first",
            Self::Leaving { .. } => "if it is to stay after all: `stealtime protect leave --back` there",
            Self::ImageMissing { .. } => {
                "copy the file to the same path on both hosts, in a folder that `images` in HOST.toml names there"
            }
            Self::ImageDiffers { .. } => "copy the file to the same path on both hosts",
            Self::RamBlock { .. } => "start both QEMUs with the same devices, in the same order, and the same firmware",
            Self::Other { hint, .. } => hint,
        }
    }
}
