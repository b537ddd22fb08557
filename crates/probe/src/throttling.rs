//! RT throttling: how long `SCHED_FIFO` may keep a CPU, and how to lift that for the time of a measurement.
//!
//! The kernel stops real-time threads for `sched_rt_period_us - sched_rt_runtime_us` in every period when
//! anything else wants the CPU (Documentation/scheduler/sched-rt-group.rst). A busy probe at the default of
//! 950,000 us in 1,000,000 is therefore stopped for about 50 ms every second, by its own kernel and not by
//! any hypervisor.
//!
//! Lifting it changes the host, so it is asked for, stands in the result and is put back three ways: by
//! [`Lifted`] when it goes out of scope; by a watchdog process that outlives a killed agent; and by
//! [`restore_leftovers`] at the next start. Who lifted what is written to [`MARK_FOLDER`], one file a holder, and left
//! as a note with the kernel ([`Notes`]): a container has a `/run` of its own, and a PID namespace takes agent and
//! watchdog with it when it ends, but the limit is that of the whole machine. Then the next start outside puts it
//! back. Where the kernel keeps no notes it is not lifted in a PID namespace.
//! Marks and limit are changed under one lock, by renaming, and -1 is never taken for what was there before:
//! a limit that somebody else has lifted is left to them, and one that somebody else has set meanwhile is
//! left as it is.

mod left;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use stealtime_owner::{Fate, Owner, Processes, TraceIds};

use crate::kernel_notes::Notes;
use crate::sys;

pub use left::{LeftLifted, left_lifted};

const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";

/// Holders of a lifted limit, one file each, named after the process. On a file system that a reboot clears,
/// as it resets the limit too.
pub const MARK_FOLDER: &str = "/run/stealtime/rt-throttling";

/// How notes about it begin.
const NOTE: &str = "stealtime:rt-throttling:";

/// What the kernel calls no limit.
const NO_LIMIT: i64 = -1;

/// The files of the kernel and of ourselves; other ones in tests.
#[derive(Debug, Clone)]
pub struct Files {
    runtime: PathBuf,
    period: PathBuf,
    marks: PathBuf,
    notes: Notes,
    /// Who left a mark is looked for among these.
    processes: Processes,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            runtime: RUNTIME.into(),
            period: PERIOD.into(),
            marks: MARK_FOLDER.into(),
            notes: Notes::of_kind(NOTE),
            processes: Processes::default(),
        }
    }
}

/// How long real-time threads may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// In each period; `None` if there is no limit.
    pub runtime_us: Option<u64>,
    pub period_us: u64,
}

impl Limit {
    /// Reads the kernel's setting.
    pub fn read() -> io::Result<Self> {
        Self::read_from(&Files::default())
    }

    fn read_from(files: &Files) -> io::Result<Self> {
        let runtime = read_number(&files.runtime)?;
        Ok(Self { runtime_us: u64::try_from(runtime).ok(), period_us: read_number(&files.period)?.unsigned_abs() })
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
    /// The name of its mark; `None` where there was no limit of ours to lift.
    mark: Option<String>,
}

impl Lifted {
    /// Lifts the limit.
    ///
    /// # Errors
    /// If the mark or the setting cannot be written (no root), or would not outlive this PID namespace; nothing is
    /// changed then.
    pub fn lift() -> io::Result<Self> {
        Self::lift_in(Files::default())
    }

    fn lift_in(files: Files) -> io::Result<Self> {
        let lock = Lock::take(&files)?;
        let current_us = read_number(&files.runtime)?;
        // Of a limit that is lifted only those who lifted it know what it was.
        let original_us = match current_us {
            NO_LIMIT => marks(&files)?.first().map(|other| other.original_us),
            limit_us => Some(limit_us),
        };
        let Some(original_us) = original_us else { return Ok(Self { files, mark: None }) };
        let name = format!("{}-{}", Owner::this_process()?, sys::thread_id());
        // The mark comes first: a crash between the steps then restores what was never changed.
        let noted = files.notes.leave(&note(&name, original_us));
        if let Err(error) = noted
            && TraceIds::here() != TraceIds::Own
        {
            return Err(io::Error::other(format!(
                "it would stay lifted if this PID namespace were ended, as nobody outside would know of it ({error})"
            )));
        }
        let unfinished = files.marks.join(format!(".{name}"));
        let written = fs::write(&unfinished, original_us.to_string())
            .and_then(|()| fs::rename(&unfinished, files.marks.join(&name)))
            .and_then(
                |()| if current_us == NO_LIMIT { Ok(()) } else { fs::write(&files.runtime, NO_LIMIT.to_string()) },
            );
        // Dropped where that failed, it takes the lock to remove its mark.
        let lifted = Self { files, mark: Some(name) };
        drop(lock);
        written.map(|()| lifted)
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        // A failure here leaves the mark, and the next start tries again.
        let _ = self.mark.as_ref().map(|mark| release(&self.files, mark));
    }
}

fn release(files: &Files, mark: &str) -> io::Result<()> {
    let _lock = Lock::take(files)?;
    put_back(files, |one| one.name == mark || one.owner_is_gone(files)).map(drop)
}

/// Puts back what dead processes have left lifted; gives the value that was written, if any.
pub fn restore_leftovers() -> io::Result<Option<i64>> {
    restore_leftovers_in(&Files::default())
}

fn restore_leftovers_in(files: &Files) -> io::Result<Option<i64>> {
    // Where nothing is left over there is nothing to put back, and who may not write there need not be told
    // so.
    let is_over = |mark: &Mark| mark.owner_is_gone(files);
    if !(paths(files)?.iter().any(|path| is_unfinished(path)) || marks(files)?.iter().any(is_over)) {
        return Ok(None);
    }
    let _lock = Lock::take(files)?;
    for path in paths(files)?.into_iter().filter(|path| is_unfinished(path)) {
        fs::remove_file(path)?;
    }
    put_back(files, is_over)
}

/// Removes the marks that are over, and puts the limit back if no other is left.
fn put_back(files: &Files, is_over: impl Fn(&Mark) -> bool) -> io::Result<Option<i64>> {
    let (over, others): (Vec<Mark>, Vec<Mark>) = marks(files)?.into_iter().partition(is_over);
    let mut restored = None;
    if others.is_empty()
        && let Some(mark) = over.first()
        && read_number(&files.runtime)? == NO_LIMIT
    {
        fs::write(&files.runtime, mark.original_us.to_string())?;
        restored = Some(mark.original_us);
    }
    for mark in over {
        match fs::remove_file(files.marks.join(&mark.name)) {
            // It was left in the /run of another mount namespace.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        files.notes.remove(&note(&mark.name, mark.original_us))?;
    }
    Ok(restored)
}

/// One at a time, of all processes that change the limit and its marks; over when it goes out of scope.
#[derive(Debug)]
struct Lock {
    _file: File,
}

impl Lock {
    fn take(files: &Files) -> io::Result<Self> {
        fs::create_dir_all(&files.marks)?;
        let file = File::options().write(true).create(true).truncate(false).open(files.marks.with_extension("lock"))?;
        file.lock()?;
        Ok(Self { _file: file })
    }
}

#[derive(Debug)]
struct Mark {
    /// Its owner and thread.
    name: String,
    owner: Owner,
    original_us: i64,
}

impl Mark {
    fn owner_is_gone(&self, files: &Files) -> bool {
        files.processes.fate(&self.owner) == Fate::Gone
    }
}

fn marks(files: &Files) -> io::Result<Vec<Mark>> {
    let mut found: BTreeMap<String, i64> = files.notes.list().iter().filter_map(|text| parse_note(text)).collect();
    for path in paths(files)?.into_iter().filter(|path| !is_unfinished(path)) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if let Ok(original_us) = read_number(&path) {
            found.insert(name.to_owned(), original_us);
        }
    }
    let mark = |(name, original_us): (String, i64)| {
        let owner = name.rsplit_once('-').and_then(|(owner, _)| owner.parse().ok())?;
        Some(Mark { name, owner, original_us })
    };
    Ok(found.into_iter().filter_map(mark).collect())
}

fn note(name: &str, original_us: i64) -> String {
    format!("{name}={original_us}")
}

fn parse_note(text: &str) -> Option<(String, i64)> {
    let (name, original_us) = text.rsplit_once('=')?;
    Some((name.to_owned(), original_us.parse().ok()?))
}

fn paths(files: &Files) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(&files.marks) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Whether a mark was being written by a process that was killed meanwhile; nothing was changed then.
fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn read_number(path: &Path) -> io::Result<i64> {
    let text = fs::read_to_string(path)?;
    let bad = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text:?}: {error}", path.display()));
    text.trim().parse().map_err(bad)
}

#[cfg(test)]
mod tests;
