//! Which process created a thing on this host, and whether it still lives: the one mark of all that must go with its
//! maker.
//!
//! A mark is `NAMESPACE:PID:TICKS`: the inode of the PID namespace, the process's id in it, and when the
//! process started in clock ticks since boot (field 22 of `/proc/PID/stat`, `proc_pid_stat(5)`), since ids
//! come again. Ticks do not move when the wall clock is set; a start time that is computed from it does, and
//! then a living process looks dead.
//!
//! An id means nothing outside its namespace: what another namespace's process made is only judged by one
//! that sees all processes, and otherwise left alone. The kernel tells ticks by the time namespace of who reads
//! them, whosoever they are ([`time_namespace`]): marks hold them as the initial one has them.

mod time_namespace;
mod trace_ids;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use time_namespace::TickOffset;
pub use trace_ids::TraceIds;

/// `PROC_PID_INIT_INO` (`include/linux/proc_ns.h`, since 3.8): the PID namespace in which all others are
/// seen.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The flag of kernel threads (`include/linux/sched.h`, since 2.6.27), field 9 of `/proc/PID/stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A process, told from all others that there were since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Inode of its PID namespace.
    pub pid_namespace: u64,
    /// Its id in there.
    pub process: u32,
    /// When it started, in clock ticks since boot in the initial time namespace.
    pub start_ticks: u64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// There is no `/proc` that shows it.
    pub fn this_process() -> io::Result<Self> {
        let this = Path::new("/proc/self");
        owner_at(this, TickOffset::of(this)?)
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

/// A process as `/proc` tells everybody of it.
struct Seen {
    /// From the namespace of this `/proc` to its own.
    ids: Vec<u32>,
    start_ticks: u64,
    has_ended: bool,
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
        let folder = self.proc.join(process.to_string());
        let offset = TickOffset::of(&self.proc.join("self"))?;
        if look(&folder)?.has_ended { Err(io::ErrorKind::NotFound.into()) } else { owner_at(&folder, offset) }
    }

    /// Tell whether an owner lives.
    pub fn fate(&self, owner: &Owner) -> Fate {
        let this = self.proc.join("self");
        let (Ok(offset), Ok(seen), Ok(namespace)) = (TickOffset::of(&this), look(&this), pid_namespace(&this)) else {
            return Fate::NotOursToJudge;
        };
        // In a namespace without a /proc of its own, /proc shows other ids than ours.
        if seen.ids.len() == 1 && namespace == owner.pid_namespace {
            return self.fate_in_this_namespace(owner, offset);
        }
        if shows_all(&self.proc) {
            return self.fate_elsewhere(owner, offset).unwrap_or(Fate::NotOursToJudge);
        }
        Fate::NotOursToJudge
    }

    fn fate_in_this_namespace(&self, owner: &Owner, offset: TickOffset) -> Fate {
        let stat = fs::read_to_string(self.proc.join(owner.process.to_string()).join("stat"));
        match stat.ok().as_deref().and_then(started) {
            Some((seen, has_ended)) if offset.is_same(seen, owner.start_ticks) && !has_ended => Fate::Alive,
            // Mounted with hidepid, `/proc` hides the processes of other users.
            None if exists(owner.process) => Fate::NotOursToJudge,
            Some(_) | None => Fate::Gone,
        }
    }

    /// Look for an owner among the processes of all namespaces; fails where not all are seen.
    fn fate_elsewhere(&self, owner: &Owner, offset: TickOffset) -> io::Result<Fate> {
        for entry in fs::read_dir(&self.proc)? {
            let entry = entry?;
            if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            let is_owner = look(&entry.path()).and_then(|seen| {
                let could_be = seen.ids.last() == Some(&owner.process)
                    && offset.is_same(seen.start_ticks, owner.start_ticks)
                    && !seen.has_ended;
                Ok(could_be && pid_namespace(&entry.path())? == owner.pid_namespace)
            });
            match is_owner {
                Ok(true) => return Ok(Fate::Alive),
                Ok(false) => {}
                // It ended meanwhile.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Fate::Gone)
    }
}

fn owner_at(folder: &Path, offset: TickOffset) -> io::Result<Owner> {
    let Seen { ids, start_ticks, .. } = look(folder)?;
    let &process = ids.last().ok_or_else(|| damaged(folder, "stat holds no id"))?;
    let start_ticks = offset.to_initial(start_ticks);
    Ok(Owner { pid_namespace: pid_namespace(folder)?, process, start_ticks })
}

fn look(folder: &Path) -> io::Result<Seen> {
    let stat = fs::read_to_string(folder.join("stat"))?;
    let (start_ticks, has_ended) = started(&stat).ok_or_else(|| damaged(folder, "stat has no start time"))?;
    let mut ids = ids_by_namespace(&fs::read_to_string(folder.join("status"))?);
    if ids.is_empty() {
        // A kernel without PID namespaces.
        ids.extend(stat.split_ascii_whitespace().next().and_then(|id| id.parse::<u32>().ok()));
    }
    Ok(Seen { ids, start_ticks, has_ended })
}

/// The ids of a thread from the namespace of this `/proc` to its own (`NSpid` of `proc_pid_status(5)`, since
/// 4.1).
fn ids_by_namespace(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// The inode of a process's PID namespace (`pid:[4026531836]`, `namespaces(7)`); 0 from a kernel that has
/// none.
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

/// Whether a `/proc` is that of the initial PID namespace: kernel threads are in no other, and the second
/// process is theirs (`rest_init()`, `init/main.c`). Unlike its namespace, everybody may know of a process
/// what it is.
fn shows_all(proc: &Path) -> bool {
    let stat = fs::read_to_string(proc.join("2/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & PF_KTHREAD != 0)
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
