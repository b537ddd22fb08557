//! The arbiter: one record for each virtual machine, changed by compare-and-swap only.

mod answers;
mod cluster;
mod credentials;
mod etcd;
mod etcd_config;
mod file;
mod requests;
mod survey;

use thiserror::Error;

pub use etcd::EtcdRegister;
pub use etcd_config::{EtcdConfig, EtcdIdentity, EtcdLogin};
pub use file::FileRegister;

use crate::{Record, Version, Versioned};

/// Why the register gave no answer. A swap may have been applied all the same.
#[derive(Debug, Error)]
pub enum RegisterError {
    #[error("the register {register} did not answer: {reason}")]
    Unreachable { register: String, reason: String },
    #[error("the register {register} holds no valid record for \"{vm}\": {reason}")]
    Corrupt { register: String, vm: String, reason: String },
    #[error("the register {register} cannot be used: {reason} (hint: {hint})", hint = Self::ONE_CLUSTER)]
    Divided {
        register: String,
        /// Which server differs from which, and how that is known.
        reason: String,
    },
    #[error("the register cannot be used: {0}")]
    Setup(String),
}

impl RegisterError {
    /// What to do about servers that do not agree.
    pub(crate) const ONE_CLUSTER: &str = "name the servers of one cluster only, and the same on all hosts";
}

/// What became of a compare-and-swap.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SwapOutcome {
    /// The record is now as wanted, in this version.
    Won(Version),
    /// Nothing was changed by this call; this is what the register holds.
    Lost(Option<Versioned>),
}

/// A place that both members can reach and that lets one of them win. Calls block: for a bounded time where it is asked
/// over a network, for as long as the file system does where it is a folder.
pub trait Register: Send {
    /// Read the record of a virtual machine.
    fn read(&mut self, vm: &str) -> Result<Option<Versioned>, RegisterError>;

    /// Replace the record if it is still in version `expected` (none: if there is no record).
    fn swap(&mut self, vm: &str, expected: Option<Version>, wanted: &Record) -> Result<SwapOutcome, RegisterError>;

    /// Do now what would take time when it is asked the next time on this machine; called about once a minute.
    fn keep_ready(&mut self, _vm: &str) {}

    /// Say what an operator should see to although calls may succeed.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Another handle on it, if its calls may hang: what hangs in one holds nothing up in the other.
    fn another(&self) -> Option<Box<dyn Register>> {
        None
    }

    /// Name the register for messages.
    fn describe(&self) -> String;
}
