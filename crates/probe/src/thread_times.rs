//! How long a thread ran and how long it waited for a CPU: `/proc/thread-self/schedstat`
//! (`Documentation/scheduler/sched-stats.rst`), in nanoseconds since the thread began.

use std::fs;

/// Both only count up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTimes {
    pub run_ns: u64,
    /// Runnable, but on no CPU; a wait is added when it ends.
    pub run_delay_ns: u64,
}

/// Those of the calling thread; `None` if the kernel does not count (no `CONFIG_SCHED_INFO`).
pub fn of_this_thread() -> Option<ThreadTimes> {
    parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
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
