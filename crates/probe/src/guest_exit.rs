//! Instructions for which hardware leaves a guest for its hypervisor, to test what is told of such exits.

use std::arch::x86_64::__cpuid;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt;

use stealtime_wire::GuestExit;

/// The port that firmware shows its progress on; nothing answers, and nothing changes by it.
const PROGRESS_PORT: u64 = 0x80;

/// One kind of exit, ready to be made.
#[derive(Debug)]
pub enum ExitMaker {
    Cpuid,
    /// `out`, by the kernel. Not by this thread (`ioperm`): under a hypervisor that QEMU's TCG emulates, an
    /// `out` outside of the kernel is refused (QEMU 7.2 wants a task-state segment that is not busy).
    Port(File),
}

impl ExitMaker {
    /// Get what it takes.
    ///
    /// # Errors
    /// For [`GuestExit::PortWrite`]: only root may open `/dev/port`, and not every kernel has it.
    pub fn new(exit: GuestExit) -> io::Result<Self> {
        match exit {
            GuestExit::Cpuid => Ok(Self::Cpuid),
            GuestExit::PortWrite => OpenOptions::new().write(true).open("/dev/port").map(Self::Port),
        }
    }

    /// Have the hypervisor called once, if there is one below; otherwise these are instructions like others.
    pub fn leave_guest(&self) -> io::Result<()> {
        match self {
            Self::Cpuid => {
                black_box(__cpuid(0));
                Ok(())
            }
            Self::Port(port) => port.write_all_at(&[0], PROGRESS_PORT),
        }
    }
}
