//! Whether the state of the devices can be loaded on this host, tried out before it is needed.
//!
//! A second QEMU, like the one that waits, loads the state and is ended. It has the memory of the waiting one
//! to read, but writes to copies of its own. It is started by a thread of its own, so that a trial itself
//! takes no longer than loading.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use stealtime_capture::{Guest, GuestError, GuestSettings, MachineSpec, RamFile};
use tokio::sync::oneshot;

use crate::{engine, member_folder};

/// From one trial to the next, at least.
const EVERY: Duration = Duration::from_secs(60);

/// On a host with many machines, from one of their trials to that of another: each is a QEMU that starts and loads.
const OF_HOST: Duration = Duration::from_secs(5);

/// How long loading may take, which takes milliseconds on an idle host. Meanwhile no epoch is acknowledged.
const LOAD_WITHIN: Duration = Duration::from_secs(2);

/// Why a trial did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// QEMU does not take the state: it would not after a failover either.
    #[error("the state of the devices cannot be loaded: {0}")]
    Refused(#[source] GuestError),
    #[error("whether the state of the devices can be loaded was not tried: {0}")]
    NotTried(#[source] GuestError),
    #[error("whether the state of the devices can be loaded was not tried: there is no QEMU for it")]
    NoQemu,
}

impl From<GuestError> for TrialError {
    fn from(error: GuestError) -> Self {
        match error {
            // Nothing that a state holds makes QEMU end like this: the host did it, which was short of memory
            // perhaps.
            GuestError::Ended { status, .. } if status.signal() == Some(Signal::KILL.as_raw()) => Self::NotTried(error),
            GuestError::Ended { .. } | GuestError::LoadFailed { .. } => Self::Refused(error),
            other => Self::NotTried(other),
        }
    }
}

/// Ends the trial that is under way.
#[derive(Clone, Default)]
pub struct TrialEnd(Arc<Mutex<Ending>>);

#[derive(Default)]
struct Ending {
    is_over: bool,
    qemu: Option<OwnedFd>,
}

impl TrialEnd {
    /// Nothing is tried any more, and nobody waits for it: the machine is to resume.
    pub fn end(&self) {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ending.is_over = true;
        if let Some(qemu) = ending.qemu.take() {
            engine::kill_qemu(&qemu);
        }
    }

    /// Whether nothing is tried any more; else this QEMU is ended with the trial.
    fn begins(&self, guest: &Guest) -> bool {
        let mut ending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ending.qemu = guest.pidfd().try_clone_to_owned().ok();
        !ending.is_over
    }

    fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_over
    }
}

/// The QEMUs that states are tried on, one after the other.
pub struct Trials {
    made: Receiver<Result<Guest, GuestError>>,
    used: mpsc::Sender<()>,
    /// For whoever must not wait.
    pub end: TrialEnd,
}

impl Trials {
    /// Start the thread, and wait until the first QEMU is there.
    pub async fn start(
        spec: &MachineSpec,
        settings: GuestSettings,
        host_folder: &Path,
        ram: Arc<RamFile>,
    ) -> io::Result<Self> {
        let (give, made) = mpsc::sync_channel(1);
        let (used, is_used) = mpsc::channel();
        let (tell, first) = oneshot::channel();
        let (spec, host_folder) = (spec.clone(), host_folder.to_owned());
        std::fs::create_dir_all(&settings.folder)?;
        thread::Builder::new().name("trial".to_owned()).spawn(move || {
            let mut tell = Some(tell);
            let make = || {
                // Nothing is ever sent: it does not run.
                let (_, netdev) =
                    UnixStream::pair().map_err(|source| GuestError::Prepare { what: "network of a trial", source })?;
                let mut guest = Guest::trial(&spec, &settings, netdev.into(), Arc::clone(&ram))?;
                guest.qmp.set_timeout(LOAD_WITHIN);
                Ok(guest)
            };
            let rest = || rest_between_trials(member_folder::count(&host_folder));
            make_again_and_again(make, rest, &give, &is_used, || {
                if let Some(tell) = tell.take() {
                    let _ = tell.send(());
                }
            });
        })?;
        let _ = first.await;
        Ok(Self { made, used, end: TrialEnd::default() })
    }

    /// Try a state: the memory must be that of the same epoch, and stay so.
    pub fn first(&mut self, devices: &[u8]) -> Result<(), TrialError> {
        let made = self.made.recv().map_err(|_| TrialError::NoQemu)?;
        self.load(made, devices)
    }

    /// The same, if it is time for it again.
    pub fn again(&mut self, devices: &[u8]) -> Option<Result<(), TrialError>> {
        match self.made.try_recv() {
            Ok(made) => Some(self.load(made, devices)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    fn load(&mut self, made: Result<Guest, GuestError>, devices: &[u8]) -> Result<(), TrialError> {
        let loaded = made.and_then(|mut guest| {
            if !self.end.begins(&guest) {
                return Ok(());
            }
            let loaded = guest.load(devices);
            // It takes milliseconds to be gone, for which nobody need wait.
            thread::spawn(move || drop(guest));
            loaded
        });
        // A thread that has ended makes no more.
        let _ = self.used.send(());
        match loaded {
            Err(_) if self.end.is_over() => Ok(()),
            loaded => Ok(loaded?),
        }
    }
}

/// How long each member of a host waits between its trials, where so many live.
fn rest_between_trials(members: usize) -> Duration {
    EVERY.max(OF_HOST * u32::try_from(members).unwrap_or(u32::MAX))
}

fn make_again_and_again(
    mut make: impl FnMut() -> Result<Guest, GuestError>,
    rest: impl Fn() -> Duration,
    give: &SyncSender<Result<Guest, GuestError>>,
    is_used: &Receiver<()>,
    mut made_one: impl FnMut(),
) {
    loop {
        let is_taken = give.send(make()).is_ok();
        made_one();
        if !is_taken || is_used.recv().is_err() {
            return;
        }
        // Nobody says anything meanwhile but that it is over.
        if is_used.recv_timeout(rest()) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn a_host_of_many_machines_starts_no_more_than_one_trial_in_five_seconds() {
        for (members, seconds) in [(0, 60), (12, 60), (13, 65), (100, 500)] {
            assert_eq!(rest_between_trials(members), Duration::from_secs(seconds), "{members}");
        }
    }

    #[test]
    fn a_trial_that_the_host_killed_was_no_trial() {
        // As wait(2) tells: the signal, or the exit code in the second byte.
        let ended = |status| {
            let status = ExitStatus::from_raw(status);
            TrialError::from(GuestError::Ended { status, log_tail: String::new() })
        };
        assert!(matches!(ended(9), TrialError::NotTried(_)));
        for by_itself in [6, 11, 1 << 8] {
            assert!(matches!(ended(by_itself), TrialError::Refused(_)), "{by_itself}");
        }
    }
}
