//! `restore`: puts back what a killed agent had changed on this machine, and the watchdog that does so at
//! once.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use nix::unistd::{Pid, getppid, setsid};
use stealtime_console::remarks;
use stealtime_probe::throttling;

/// What the watched process says before it closes the pipe by itself.
const FAREWELL: &[u8] = b"put back";

/// A killed process closes its files a little before it is gone; more than this is no longer that.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// `restore`
#[derive(Debug, Args)]
pub struct Restore {
    /// First wait until standard input is closed, that is, until the process at its other end has ended
    #[arg(long)]
    pub when_closed: bool,
}

/// Restores, after standard input was closed if asked.
pub fn run(restore: &Restore) -> Result<ExitCode> {
    if restore.when_closed {
        let watched = getppid();
        // Away from the terminal and the process group of the one who is watched: a Ctrl-C is meant for that
        // one.
        let _ = setsid();
        let said = io::copy(&mut io::stdin().lock().take(u64::MAX), &mut io::sink())
            .context("waiting for the end of standard input")?;
        if said == 0 {
            await_end_of(watched);
        }
    }
    // Of what is left, who started the watched one was told, or will be at the next start.
    let put_back = if restore.when_closed { throttling::restore_leftovers } else { put_back_leftovers };
    if let Some(value) = put_back().context("RT throttling cannot be put back")? {
        remarks::say(format_args!("RT throttling put back: sched_rt_runtime_us = {value}"));
    }
    for name in stealtime_trace::remove_leftovers().context("a trace instance cannot be removed")? {
        remarks::say(format_args!("trace instance removed: {name}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts back what dead processes have left lifted, and says what stays lifted because nobody can judge them from here;
/// gives the value that was written, if any.
pub fn put_back_leftovers() -> io::Result<Option<i64>> {
    let restored = throttling::restore_leftovers()?;
    if let Some(left) = throttling::left_lifted() {
        remarks::say(format_args!("warning: {left}\nhint: {}", left.hint()));
    }
    Ok(restored)
}

/// Waits until this process has another parent: only then does what the old one lifted count as left over.
fn await_end_of(parent: Pid) {
    let since = Instant::now();
    while getppid() == parent && since.elapsed() < END_PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A process that restores as soon as this one is gone, however it goes.
#[derive(Debug)]
pub struct Watchdog {
    process: Child,
}

impl Watchdog {
    /// Starts it; it waits on a pipe whose other end only this process holds.
    pub fn start() -> Result<Self> {
        let process = Command::new("/proc/self/exe")
            .args(["restore", "--when-closed"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("the process that puts RT throttling back cannot be started")?;
        Ok(Self { process })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.process.stdin.take() {
            // A watchdog that is gone has nothing to hear.
            let _ = pipe.write_all(FAREWELL);
        }
        let _ = self.process.wait();
    }
}
