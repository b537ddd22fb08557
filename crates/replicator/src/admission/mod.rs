//! How many machines a host receives at a time, in which order, and what memory is promised to them.
//!
//! Standbys are processes of their own, which know nothing of each other but what is in the folder of the host: in each
//! member's folder, whose lock says whether it lives, what it was promised. Who decides holds a lock of the host
//! meanwhile: of two machines that come at once the second one counts the first.

mod promise;
mod queue;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

pub use promise::Promised;

use crate::member_folder;
use promise::Promise;
use queue::Queue;

const LOCK: &str = ".admission.lock";

/// Why a machine has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// Machines that are copied here now.
    pub copying: usize,
    /// Those that wait and are to come before it.
    pub before: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Criteria {
    /// Of the machine, against others: the smallest are first.
    pub order: u32,
    /// How many are copied at a time, at most.
    pub copies: usize,
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

    /// Say whether the machine is let in, or have it wait: of those that wait first those of the smallest order, then
    /// those that wait for the longest.
    pub fn decide(&self, criteria: Criteria, at: Duration) -> io::Result<Result<(), Busy>> {
        let (copying, queue) = (self.copying(), Queue::of(&self.host));
        let waiting = queue.asks(&self.vm, criteria.order, at);
        let before = queue.before(&self.vm, &waiting, at);
        // As many as have room before it are taken before it.
        if copying + before >= criteria.copies {
            queue.keep(&self.vm, &waiting)?;
            return Ok(Err(Busy { copying, before }));
        }
        queue.leave(&self.vm);
        Ok(Ok(()))
    }

    /// Let in the machine whose member has entered its folder, and promise it so many bytes.
    pub fn admit(self, bytes: u64, criteria: Criteria) -> io::Result<Admitted> {
        let promised = Promised::make(&self.host.join(&self.vm), Promise { bytes, copies: true })?;
        Ok(Admitted { promised, host: self.host, vm: self.vm, criteria })
    }

    /// How many others are copied now.
    fn copying(&self) -> usize {
        self.promises().iter().filter(|promise| promise.copies).count()
    }

    fn promises(&self) -> Vec<Promise> {
        let Ok(entries) = fs::read_dir(&self.host) else { return Vec::new() };
        let others = entries.flatten().filter(|entry| *entry.file_name() != *self.vm);
        others
            .filter_map(|entry| Some((Promise::of(&entry.path())?, entry.path())))
            .filter(|(_, folder)| member_folder::is_occupied(folder))
            .map(|(promise, _)| promise)
            .collect()
    }
}

/// A machine that was let in.
#[derive(Debug)]
pub struct Admitted {
    pub promised: Promised,
    host: PathBuf,
    vm: String,
    criteria: Criteria,
}

impl Admitted {
    /// All memory of its machine is here; the next one may come.
    pub fn copied(&mut self) {
        self.promised.copied();
    }

    /// Its copy does not get on: let others come before it, if some wait and there is no room for them; tells whether
    /// that is so. Then it is to end, and may ask again behind those.
    pub fn gives_way(&mut self, at: Duration) -> io::Result<bool> {
        let decision = Admission::begin(&self.host, &self.vm)?;
        let queue = Queue::of(&self.host);
        let has_room = decision.copying() + 1 < self.criteria.copies;
        if !self.promised.copies() || has_room || queue.expected(&self.vm, at).is_empty() {
            return Ok(false);
        }
        queue.keep(&self.vm, &Queue::gives_way(self.criteria.order, at))?;
        // Before the host is unlocked: another one that does not get on sees that there is room now.
        self.promised.copied();
        Ok(true)
    }
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Write a file that is whole whenever it is read.
fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(value)?)?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// A host that takes two at a time, with members that live.
    struct Host {
        folder: tempfile::TempDir,
        lives: BTreeMap<String, File>,
        seconds: f64,
    }

    impl Host {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap(), lives: BTreeMap::new(), seconds: 1000.0 }
        }

        fn now(&self) -> Duration {
            Duration::from_secs_f64(self.seconds)
        }

        fn ask(&mut self, vm: &str, order: u32) -> Result<Admitted, Busy> {
            self.ask_for(vm, MIB, order)
        }

        fn ask_for(&mut self, vm: &str, bytes: u64, order: u32) -> Result<Admitted, Busy> {
            let criteria = Criteria { order, copies: 2 };
            let admission = Admission::begin(self.folder.path(), vm).unwrap();
            admission.decide(criteria, self.now()).unwrap()?;
            let folder = self.folder.path().join(vm);
            fs::create_dir_all(&folder).unwrap();
            // Of an earlier life.
            self.lives.remove(vm);
            let lock = File::create(folder.join("lock")).unwrap();
            flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
            self.lives.insert(vm.to_owned(), lock);
            Ok(admission.admit(bytes, criteria).unwrap())
        }

        fn before(&mut self, vm: &str, order: u32) -> usize {
            self.ask(vm, order).unwrap_err().before
        }

        fn promised(&self, vm: &str) -> u64 {
            Admission::begin(self.folder.path(), vm).unwrap().promised_bytes() / MIB
        }
    }

    #[test]
    fn what_is_promised_to_others_is_counted_until_it_is_used_or_they_are_gone() {
        let mut host = Host::new();
        let mut first = host.ask_for("one", 100 * MIB, 0).unwrap();
        assert_eq!((host.promised("two"), host.promised("one")), (100, 0));
        let second = host.ask_for("two", 10 * MIB, 0).unwrap();
        assert_eq!(host.promised("three"), 110);
        // All memory is here, and most of it is zeros, which take none before the guest writes there.
        first.promised.uses(20 * MIB);
        first.copied();
        assert_eq!(host.promised("three"), 90);
        first.promised.uses(60 * MIB);
        assert_eq!(host.promised("three"), 50);
        // It runs here: what epochs are staged in is not needed any more.
        first.promised.needs(64 * MIB);
        assert_eq!(host.promised("three"), 14);
        first.promised.uses(200 * MIB);
        assert_eq!(host.promised("three"), 10);
        drop(second);
        assert_eq!(host.promised("three"), 0);
        first.promised.needs(300 * MIB);
        assert_eq!(host.promised("three"), 100);
        // As by kill -9: the promise stays, and nobody lives there.
        std::mem::forget(first);
        host.lives.clear();
        assert_eq!(host.promised("three"), 0);
    }

    #[test]
    fn no_more_are_copied_at_a_time_than_may_be_and_the_next_is_the_one_of_the_smallest_order() {
        let mut host = Host::new();
        let mut first = host.ask("one", 5).unwrap();
        let _second = host.ask("two", 5).unwrap();
        assert_eq!(host.ask("late", 7).unwrap_err(), Busy { copying: 2, before: 0 });
        assert_eq!(host.ask("important", 1).unwrap_err(), Busy { copying: 2, before: 0 });
        assert_eq!(host.ask("late", 7).unwrap_err(), Busy { copying: 2, before: 1 });
        first.copied();
        assert_eq!(host.ask("late", 7).unwrap_err(), Busy { copying: 1, before: 1 }, "one has room, not it");
        let _important = host.ask("important", 1).unwrap();
        assert_eq!(host.ask("late", 7).unwrap_err(), Busy { copying: 2, before: 0 });
    }

    #[test]
    fn nothing_is_left_of_a_machine_that_has_to_wait_but_its_place() {
        let mut host = Host::new();
        let _both = [host.ask("one", 5).unwrap(), host.ask("two", 5).unwrap()];
        host.ask("three", 5).unwrap_err();
        let names = fs::read_dir(host.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let machines: Vec<_> = names.filter(|name| !name.to_string_lossy().starts_with('.')).collect();
        assert_eq!(machines.len(), 2, "{machines:?}");
    }

    #[test]
    fn of_the_same_order_who_waits_for_the_longest_is_next_also_where_each_asks_a_dead_host_between() {
        let mut host = Host::new();
        let mut first = host.ask("one", 5).unwrap();
        let _second = host.ask("two", 5).unwrap();
        host.before("three", 5);
        host.seconds += 0.1;
        host.before("four", 5);
        // Another host gives no answer for 5 s, each time.
        for _ in 0..3 {
            host.seconds += 5.9;
            assert_eq!(host.before("three", 5), 0);
            host.seconds += 0.1;
            assert_eq!(host.before("four", 5), 1);
        }
        first.copied();
        host.seconds += 5.5;
        assert_eq!(host.before("four", 5), 1, "the other one is not late yet");
        host.seconds += 0.3;
        host.ask("three", 5).unwrap();
    }

    #[test]
    fn who_does_not_come_is_not_waited_for_and_keeps_its_place_for_a_while() {
        let mut host = Host::new();
        let mut first = host.ask("one", 5).unwrap();
        let _second = host.ask("two", 5).unwrap();
        host.before("three", 5);
        host.seconds += 0.1;
        host.before("four", 5);
        host.seconds += 0.6;
        host.before("three", 5);
        host.before("four", 5);
        first.copied();
        // It has found another host, perhaps.
        host.seconds += 1.8;
        assert_eq!(host.before("four", 5), 1);
        host.seconds += 0.4;
        let mut fourth = host.ask("four", 5).unwrap();
        // It comes after all, and is before one that has waited for less.
        host.seconds += 60.0;
        host.before("five", 5);
        assert_eq!(host.before("three", 5), 0);
        assert_eq!(host.before("five", 5), 1);
        host.seconds += 600.0;
        fourth.copied();
        let _fifth = host.ask("five", 5).unwrap();
        host.before("six", 5);
        // After a reboot times are earlier than those of before.
        host.seconds = 1.0;
        assert!(Queue::of(host.folder.path()).expected("seven", host.now()).is_empty());
    }

    #[test]
    fn machines_whose_copy_does_not_get_on_let_those_come_first_that_wait_and_then_take_turns() {
        let mut host = Host::new();
        let mut stuck = host.ask("stuck", 1).unwrap();
        let mut stuck_too = host.ask("stuck-too", 2).unwrap();
        assert!(!stuck.gives_way(host.now()).unwrap(), "nobody waits");
        host.before("other", 9);
        assert!(stuck.gives_way(host.now()).unwrap());
        assert!(!stuck_too.gives_way(host.now()).unwrap(), "there is room now");
        drop(stuck);
        host.seconds += 1.0;
        assert_eq!(host.before("stuck", 1), 1, "whatever its order is");
        let mut other = host.ask("other", 9).unwrap();
        host.seconds += 1.0;
        assert_eq!(host.before("stuck", 1), 0);
        assert!(stuck_too.gives_way(host.now()).unwrap());
        drop(stuck_too);
        host.seconds += 1.0;
        assert_eq!(host.before("stuck-too", 0), 1, "the other one gave way before it");
        let mut stuck = host.ask("stuck", 1).unwrap();
        other.copied();
        stuck.copied();
        assert!(!stuck.gives_way(host.now()).unwrap(), "all of it is here");
        host.ask("stuck-too", 2).unwrap();
    }
}
