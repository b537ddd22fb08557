//! Faults on purpose: at named steps of the protocol a member may be told to die, to stop or to be late, so
//! that tests reach each of them. Without `allow_faults` in the spec nothing can be armed, and a step costs
//! one atomic read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::wording;

/// The steps, in the order in which an epoch and then a failover pass them.
pub const POINTS: [&str; 23] = [
    "before-stop",
    "after-stop",
    "after-cut",
    "after-save",
    "after-copy",
    "after-continue",
    "before-encode",
    "during-ship",
    "after-ship",
    "on-acknowledge",
    "before-release",
    "after-release",
    "during-stage",
    "after-stage",
    "before-acknowledge",
    "after-acknowledge",
    "after-apply",
    "before-claim",
    "after-claim",
    "before-load",
    "after-load",
    "after-resume",
    "before-naming",
];

/// No step but the moment of asking: it must be one at which the guest is protected, or its end would be the
/// machine's.
pub const NOW: &str = "now";

/// What happens at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// This member dies at once (SIGKILL), and its guest with it.
    Kill,
    /// This member stands still (SIGSTOP) until somebody continues it.
    Stop,
    /// The guest's QEMU dies at once.
    KillGuest,
    /// The thread that passes the step is late, by [`DELAY`]; the others go on.
    Delay,
}

/// Longer than deadlines are in tests.
const DELAY: Duration = Duration::from_secs(6);

#[derive(Debug)]
struct Armed {
    point: String,
    action: Action,
    /// It happens when the step is passed for this time.
    passes: u64,
    /// Passes while the guest is not protected do not count.
    only_protected: bool,
}

struct Faults {
    is_protected: AtomicBool,
    is_armed: AtomicBool,
    armed: Mutex<Option<Armed>>,
    guest: Mutex<Option<i32>>,
}

static HERE: Faults = Faults::none();

#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error("there is no fault point {0:?}; they are: {NOW}, {names}", names = POINTS.join(", "))]
    UnknownPoint(String),
    #[error("the guest is not protected now")]
    NotProtected,
}

/// Have something happen when the step is passed for the `passes`-th time from now on (1: the next time).
///
/// With [`NOW`] it happens before this returns, unless the state machine, whose thread must call this, says
/// otherwise.
pub fn arm(point: &str, action: Action, passes: u64, only_protected: bool) -> Result<(), FaultError> {
    HERE.arm(point, action, passes, only_protected)
}

/// Say whom [`Action::KillGuest`] kills.
pub fn set_guest(process: i32) {
    *locked(&HERE.guest) = Some(process);
}

/// Say whether a standby may claim and this member knows it.
pub fn set_protected(is_protected: bool) {
    HERE.is_protected.store(is_protected, Ordering::Release);
}

pub fn point(name: &'static str) {
    HERE.point(name);
}

impl Faults {
    const fn none() -> Self {
        Self {
            is_protected: AtomicBool::new(false),
            is_armed: AtomicBool::new(false),
            armed: Mutex::new(None),
            guest: Mutex::new(None),
        }
    }

    fn arm(&self, point: &str, action: Action, passes: u64, only_protected: bool) -> Result<(), FaultError> {
        if point == NOW {
            if !self.is_protected.load(Ordering::Acquire) {
                return Err(FaultError::NotProtected);
            }
            self.strike(action);
            return Ok(());
        }
        if !POINTS.contains(&point) {
            return Err(FaultError::UnknownPoint(point.to_owned()));
        }
        let armed = Armed { point: point.to_owned(), action, passes: passes.max(1), only_protected };
        *locked(&self.armed) = Some(armed);
        self.is_armed.store(true, Ordering::Release);
        Ok(())
    }

    fn point(&self, name: &'static str) {
        debug_assert!(POINTS.contains(&name), "{name} is no fault point");
        if !self.is_armed.load(Ordering::Acquire) {
            return;
        }
        let mut armed = locked(&self.armed);
        let Some(wanted) = armed.as_mut().filter(|armed| armed.point == name) else { return };
        if wanted.only_protected && !self.is_protected.load(Ordering::Acquire) {
            return;
        }
        wanted.passes -= 1;
        if wanted.passes > 0 {
            return;
        }
        let action = wanted.action;
        *armed = None;
        self.is_armed.store(false, Ordering::Release);
        drop(armed);
        wording::say(&format!("fault: {action:?} at {name}"));
        self.strike(action);
    }

    fn strike(&self, action: Action) {
        let (process, signal) = match action {
            Action::Kill => (Some(getpid()), Signal::KILL),
            Action::Stop => (Some(getpid()), Signal::STOP),
            Action::KillGuest => (locked(&self.guest).and_then(Pid::from_raw), Signal::KILL),
            Action::Delay => return std::thread::sleep(DELAY),
        };
        if let Some(process) = process {
            // If it is gone already, what was asked for has happened.
            let _ = kill_process(process, signal);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_point_is_refused_with_the_known_ones() {
        let error = arm("after-lunch", Action::Kill, 1, false).unwrap_err().to_string();
        assert!(error.contains("after-lunch") && error.contains("after-stop"), "{error}");
    }

    #[test]
    fn only_the_armed_step_kills_and_only_when_its_time_comes() {
        let mut guest = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        // Those of the process are for members of other tests.
        let faults = Faults::none();
        *locked(&faults.guest) = i32::try_from(guest.id()).ok();
        faults.arm("after-copy", Action::KillGuest, 2, true).unwrap();
        faults.point("after-copy");
        assert!(matches!(faults.arm(NOW, Action::KillGuest, 1, true), Err(FaultError::NotProtected)));
        faults.is_protected.store(true, Ordering::Release);
        faults.point("after-stop");
        faults.point("after-copy");
        assert!(guest.try_wait().unwrap().is_none(), "it died one pass too early");
        faults.point("after-copy");
        assert!(!guest.wait().unwrap().success());
        assert!(!faults.is_armed.load(Ordering::Acquire));
    }
}
