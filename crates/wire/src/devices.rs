//! `disk` and `net`: requests to a device, one a sample.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Transfers between memory and a disk, past the kernel's cache (`O_DIRECT`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub target: DiskTarget,
    pub operation: DiskOperation,
    pub order: DiskOrder,
    /// Of each transfer; a multiple of the target's logical block.
    #[schemars(range(min = 512, max = 16_777_216))]
    pub block_bytes: u32,
    /// Transfers under way at a time, at most.
    #[schemars(range(min = 1, max = 1024))]
    pub depth: u32,
    /// Open loop: from one transfer that is due to the next. None is a closed loop: each that ends is followed by
    /// another at once.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub interval_ns: Option<u64>,
    /// How much of the target is used, from its first block that may be. None is all of it.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub span_bytes: Option<u64>,
    /// Of the order of blocks and of what is written.
    #[schemars(extend("default" = 0))]
    pub seed: u64,
    /// What hands transfers to the kernel; None takes the first that it has.
    #[serde(default)]
    pub engine: Option<DiskEngine>,
}

/// What transfers go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum DiskTarget {
    /// A file or a block device that is there.
    Given {
        path: String,
        /// Consent to lose what it holds, without which nothing is written to it.
        #[schemars(extend("default" = false))]
        overwrite: bool,
    },
    /// A new file without a name, which is gone with the process.
    Scratch {
        /// On whose file system it is.
        folder: String,
        #[schemars(range(min = 1))]
        bytes: u64,
    },
    /// The disk that was made for this: it begins with a mark, which is the consent to write to it.
    Marked {
        /// None: `$STEALTIME_DISK`, else the only block device of the machine that has the mark.
        #[serde(default)]
        path: Option<String>,
        /// What its mark calls the device, where a machine has several; None takes any.
        #[serde(default)]
        device: Option<String>,
    },
}

/// Which way transfers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskOperation {
    /// From the disk to memory.
    Read,
    /// From memory to the disk.
    Write,
}

/// In which order blocks are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskOrder {
    /// Each block is drawn anew.
    Random,
    /// From the first to the last, and again.
    Sequential,
}

/// What hands transfers to the kernel and hears of their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskEngine {
    /// `io_uring(7)`.
    IoUring,
    /// Linux AIO: `io_submit(2)`.
    Aio,
}

/// Messages to a peer that sends each back (`stealtime-agent echo`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Net {
    /// `ADDRESS:PORT`; an address of version 6 stands in brackets.
    pub peer: String,
    pub transport: NetTransport,
    /// Of each message.
    #[schemars(range(min = 48, max = 65_000))]
    pub message_bytes: u32,
    /// Messages under way at a time: of a closed loop all the time, of an open loop at most.
    #[schemars(range(min = 1, max = 65_536))]
    pub depth: u32,
    /// Open loop: from one message that is due to the next. None is a closed loop: each that ends is followed by
    /// another at once.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub interval_ns: Option<u64>,
    /// A message that is not answered for so long is lost.
    #[schemars(range(min = 1))]
    pub patience_ns: u64,
}

/// How messages travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetTransport {
    Udp,
    /// One connection, without Nagle's algorithm.
    Tcp,
}
