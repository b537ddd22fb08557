//! How many machines a host receives at a time, in which order, and what memory is promised to them.
//!
//! Standbys are processes of their own, which know nothing of each other but what is in the folder of the host: in each
//! member's folder, whose lock says whether it lives, what it was promised. Who decides holds a lock of the host
//! meanwhile: of two machines that come at once the second one counts the first.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::clock::{nanoseconds, now};
use crate::member_folder;

const PROMISE: &str = "promise.json";
/// No machine has a name with a dot in front.
const WAITING: &str = ".waiting";
const LOCK: &str = ".admission.lock";

/// A machine whose host asks no more waits no more: it asks about once a second.
const ASKS_WITHIN: Duration = Duration::from_secs(5);

/// What a member was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Promise {
    /// Memory that it will use and does not use yet.
    bytes: u64,
    /// Whether all of its machine's memory is on the way.
    copies: bool,
}

/// A machine that was sent away, as others are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    order: u32,
    /// When it began to wait, and when it last asked; nanoseconds of the monotonic clock, which nobody sets.
    since_ns: u64,
    asked_ns: u64,
}

/// Why a machine has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// Machines that are copied here now.
    pub copying: usize,
    /// Those that wait and are to come before it.
    pub before: usize,
}

/// The decision of a host, for which it is locked.
pub struct Admission {
    host: PathBuf,
    vm: String,
    _lock: File,
}

impl Admission {
    /// Decide of a machine, in the folder of a host.
    pub fn begin(host_folder: &Path, vm: &str) -> io::Result<Self> {
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(host_folder.join(LOCK))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { host: host_folder.to_owned(), vm: vm.to_owned(), _lock: lock })
    }

    /// What other members of this host were promised and do not use yet.
    pub fn promised_bytes(&self) -> u64 {
        self.promises().iter().map(|promise| promise.bytes).sum()
    }

    /// Take the machine, to which so many bytes are promised, or have it wait: at most `copies` are copied at a time,
    /// and of those that wait first those of the smallest `order`, then those that wait for the longest.
    pub fn admit(self, bytes: u64, order: u32, copies: usize) -> io::Result<Result<Admitted, Busy>> {
        let copying = self.promises().iter().filter(|promise| promise.copies).count();
        let at = nanoseconds(now());
        let waiting = self.host.join(WAITING);
        let mine = waiting.join(format!("{}.json", self.vm));
        let before_ns = read::<Waiting>(&mine).filter(|it| is_fresh(it, at)).map_or(at, |it| it.since_ns);
        let before = self.before(&waiting, (order, before_ns), at);
        // As many as have room before it are taken before it.
        if copying + before >= copies {
            fs::create_dir_all(&waiting)?;
            let entry = Waiting { order, since_ns: before_ns, asked_ns: at };
            write(&mine, &entry)?;
            return Ok(Err(Busy { copying, before }));
        }
        let _ = fs::remove_file(&mine);
        let path = self.host.join(&self.vm).join(PROMISE);
        let promise = Promise { bytes, copies: true };
        write(&path, &promise)?;
        Ok(Ok(Admitted { path, promise }))
    }

    /// Machines that wait and come before one of this order that waits since a moment.
    fn before(&self, waiting: &Path, mine: (u32, u64), at: u64) -> usize {
        let Ok(entries) = fs::read_dir(waiting) else { return 0 };
        let others = entries.flatten().filter(|entry| entry.path().file_stem().is_some_and(|vm| *vm != *self.vm));
        others
            .filter_map(|entry| read::<Waiting>(&entry.path()))
            .filter(|other| is_fresh(other, at) && (other.order, other.since_ns) < mine)
            .count()
    }

    fn promises(&self) -> Vec<Promise> {
        let Ok(entries) = fs::read_dir(&self.host) else { return Vec::new() };
        let others = entries.flatten().filter(|entry| *entry.file_name() != *self.vm);
        others
            .filter_map(|entry| Some((read::<Promise>(&entry.path().join(PROMISE))?, entry.path())))
            .filter(|(_, folder)| member_folder::is_occupied(folder))
            .map(|(promise, _)| promise)
            .collect()
    }
}

/// The promise to a member; withdrawn with it.
#[derive(Debug)]
pub struct Admitted {
    path: PathBuf,
    promise: Promise,
}

impl Admitted {
    /// All memory of its machine is here and uses `bytes` of what was promised; the next one may come.
    pub fn copied(&mut self, bytes: u64) {
        if self.promise.copies {
            self.promise = Promise { bytes: self.promise.bytes.saturating_sub(bytes), copies: false };
            // If it cannot be written, others wait for longer than they must.
            let _ = write(&self.path, &self.promise);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn is_fresh(waiting: &Waiting, at: u64) -> bool {
    // One from before a reboot may have asked later than now.
    at.checked_sub(waiting.asked_ns).is_some_and(|age_ns| age_ns <= nanoseconds(ASKS_WITHIN))
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    fs::write(path, serde_json::to_vec(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with members that live.
    struct Host {
        folder: tempfile::TempDir,
        lives: Vec<File>,
    }

    impl Host {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), lives: Vec::new() }
        }

        fn ask(&mut self, vm: &str, bytes: u64, order: u32) -> Result<Admitted, Busy> {
            let folder = self.folder.path().join(vm);
            fs::create_dir_all(&folder).unwrap();
            let lock = File::create(folder.join("lock")).unwrap();
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            let outcome = Admission::begin(self.folder.path(), vm).unwrap().admit(bytes, order, 2).unwrap();
            if outcome.is_ok() {
                self.lives.push(lock);
            }
            outcome
        }

        fn promised(&self, vm: &str) -> u64 {
            Admission::begin(self.folder.path(), vm).unwrap().promised_bytes()
        }
    }

    #[test]
    fn what_is_promised_to_others_is_counted_until_it_is_used_or_they_are_gone() {
        let mut host = Host::new();
        let mut first = host.ask("one", 100, 0).unwrap();
        assert_eq!((host.promised("two"), host.promised("one")), (100, 0));
        let second = host.ask("two", 10, 0).unwrap();
        assert_eq!(host.promised("three"), 110);
        first.copied(60);
        first.copied(60);
        assert_eq!(host.promised("three"), 50);
        drop(second);
        assert_eq!(host.promised("three"), 40);
        // As by kill -9: the promise stays, and nobody lives there.
        std::mem::forget(first);
        host.lives.clear();
        assert_eq!(host.promised("three"), 0);
    }

    #[test]
    fn no_more_are_copied_at_a_time_than_may_be_and_the_next_is_the_one_of_the_smallest_order() {
        let mut host = Host::new();
        let mut first = host.ask("one", 1, 5).unwrap();
        let _second = host.ask("two", 1, 5).unwrap();
        assert_eq!(host.ask("late", 1, 7).unwrap_err(), Busy { copying: 2, before: 0 });
        assert_eq!(host.ask("important", 1, 1).unwrap_err(), Busy { copying: 2, before: 0 });
        assert_eq!(host.ask("late", 1, 7).unwrap_err(), Busy { copying: 2, before: 1 });
        first.copied(1);
        assert_eq!(host.ask("late", 1, 7).unwrap_err(), Busy { copying: 1, before: 1 }, "one has room, not it");
        let _important = host.ask("important", 1, 1).unwrap();
        assert_eq!(host.ask("late", 1, 7).unwrap_err(), Busy { copying: 2, before: 0 });
    }

    #[test]
    fn of_the_same_order_who_waits_for_the_longest_is_next_and_who_asks_no_more_is_not() {
        let mut host = Host::new();
        let mut first = host.ask("one", 1, 5).unwrap();
        let _second = host.ask("two", 1, 5).unwrap();
        for vm in ["three", "four"] {
            host.ask(vm, 1, 5).unwrap_err();
        }
        first.copied(1);
        assert_eq!(host.ask("four", 1, 5).unwrap_err().before, 1);
        let path = host.folder.path().join(WAITING).join("three.json");
        let entry: Waiting = read(&path).unwrap();
        for asked_ns in [entry.asked_ns - 6_000_000_000, entry.asked_ns + 3_600_000_000_000] {
            write(&path, &Waiting { asked_ns, ..entry }).unwrap();
            drop(host.ask("four", 1, 5).unwrap());
            host.lives.pop();
        }
    }
}
