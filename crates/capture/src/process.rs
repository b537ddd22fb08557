//! QEMU as a child of this process: it never outlives it.
//!
//! The kernel's death signal (prctl(2), `PR_SET_PDEATHSIG`) is tied to the *thread* that spawned, so each
//! QEMU has a keeper thread that spawns it, waits for it and lives as long as it does.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::rights::Rights;
use crate::sys::tie_child_to_this_process;

/// How much of the end of QEMU's messages an error quotes.
const LOG_TAIL_BYTES: u64 = 600;

/// Why QEMU cannot be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("the program {program} cannot be started as {rights}")]
    Spawn { program: PathBuf, rights: String, source: io::Error },
    #[error("the file {path} for QEMU's messages cannot be opened")]
    Log { path: PathBuf, source: io::Error },
    #[error("QEMU cannot be sent a signal")]
    Signal(#[source] io::Error),
}

type SharedStatus = Arc<(Mutex<Option<ExitStatus>>, Condvar)>;

/// A running QEMU. Dropping it kills it.
#[derive(Debug)]
pub struct QemuProcess {
    pid: u32,
    pidfd: OwnedFd,
    status: SharedStatus,
    log: PathBuf,
}

impl QemuProcess {
    /// Start `command`. It inherits `descriptors` under their numbers; here they are closed. Its messages go
    /// to `log`.
    pub fn spawn(
        mut command: Command,
        descriptors: Vec<OwnedFd>,
        rights: Rights,
        log: &Path,
    ) -> Result<Self, ProcessError> {
        let failed = |source| ProcessError::Log { path: log.into(), source };
        let messages = OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
        let errors = messages.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(messages).stderr(errors);
        // A signal for the group of this process, such as Ctrl-C at a terminal, is not for its QEMU.
        command.process_group(0);
        let (program, words) = (PathBuf::from(command.get_program()), rights.to_string());
        tie_child_to_this_process(&mut command, descriptors.iter().map(AsRawFd::as_raw_fd).collect(), rights);
        let failed = |source| ProcessError::Spawn { program: program.clone(), rights: words.clone(), source };
        let status = SharedStatus::default();
        let (sender, receiver) = mpsc::channel();
        let keeper_status = Arc::clone(&status);
        let keep = move || {
            let started = start(&mut command);
            drop(descriptors);
            let mut child = match started {
                Ok((child, pidfd)) => {
                    let _ = sender.send(Ok((child.id(), pidfd)));
                    child
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            drop(sender);
            let ended = child.wait().ok();
            *locked(&keeper_status.0) = ended;
            keeper_status.1.notify_all();
        };
        std::thread::Builder::new().name("qemu-keeper".into()).spawn(keep).map_err(failed)?;
        let started = receiver.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
        let (pid, pidfd) = started.map_err(failed)?;
        Ok(Self { pid, pidfd, status, log: log.into() })
    }

    /// Its process id; valid for the kernel's files as long as it has not been waited for.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Readable once it has ended: for poll(2).
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// How it ended; `None` while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        *locked(&self.status.0)
    }

    /// Wait until it has ended by itself; `None` if it has not within `timeout`.
    pub fn wait_for_end(&self, timeout: Duration) -> Option<ExitStatus> {
        let status = locked(&self.status.0);
        let waited = self.status.1.wait_timeout_while(status, timeout, |status| status.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Something that waits for its end, for another thread.
    pub fn exit_watch(&self) -> ExitWatch {
        ExitWatch(Arc::clone(&self.status))
    }

    /// Kill it and wait until it is gone. Also if it is stopped by a signal.
    pub fn kill(&mut self) -> Result<ExitStatus, ProcessError> {
        if self.exit_status().is_none() {
            match pidfd_send_signal(&self.pidfd, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(ProcessError::Signal(errno.into())),
            }
        }
        Ok(self.exit_watch().wait())
    }

    /// The end of what it wrote, for messages.
    pub fn log_tail(&self) -> String {
        read_tail(&self.log).unwrap_or_default()
    }
}

/// Waits for the end of a QEMU.
#[derive(Clone, Debug)]
pub struct ExitWatch(SharedStatus);

impl ExitWatch {
    /// Wait until it has ended, and say how.
    pub fn wait(&self) -> ExitStatus {
        let mut status = locked(&self.0.0);
        loop {
            if let Some(status) = *status {
                return status;
            }
            status = self.0.1.wait(status).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for QemuProcess {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn start(command: &mut Command) -> io::Result<(Child, OwnedFd)> {
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let opened = pid.ok_or(rustix::io::Errno::SRCH).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
    match opened {
        Ok(pidfd) => Ok((child, pidfd)),
        Err(errno) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(errno.into())
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}
