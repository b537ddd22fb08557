//! `guard`: a command that dies with the parent of `guard`, also when that parent is killed with -9.
//!
//! The kernel kills a process whose parent ends if it asked so with `PR_SET_PDEATHSIG`; the setting outlives
//! `exec`, so that for a single process `guard` becomes the command itself. For a command that starts
//! processes of its own (User-Mode Linux has one for each address space) the descendants are put into a PID
//! namespace: when its first process ends, the kernel kills all others.
//!
//! A command that is to live in a cgroup is born there: `guard` joins it first.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, wait, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getgid, getppid, getuid};

use crate::cgroup;

/// What a shell adds to the number of the signal that ended a command.
const SIGNAL_EXIT_BASE: i32 = 128;

/// `guard`
#[derive(Debug, Args)]
pub struct Guard {
    /// Put the command into this cgroup (a folder with a file cgroup.procs); repeatable, once per hierarchy
    #[arg(long = "cgroup", value_name = "PATH")]
    pub cgroups: Vec<PathBuf>,
    /// Run the command in its own PID namespace, so that all its descendants are killed too
    #[arg(long)]
    pub pid_namespace: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Runs the command; gives its exit code.
pub fn run(guard: &Guard) -> Result<ExitCode> {
    die_with_parent()?;
    // Before anything is started: a process takes its children with it only at their birth.
    for path in &guard.cgroups {
        cgroup::join(path)?;
    }
    if guard.pid_namespace { in_pid_namespace(&guard.command) } else { become_command(&guard.command) }
}

fn die_with_parent() -> Result<()> {
    let parent = getppid();
    prctl::set_pdeathsig(Signal::SIGKILL).context("the kernel refused PR_SET_PDEATHSIG")?;
    // The parent may have ended between the two calls; then nobody would ever kill us.
    if getppid() != parent {
        bail!("the parent of guard has ended already");
    }
    Ok(())
}

fn become_command(command: &[OsString]) -> Result<ExitCode> {
    let error = to_command(command).exec();
    Err(error).with_context(|| format!("{} cannot be run", command[0].display()))
}

fn to_command(command: &[OsString]) -> Command {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    process
}

fn in_pid_namespace(command: &[OsString]) -> Result<ExitCode> {
    let (user, group) = (getuid(), getgid());
    if unshare(CloneFlags::CLONE_NEWPID).is_err() {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)
            .context("no PID namespace can be made, neither as this user nor with a user namespace")?;
        std::fs::write("/proc/self/setgroups", "deny").context("/proc/self/setgroups")?;
        std::fs::write("/proc/self/uid_map", format!("{user} {user} 1")).context("/proc/self/uid_map")?;
        std::fs::write("/proc/self/gid_map", format!("{group} {group} 1")).context("/proc/self/gid_map")?;
    }
    // SAFETY: this process has one thread, so the child may do whatever it likes.
    match unsafe { fork() }.context("no process can be started")? {
        ForkResult::Parent { child } => Ok(exit_code(&waitpid(child, None).context("waiting for the command")?)),
        ForkResult::Child => {
            // As process 1 of the namespace: in here getppid() is 0, the parent is outside.
            prctl::set_pdeathsig(Signal::SIGKILL).context("the kernel refused PR_SET_PDEATHSIG")?;
            reap_until_end(command)
        }
    }
}

/// The first process of the namespace: starts the command, buries orphans, ends with the command.
fn reap_until_end(command: &[OsString]) -> Result<ExitCode> {
    let child = to_command(command).spawn().with_context(|| format!("{} cannot be run", command[0].display()))?;
    let main = Pid::from_raw(child.id().cast_signed());
    loop {
        let ended = wait().context("waiting for the command")?;
        if ended.pid() == Some(main) {
            return Ok(exit_code(&ended));
        }
    }
}

fn exit_code(status: &WaitStatus) -> ExitCode {
    let code = match *status {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, signal, _) => SIGNAL_EXIT_BASE + signal as i32,
        _ => 1,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
