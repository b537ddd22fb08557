//! Machines that were sent away by a host and ask again, in the folder of the host.
//!
//! How soon one asks again depends on the other hosts that it asks meanwhile: on each that is silently dead it waits
//! for 5 s. So how long it took the last time is kept: one that is later than that is not waited for, as it may have
//! found another host or ended, and keeps its place for a while all the same.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{read, write};
use crate::clock::nanoseconds;

/// No machine has a name with a dot in front.
const FOLDER: &str = ".waiting";

/// How soon a machine is expected that has asked once: there may be one host among its others that is silently dead.
const FIRST: Duration = Duration::from_secs(6);

/// It may be later than the last time by half of that, and by this.
const LATE: Duration = Duration::from_secs(1);

/// No machine is waited for as if it took longer than this.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a machine that does not come keeps its place.
const REMEMBERED: Duration = Duration::from_secs(120);

/// A machine that waits. All times are nanoseconds of the monotonic clock, which nobody sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Waiting {
    order: u32,
    /// When it began to wait, and when it last asked.
    since_ns: u64,
    asked_ns: u64,
    /// How long it took to ask again.
    every_ns: u64,
    /// Whether it gave up its place, as its copy did not get on.
    gave_way: bool,
}

impl Waiting {
    /// Smaller ones are first. Of those that gave way, whoever did so first, whatever its order: two such machines take
    /// turns.
    fn rank(&self) -> (bool, u32, u64) {
        (self.gave_way, if self.gave_way { 0 } else { self.order }, self.since_ns)
    }

    fn is_expected(&self, at: Duration) -> bool {
        self.age(at).is_some_and(|age| age <= Duration::from_nanos(self.every_ns).mul_f64(1.5) + LATE)
    }

    fn is_remembered(&self, at: Duration) -> bool {
        self.age(at).is_some_and(|age| age <= REMEMBERED)
    }

    /// How long ago it asked; None: it is from before a reboot.
    fn age(&self, at: Duration) -> Option<Duration> {
        nanoseconds(at).checked_sub(self.asked_ns).map(Duration::from_nanos)
    }
}

pub(super) struct Queue(PathBuf);

impl Queue {
    pub fn of(host_folder: &Path) -> Self {
        Self(host_folder.join(FOLDER))
    }

    /// A machine that asks now, with the place that it had.
    pub fn asks(&self, vm: &str, order: u32, at: Duration) -> Waiting {
        let at_ns = nanoseconds(at);
        match read::<Waiting>(&self.entry(vm)).filter(|before| before.is_remembered(at)) {
            Some(before) => {
                let every_ns = (at_ns - before.asked_ns).min(nanoseconds(LONGEST));
                Waiting { order, asked_ns: at_ns, every_ns, ..before }
            }
            None => Self::new_one(order, at, false),
        }
    }

    /// One that goes behind all that wait.
    pub fn gives_way(order: u32, at: Duration) -> Waiting {
        Self::new_one(order, at, true)
    }

    fn new_one(order: u32, at: Duration, gave_way: bool) -> Waiting {
        let at_ns = nanoseconds(at);
        Waiting { order, since_ns: at_ns, asked_ns: at_ns, every_ns: nanoseconds(FIRST), gave_way }
    }

    /// How many others are waited for that come before this one.
    pub fn before(&self, vm: &str, waiting: &Waiting, at: Duration) -> usize {
        self.expected(vm, at).iter().filter(|other| other.rank() < waiting.rank()).count()
    }

    /// Other machines that are waited for; those that are forgotten are removed.
    pub fn expected(&self, vm: &str, at: Duration) -> Vec<Waiting> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let mine = self.entry(vm);
        let is_other = |path: &PathBuf| path.extension().is_some_and(|it| it == "json") && *path != mine;
        let others = entries.flatten().map(|entry| entry.path()).filter(is_other);
        others
            .filter_map(|path| {
                let waiting = read::<Waiting>(&path)?;
                if !waiting.is_remembered(at) {
                    let _ = fs::remove_file(&path);
                }
                waiting.is_expected(at).then_some(waiting)
            })
            .collect()
    }

    pub fn keep(&self, vm: &str, waiting: &Waiting) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        write(&self.entry(vm), waiting)
    }

    pub fn leave(&self, vm: &str) {
        let _ = fs::remove_file(self.entry(vm));
    }

    fn entry(&self, vm: &str) -> PathBuf {
        self.0.join(format!("{vm}.json"))
    }
}
