//! What the machine's own kernel says of its disk: how many requests it had, and how long they took.
//!
//! `/sys/class/block/NAME/stat` (`Documentation/block/stat.rst`): requests, merged ones, sectors and milliseconds of
//! reads, then the same of writes. `iostat(1)` makes its `await` of these.

use std::fs;
use std::path::Path;

const BLOCK_DEVICES: &str = "/sys/class/block";
const READ: (usize, usize) = (0, 3);
const WRITTEN: (usize, usize) = (4, 7);
const US_IN_MS: u64 = 1000;

/// Reads and writes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    requests: u64,
    milliseconds: u64,
}

impl Statistics {
    /// Of a block device; `None` of a file, or where the kernel does not tell.
    pub fn of(path: &Path) -> Option<Self> {
        let name = fs::canonicalize(path).ok()?;
        Self::parse(&fs::read_to_string(Path::new(BLOCK_DEVICES).join(name.file_name()?).join("stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let sum = |read: usize, written: usize| Some(numbers.get(read)? + numbers.get(written)?);
        Some(Self { requests: sum(READ.0, WRITTEN.0)?, milliseconds: sum(READ.1, WRITTEN.1)? })
    }

    /// What was added since an earlier look, as counters of a trial.
    pub fn since(self, earlier: Self) -> [(&'static str, u64); 2] {
        let milliseconds = self.milliseconds.saturating_sub(earlier.milliseconds);
        [
            ("disk_statistics_requests", self.requests.saturating_sub(earlier.requests)),
            ("disk_statistics_us", milliseconds * US_IN_MS),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_added_up_and_taken_from_each_other() {
        let before = Statistics::parse("  10  0  80  7  2  1  16  5  0  9  12  0\n").unwrap();
        assert_eq!(before, Statistics { requests: 12, milliseconds: 12 });
        let after = Statistics::parse("110 0 880 57 2 1 16 5 0 9 12").unwrap();
        assert_eq!(after.since(before), [("disk_statistics_requests", 100), ("disk_statistics_us", 50_000)]);
        assert_eq!(Statistics::parse("1 2 3"), None);
        assert_eq!(Statistics::of(Path::new("/proc/self/stat")), None);
    }
}
