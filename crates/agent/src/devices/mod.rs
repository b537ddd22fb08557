//! `disk`, `net`: requests to a device without a control plane; `mark-disk` makes a disk for them.

mod disk;
mod document;
mod measuring;
mod net;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use self::disk::{DiskArguments, MarkDisk};
use self::net::NetArguments;

pub const EXIT_CODES: &str = "Exit codes: 0 fine, 1 failed, 2 wrong usage, 4 measured but not valid";

const DISK_HELP: &str = "\
Examples:
  stealtime-agent disk --scratch /var/tmp                          reads of 4 KiB, one at a time, from a new file
  stealtime-agent disk --scratch /var/tmp --write --depth 32       writes, 32 at a time
  stealtime-agent disk --target /dev/vdb --interval 1ms            open loop: a read is due each millisecond, and one
                                                                   that comes late counts from when it was due
  stealtime-agent disk --target /dev/vdb --write --overwrite       destroys what /dev/vdb holds

Nothing is ever written to a file or disk that is there without --overwrite, and none that is mounted. A scratch file has
no name: it is gone with the process, whatever ends that. A disk made by `stealtime-agent mark-disk` says itself that it
may be written to (--marked).

Exit codes: 0 fine, 1 failed, 2 wrong usage, 4 measured but not valid";

const NET_HELP: &str = "\
Examples, with `stealtime-agent echo --listen 192.0.2.1:7007` on the machine of that address:
  stealtime-agent net 192.0.2.1:7007                        messages of 64 bytes, one at a time, over UDP
  stealtime-agent net 192.0.2.1:7007 --transport tcp        over one TCP connection
  stealtime-agent net 192.0.2.1:7007 --interval 1ms         open loop: a message is due each millisecond, and one that
                                                            goes late counts from when it was due

A message that is not answered within --patience is lost: it is counted, and its sample is at least so long.

Exit codes: 0 fine, 1 failed, 2 wrong usage, 4 measured but not valid";

#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// Transfer blocks from or to a disk, past the kernel's cache, and show how long each takes
    #[command(after_help = DISK_HELP)]
    Disk(DiskArguments),
    /// Send messages to `stealtime-agent echo`, and show how long each answer takes
    #[command(after_help = NET_HELP)]
    Net(NetArguments),
    /// Make a disk image that may be written to, by a mark that it begins with, for `disk --marked`
    #[command(after_help = EXIT_CODES)]
    MarkDisk(MarkDisk),
}

impl DeviceCommand {
    pub fn run(&self) -> Result<ExitCode> {
        match self {
            Self::Disk(arguments) => disk::run(arguments),
            Self::Net(arguments) => net::run(arguments),
            Self::MarkDisk(arguments) => disk::mark(arguments),
        }
    }
}
