//! How long a thread ran and how long it waited for a CPU: `/proc/thread-self/schedstat`
//! (`Documentation/scheduler/sched-stats.rst`), in nanoseconds since the thread began.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Both only count up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTimes {
    pub run_ns: u64,
    /// Runnable, but on no CPU; a wait is added when it ends.
    pub run_delay_ns: u64,
}

/// Those of the calling thread; `None` if the kernel does not count (no `CONFIG_SCHED_INFO`).
pub fn of_this_thread() -> Option<ThreadTimes> {
    parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The file of any thread, which stays open: to open it anew for each reading takes several times as long. Of a thread
/// that has ended it tells nothing, also if its number comes again.
#[derive(Debug)]
pub struct ThreadFile(File);

impl ThreadFile {
    pub fn open(process: u32, thread: u32) -> Option<Self> {
        File::open(format!("/proc/{process}/task/{thread}/schedstat")).ok().map(Self)
    }

    pub fn times(&self) -> Option<ThreadTimes> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0).ok()?;
        parse(std::str::from_utf8(text.get(..length)?).ok()?)
    }
}

impl ThreadTimes {
    /// What was gained; none where it went backwards, as that of another thread of the same number does.
    pub fn since(self, before: Self) -> Option<Self> {
        let run_ns = self.run_ns.checked_sub(before.run_ns)?;
        Some(Self { run_ns, run_delay_ns: self.run_delay_ns.checked_sub(before.run_delay_ns)? })
    }
}

fn parse(schedstat: &str) -> Option<ThreadTimes> {
    let mut numbers = schedstat.split_ascii_whitespace().map(|number| number.parse().ok());
    Some(ThreadTimes { run_ns: numbers.next()??, run_delay_ns: numbers.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_time_stands_first_and_what_is_no_pair_of_numbers_is_unknown() {
        assert_eq!(parse("1200 34 5\n"), Some(ThreadTimes { run_ns: 1200, run_delay_ns: 34 }));
        assert_eq!(parse("1200\n"), None);
        assert_eq!(parse("0 x 5"), None);
    }
}
