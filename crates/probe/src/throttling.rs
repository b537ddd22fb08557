//! RT throttling: how long `SCHED_FIFO` may keep a CPU, and how to lift that for the time of a measurement.
//!
//! The kernel stops real-time threads for `sched_rt_period_us - sched_rt_runtime_us` in every period when anything
//! else wants the CPU (Documentation/scheduler/sched-rt-group.rst). A busy probe at the default of 950,000 us in
//! 1,000,000 is therefore stopped for about 50 ms every second, by its own kernel and not by any hypervisor.
//!
//! Lifting it changes the host, so it is asked for, stands in the result and is put back three ways: by [`Lifted`]
//! when it goes out of scope; by a watchdog process that outlives a killed agent; and by [`restore_leftovers`] at the
//! next start. Who lifted what is written to [`MARK_FOLDER`], one file a holder, so that two runs at once do not
//! put back each other's value.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::sys;

const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";

/// Holders of a lifted limit, one file each, named after the process. On a file system that a reboot clears, as it
/// resets the limit too.
pub const MARK_FOLDER: &str = "/run/stealtime/rt-throttling";

/// The files of the kernel and of ourselves; other ones in tests.
#[derive(Debug, Clone)]
pub struct Files {
    runtime: PathBuf,
    period: PathBuf,
    marks: PathBuf,
}

impl Default for Files {
    fn default() -> Self {
        Self { runtime: RUNTIME.into(), period: PERIOD.into(), marks: MARK_FOLDER.into() }
    }
}

/// How long real-time threads may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In each period; `None` if there is no limit.
    pub runtime_us: Option<u64>,
    /// The period.
    pub period_us: u64,
}

impl Limit {
    /// Reads the kernel's setting.
    pub fn read() -> io::Result<Self> {
        Self::read_from(&Files::default())
    }

    fn read_from(files: &Files) -> io::Result<Self> {
        let runtime = read_number(&files.runtime)?;
        Ok(Self {
            runtime_us: u64::try_from(runtime).ok(),
            period_us: read_number(&files.period)?.unsigned_abs(),
        })
    }

    /// How long a busy real-time thread is stopped in each period, if at all.
    pub fn stall_us(&self) -> Option<u64> {
        self.runtime_us.and_then(|runtime| self.period_us.checked_sub(runtime)).filter(|&stall| stall > 0)
    }
}

/// The limit is lifted while this lives.
#[derive(Debug)]
pub struct Lifted {
    files: Files,
    mark: PathBuf,
}

impl Lifted {
    /// Lifts the limit.
    ///
    /// # Errors
    /// If the mark or the setting cannot be written (no root); nothing is changed then.
    pub fn lift() -> io::Result<Self> {
        Self::lift_in(Files::default())
    }

    fn lift_in(files: Files) -> io::Result<Self> {
        fs::create_dir_all(&files.marks)?;
        let original = match marks(&files)?.into_iter().next() {
            Some(other) => other.original_us,
            None => read_number(&files.runtime)?,
        };
        let mark = files.marks.join(format!("{}-{}", process::id(), sys::thread_id()));
        // The mark comes first: a crash between the two steps then restores what was never changed.
        fs::write(&mark, original.to_string())?;
        let lifted = Self { files, mark };
        fs::write(&lifted.files.runtime, "-1")?;
        Ok(lifted)
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        // A failure here leaves the mark, and the next start tries again.
        let _ = release(&self.files, &self.mark);
    }
}

fn release(files: &Files, mark: &Path) -> io::Result<()> {
    let original = read_number(mark)?;
    if marks(files)?.iter().all(|other| other.path == mark) {
        fs::write(&files.runtime, original.to_string())?;
    }
    fs::remove_file(mark)
}

/// Puts back what dead processes have left lifted; gives the value that was written, if any.
pub fn restore_leftovers() -> io::Result<Option<i64>> {
    restore_leftovers_in(&Files::default())
}

fn restore_leftovers_in(files: &Files) -> io::Result<Option<i64>> {
    let (dead, alive): (Vec<Mark>, Vec<Mark>) =
        marks(files)?.into_iter().partition(|mark| !process_exists(mark.process));
    let mut restored = None;
    if alive.is_empty()
        && let Some(mark) = dead.first()
    {
        fs::write(&files.runtime, mark.original_us.to_string())?;
        restored = Some(mark.original_us);
    }
    for mark in dead {
        fs::remove_file(mark.path)?;
    }
    Ok(restored)
}

#[derive(Debug)]
struct Mark {
    path: PathBuf,
    process: u32,
    original_us: i64,
}

fn marks(files: &Files) -> io::Result<Vec<Mark>> {
    let entries = match fs::read_dir(&files.marks) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let process = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.split('-').next()?.parse().ok());
        if let (Some(process), Ok(original_us)) = (process, read_number(&path)) {
            found.push(Mark { path, process, original_us });
        }
    }
    Ok(found)
}

/// Whether a process lives. One that was killed stays in `/proc` until its parent has looked at its exit code.
fn process_exists(process: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may hold any character (proc_pid_stat(5)).
    let state = stat.rsplit(')').next().and_then(|after| after.split_whitespace().next());
    !matches!(state, Some("Z" | "X" | "x"))
}

fn read_number(path: &Path) -> io::Result<i64> {
    let text = fs::read_to_string(path)?;
    let bad =
        |error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text:?}: {error}", path.display()));
    text.trim().parse().map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fabricated(Files);

    impl Fabricated {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("stealtime-throttling-{}-{name}", process::id()));
            fs::create_dir_all(&folder).unwrap();
            let files = Files {
                runtime: folder.join("runtime"),
                period: folder.join("period"),
                marks: folder.join("marks"),
            };
            fs::write(&files.runtime, "950000\n").unwrap();
            fs::write(&files.period, "1000000\n").unwrap();
            Self(files)
        }

        fn runtime(&self) -> i64 {
            read_number(&self.0.runtime).unwrap()
        }
    }

    impl Drop for Fabricated {
        fn drop(&mut self) {
            fs::remove_dir_all(self.0.runtime.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn the_limit_is_read_with_its_stall() {
        let machine = Fabricated::new("read");
        let limit = Limit::read_from(&machine.0).unwrap();
        assert_eq!(limit.stall_us(), Some(50_000));
        fs::write(&machine.0.runtime, "-1\n").unwrap();
        assert_eq!(Limit::read_from(&machine.0).unwrap().stall_us(), None);
    }

    #[test]
    fn lifting_is_undone_at_the_end_of_the_scope() {
        let machine = Fabricated::new("scope");
        let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
        assert_eq!(machine.runtime(), -1);
        drop(lifted);
        assert_eq!(machine.runtime(), 950_000);
        assert!(marks(&machine.0).unwrap().is_empty());
    }

    #[test]
    fn the_last_of_two_holders_puts_back_the_first_value() {
        let machine = Fabricated::new("two");
        let first = Lifted::lift_in(machine.0.clone()).unwrap();
        let second =
            std::thread::scope(|scope| scope.spawn(|| Lifted::lift_in(machine.0.clone())).join().unwrap())
                .unwrap();
        drop(first);
        assert_eq!(machine.runtime(), -1);
        drop(second);
        assert_eq!(machine.runtime(), 950_000);
    }

    #[test]
    fn what_a_killed_process_left_is_put_back_at_the_next_start() {
        let machine = Fabricated::new("killed");
        fs::create_dir_all(&machine.0.marks).unwrap();
        fs::write(&machine.0.runtime, "-1").unwrap();
        // Process ids end at 2^22 (PID_MAX_LIMIT), so this one never lives.
        fs::write(machine.0.marks.join("4194305-1"), "900000").unwrap();
        assert_eq!(restore_leftovers_in(&machine.0).unwrap(), Some(900_000));
        assert_eq!(machine.runtime(), 900_000);
        assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None);
    }

    #[test]
    fn a_killed_holder_that_nobody_has_waited_for_is_dead() {
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(process_exists(child.id()));
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while process_exists(child.id()) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(Path::new("/proc").join(child.id().to_string()).exists());
        assert!(!process_exists(child.id()));
        child.wait().unwrap();
    }

    #[test]
    fn a_living_holder_is_left_alone() {
        let machine = Fabricated::new("living");
        let lifted = Lifted::lift_in(machine.0.clone()).unwrap();
        assert_eq!(restore_leftovers_in(&machine.0).unwrap(), None);
        assert_eq!(machine.runtime(), -1);
        drop(lifted);
    }
}
