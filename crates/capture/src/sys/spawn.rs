//! What a child does between fork and exec.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::rights::Rights;

/// Let the child run with these rights and die with the *thread* that spawns it (prctl(2)), and keep
/// `inherited` open in it under their numbers.
pub(crate) fn tie_child_to_this_process(command: &mut Command, inherited: Vec<RawFd>, rights: Rights) {
    let parent: Pid = getpid();
    let in_child = move || {
        // A change of the user takes the death signal back (kernel/cred.c, `commit_creds`).
        rights.take()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            // The parent died before the line above: nobody would send the signal.
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        for number in &inherited {
            // SAFETY: the parent holds these open until the child was spawned.
            fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*number) }, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(in_child) };
}
