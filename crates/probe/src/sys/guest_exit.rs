//! Instructions for which hardware leaves a guest for its hypervisor.

use std::arch::asm;
use std::arch::x86_64::__cpuid;
use std::hint::black_box;
use std::io;

use stealtime_wire::GuestExit;

/// The port that firmware shows its progress on; nothing answers, and nothing changes by it.
const PROGRESS_PORT: u16 = 0x80;

/// Let this thread write to the port that [`leave_guest`] writes to.
///
/// # Errors
/// Only root may (`CAP_SYS_RAWIO`).
pub fn allow_port_write() -> io::Result<()> {
    // SAFETY: gives this thread one port, which no device needs.
    let refused = unsafe { libc::ioperm(PROGRESS_PORT.into(), 1, 1) } != 0;
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Have the hypervisor called once, if there is one below; otherwise it is an instruction like others.
///
/// For [`GuestExit::PortWrite`] this thread must have called [`allow_port_write`]: the kernel ends it otherwise.
pub fn leave_guest(exit: GuestExit) {
    match exit {
        GuestExit::Cpuid => {
            black_box(__cpuid(0));
        }
        // SAFETY: writes to no memory; the port is no device's.
        GuestExit::PortWrite => unsafe {
            asm!("out dx, al", in("dx") PROGRESS_PORT, in("al") 0_u8, options(nomem, nostack, preserves_flags));
        },
    }
}
