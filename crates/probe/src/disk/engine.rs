//! What hands transfers to the kernel: the first that it has, or the one that is asked for.

use std::io;
use std::os::fd::OwnedFd;

use stealtime_wire::{Disk, DiskEngine, DiskOperation};

use super::target::Target;
use crate::error::TrialError;
use crate::sys::{Aio, TransferBuffers, Uring};

/// Transfers under way, each known by the piece of memory that it uses.
pub trait Engine {
    /// Writes a transfer down.
    fn prepare(&mut self, number: usize, offset: u64);
    /// Hands over what was written down and waits for `least` to end, but no longer than `timeout_ns`.
    fn submit(&mut self, least: usize, timeout_ns: u64) -> io::Result<()>;
    /// Gives one that has ended, with its bytes or its negative error number.
    fn next_ended(&mut self) -> Option<(usize, i32)>;
}

impl Engine for Uring {
    #[inline(always)]
    fn prepare(&mut self, number: usize, offset: u64) {
        self.prepare(number, offset);
    }

    #[inline(always)]
    fn submit(&mut self, least: usize, timeout_ns: u64) -> io::Result<()> {
        self.submit(least, timeout_ns)
    }

    #[inline(always)]
    fn next_ended(&mut self) -> Option<(usize, i32)> {
        self.next_ended()
    }
}

impl Engine for Aio {
    #[inline(always)]
    fn prepare(&mut self, number: usize, offset: u64) {
        self.prepare(number, offset);
    }

    #[inline(always)]
    fn submit(&mut self, least: usize, timeout_ns: u64) -> io::Result<()> {
        self.submit(least, timeout_ns)
    }

    #[inline(always)]
    fn next_ended(&mut self) -> Option<(usize, i32)> {
        self.next_ended()
    }
}

/// The engine of a trial.
pub enum Chosen {
    Uring(Uring),
    Aio(Aio),
}

/// Gives the engine that is asked for, else the first that the kernel has.
///
/// # Errors
/// The kernel has none, or not the one asked for, or there is no memory.
pub fn choose(disk: &Disk, target: &Target) -> Result<Chosen, TrialError> {
    let piece_bytes = disk.block_bytes as usize;
    let no_memory = |source| TrialError::NoRoom {
        what: "the memory of transfers".to_owned(),
        bytes: u64::from(disk.block_bytes) * u64::from(disk.depth),
        source,
    };
    let buffers = TransferBuffers::new(disk.depth as usize, piece_bytes, disk.seed).map_err(no_memory)?;
    let unusable = |name: &str, error: &io::Error| TrialError::Target {
        target: name.to_owned(),
        trouble: format!("cannot be used in this machine: {error}"),
        hint: Some(
            "leave the engine to be chosen, or see sysctl kernel.io_uring_disabled and fs.aio-max-nr".to_owned(),
        ),
    };
    let file = OwnedFd::from(target.file.try_clone().map_err(TrialError::Threads)?);
    let writes = disk.operation == DiskOperation::Write;
    let (file, buffers, first) = match disk.engine {
        Some(DiskEngine::Aio) => (file, buffers, None),
        wanted => match Uring::new(file, writes, buffers) {
            Ok(ring) => return Ok(Chosen::Uring(ring)),
            Err((error, ..)) if wanted.is_some() => return Err(unusable("io_uring", &error)),
            Err((error, file, buffers)) => (file, buffers, Some(error)),
        },
    };
    match Aio::new(file, writes, buffers) {
        Ok(aio) => Ok(Chosen::Aio(aio)),
        Err((error, ..)) => Err(match first {
            Some(of_ring) => unusable(&format!("io_uring ({of_ring}) and Linux AIO"), &error),
            None => unusable("Linux AIO", &error),
        }),
    }
}
