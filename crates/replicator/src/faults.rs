//! Faults on purpose: at named steps of the protocol a member may be told to die, to stop or to be late, so that tests
//! reach each of them. Without `allow_faults` in the spec nothing can be armed, and a step costs one atomic read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

/// The steps, in the order in which an epoch and then a failover pass them.
pub const POINTS: [&str; 22] = [
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
    "after-resume",
    "before-naming",
];

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
}

static IS_ARMED: AtomicBool = AtomicBool::new(false);
static ARMED: Mutex<Option<Armed>> = Mutex::new(None);
static GUEST: Mutex<Option<i32>> = Mutex::new(None);

/// A point that is none.
#[derive(Debug, thiserror::Error)]
#[error("there is no fault point {0:?}; they are: {names}", names = POINTS.join(", "))]
pub struct UnknownPoint(pub String);

/// Have something happen when the step is passed for the `passes`-th time from now on (1: the next time).
pub fn arm(point: &str, action: Action, passes: u64) -> Result<(), UnknownPoint> {
    if !POINTS.contains(&point) {
        return Err(UnknownPoint(point.to_owned()));
    }
    let armed = Armed { point: point.to_owned(), action, passes: passes.max(1) };
    *locked(&ARMED) = Some(armed);
    IS_ARMED.store(true, Ordering::Release);
    Ok(())
}

/// Say whom [`Action::KillGuest`] kills.
pub fn set_guest(process: i32) {
    *locked(&GUEST) = Some(process);
}

/// Pass a step.
pub fn point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "{name} is no fault point");
    if !IS_ARMED.load(Ordering::Acquire) {
        return;
    }
    let mut armed = locked(&ARMED);
    let Some(wanted) = armed.as_mut().filter(|armed| armed.point == name) else { return };
    wanted.passes -= 1;
    if wanted.passes > 0 {
        return;
    }
    let action = wanted.action;
    *armed = None;
    IS_ARMED.store(false, Ordering::Release);
    drop(armed);
    let (process, signal) = match action {
        Action::Kill => (Some(getpid()), Signal::KILL),
        Action::Stop => (Some(getpid()), Signal::STOP),
        Action::KillGuest => (locked(&GUEST).and_then(Pid::from_raw), Signal::KILL),
        Action::Delay => return std::thread::sleep(DELAY),
    };
    if let Some(process) = process {
        // If it is gone already, what was asked for has happened.
        let _ = kill_process(process, signal);
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
        let error = arm("after-lunch", Action::Kill, 1).unwrap_err().to_string();
        assert!(error.contains("after-lunch") && error.contains("after-stop"), "{error}");
    }

    #[test]
    fn only_the_armed_step_kills_and_only_when_its_time_comes() {
        let mut guest = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        set_guest(i32::try_from(guest.id()).unwrap());
        arm("after-copy", Action::KillGuest, 2).unwrap();
        point("after-stop");
        point("after-copy");
        assert!(guest.try_wait().unwrap().is_none(), "it died one pass too early");
        point("after-copy");
        assert!(!guest.wait().unwrap().success());
        assert!(!IS_ARMED.load(Ordering::Acquire));
    }
}
