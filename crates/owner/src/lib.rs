//! Who made a thing on this host, and whether it still lives: the one mark of all that must go with its maker.
//!
//! A mark is `NAMESPACE:PID:TICKS`: the inode of the PID namespace, the process's id in it, and when the process started
//! in clock ticks since boot (field 22 of `/proc/PID/stat`, `proc_pid_stat(5)`), since ids come again. Ticks do not move
//! when the wall clock is set; a start time that is computed from it does, and then a living process looks dead.
//!
//! An id means nothing outside its namespace: what another namespace's process made is only judged by one that sees all
//! processes, and otherwise left alone. Ticks are counted by the time namespace of who reads them; we know of no container
//! runtime that gives one to processes that share a PID namespace.

mod trace_ids;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

pub use trace_ids::TraceIds;

/// `PROC_PID_INIT_INO` (`include/linux/proc_ns.h`, since 3.8): the PID namespace in which all others are seen.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// A process, told from all others that there were since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Inode of its PID namespace.
    pub pid_namespace: u64,
    /// Its id in there.
    pub process: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// There is no `/proc` that shows it.
    pub fn this_process() -> io::Result<Self> {
        Processes::default().owner("self")
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.pid_namespace, self.process, self.start_ticks)
    }
}

/// A text that is no mark of ours.
#[derive(Debug, PartialEq, Eq)]
pub struct NoMark;

impl FromStr for Owner {
    type Err = NoMark;

    fn from_str(text: &str) -> Result<Self, NoMark> {
        let mut numbers = text.split(':').map(|part| part.parse::<u64>().map_err(|_| NoMark));
        let mut next = || numbers.next().unwrap_or(Err(NoMark));
        let (pid_namespace, process, start_ticks) = (next()?, next()?, next()?);
        let process = u32::try_from(process).map_err(|_| NoMark)?;
        let owner = Self { pid_namespace, process, start_ticks };
        // Also refuses a fourth part, and numbers written otherwise than we do.
        if owner.to_string() == text { Ok(owner) } else { Err(NoMark) }
    }
}

/// What is known of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs: what it made is in use.
    Alive,
    /// It has ended: what it made may be removed.
    Gone,
    /// Its PID namespace cannot be looked into from here: what it made is left alone.
    NotOursToJudge,
}

/// The processes of this host, as far as they are seen from here.
#[derive(Debug, Clone)]
pub struct Processes {
    proc: PathBuf,
}

impl Default for Processes {
    fn default() -> Self {
        Self::below("/proc")
    }
}

/// A process as `/proc` tells of it.
struct Seen {
    owner: Owner,
    has_ended: bool,
    /// Whether `/proc` is that of the process's own namespace, and not of one around it.
    by_its_own_id: bool,
}

impl Processes {
    /// Those that a mounted procfs shows.
    pub fn below(proc: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into() }
    }

    /// A process by its id in this `/proc`.
    ///
    /// # Errors
    /// It has ended, or is not ours to look at.
    pub fn owner_with_id(&self, process: u32) -> io::Result<Owner> {
        let seen = look(&self.proc.join(process.to_string()))?;
        if seen.has_ended { Err(io::ErrorKind::NotFound.into()) } else { Ok(seen.owner) }
    }

    /// Tell whether an owner lives.
    pub fn fate(&self, owner: &Owner) -> Fate {
        let Ok(this) = look(&self.proc.join("self")) else { return Fate::NotOursToJudge };
        if this.owner.pid_namespace == owner.pid_namespace && this.by_its_own_id {
            return self.fate_in_this_namespace(owner);
        }
        self.fate_elsewhere(owner).unwrap_or(Fate::NotOursToJudge)
    }

    fn owner(&self, entry: &str) -> io::Result<Owner> {
        Ok(look(&self.proc.join(entry))?.owner)
    }

    fn fate_in_this_namespace(&self, owner: &Owner) -> Fate {
        let stat = fs::read_to_string(self.proc.join(owner.process.to_string()).join("stat"));
        match stat.ok().as_deref().and_then(started) {
            Some((start_ticks, has_ended)) if start_ticks == owner.start_ticks && !has_ended => Fate::Alive,
            // Mounted with hidepid, `/proc` hides the processes of other users.
            None if exists(owner.process) => Fate::NotOursToJudge,
            Some(_) | None => Fate::Gone,
        }
    }

    /// Look for an owner among the processes of all namespaces; fails where not all are seen.
    fn fate_elsewhere(&self, owner: &Owner) -> io::Result<Fate> {
        if pid_namespace(&self.proc.join("1"))? != INITIAL_PID_NAMESPACE {
            return Ok(Fate::NotOursToJudge);
        }
        for entry in fs::read_dir(&self.proc)? {
            let entry = entry?;
            if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            match look(&entry.path()) {
                Ok(seen) if seen.owner == *owner && !seen.has_ended => return Ok(Fate::Alive),
                Ok(_) => {}
                // It ended meanwhile.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Fate::Gone)
    }
}

fn look(folder: &Path) -> io::Result<Seen> {
    let stat = fs::read_to_string(folder.join("stat"))?;
    let (start_ticks, has_ended) = started(&stat).ok_or_else(|| damaged(folder, "stat has no start time"))?;
    let status = fs::read_to_string(folder.join("status"))?;
    let mut ids = ids_by_namespace(&status);
    if ids.is_empty() {
        // A kernel without PID namespaces.
        ids.extend(stat.split_ascii_whitespace().next().and_then(|id| id.parse::<u32>().ok()));
    }
    let &process = ids.last().ok_or_else(|| damaged(folder, "stat holds no id"))?;
    let owner = Owner { pid_namespace: pid_namespace(folder)?, process, start_ticks };
    Ok(Seen { owner, has_ended, by_its_own_id: ids.len() == 1 })
}

/// The ids of a thread from the namespace of this `/proc` to its own (`NSpid` of `proc_pid_status(5)`, since 4.1).
fn ids_by_namespace(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The inode of a process's PID namespace (`pid:[4026531836]`, `namespaces(7)`); 0 from a kernel that has none.
fn pid_namespace(folder: &Path) -> io::Result<u64> {
    let link = match fs::read_link(folder.join("ns/pid")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder.join("stat").exists() => {
            return Ok(0);
        }
        read => read?,
    };
    let number = link.to_str().and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
    number.ok_or_else(|| damaged(folder, "ns/pid names no namespace"))
}

/// When a process started, and whether it has ended and only waits for its parent's look.
fn started(stat: &str) -> Option<(u64, bool)> {
    // The name is in parentheses and may hold any character: count from the last one on.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some((start_ticks, matches!(state, "Z" | "X" | "x")))
}

fn exists(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

fn damaged(folder: &Path, problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {problem}", folder.display()))
}

#[cfg(test)]
mod tests;
