//! By how much the ticks that are told here differ from those of the initial time namespace.
//!
//! A time namespace shifts `CLOCK_BOOTTIME` (`time_namespaces(7)`, since Linux 5.6), and with it the start times in
//! every `/proc/PID/stat` that is read inside (`do_task_stat()`, `fs/proc/array.c`), those of processes outside of
//! it as well. The same process thus started at another tick for each namespace that looks at it.

use std::fs;
use std::io;
use std::path::Path;

/// `1 / USER_HZ` of x86 (`include/asm-generic/param.h`).
const TICK_NS: i128 = 10_000_000;
const SECOND_NS: i128 = 1_000_000_000;

/// What this namespace adds to times since boot, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickOffset(i128);

impl TickOffset {
    /// That of the process in this folder of `/proc`, which must be the one that reads.
    ///
    /// # Errors
    /// It is in another time namespace than its children are to be, and only theirs is told.
    pub fn of(this: &Path) -> io::Result<Self> {
        let namespace = |name: &str| fs::read_link(this.join("ns").join(name)).ok();
        if namespace("time") != namespace("time_for_children") {
            return Err(io::Error::other("the offsets of its time namespace are not told to this process"));
        }
        match fs::read_to_string(this.join("timens_offsets")) {
            Ok(offsets) => {
                let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("timens_offsets: {offsets:?}"));
                parse(&offsets).map(Self).ok_or_else(bad)
            }
            // A kernel without time namespaces.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(0)),
            Err(error) => Err(error),
        }
    }

    /// Ticks that were read here, as the initial namespace has them.
    pub fn to_initial(self, ticks: u64) -> u64 {
        let initial = (i128::from(ticks) * TICK_NS - self.0).div_euclid(TICK_NS);
        u64::try_from(initial).unwrap_or(0)
    }

    /// Whether ticks that were read here are those of a mark. An offset need not be a whole number of ticks: rounded
    /// twice, by who marked and by who reads, they may be one apart. No id comes again within a tick.
    pub fn is_same(self, read_here: u64, marked: u64) -> bool {
        self.to_initial(read_here).abs_diff(marked) <= 1
    }
}

/// `boottime <seconds> <nanoseconds>`, the latter from 0 on.
fn parse(offsets: &str) -> Option<i128> {
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?;
    let numbers: Vec<i128> = line.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[seconds, nanoseconds] = numbers.as_slice() else { return None };
    Some(seconds * SECOND_NS + nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn process(offsets: Option<&str>, for_children: &str) -> tempfile::TempDir {
        let this = tempfile::tempdir().unwrap();
        fs::create_dir(this.path().join("ns")).unwrap();
        symlink("time:[4026531834]", this.path().join("ns/time")).unwrap();
        symlink(for_children, this.path().join("ns/time_for_children")).unwrap();
        if let Some(offsets) = offsets {
            fs::write(this.path().join("timens_offsets"), offsets).unwrap();
        }
        this
    }

    #[test]
    fn ticks_are_those_of_the_initial_namespace_whoever_reads_them() {
        let of = |offsets| TickOffset::of(process(Some(offsets), "time:[4026531834]").path()).unwrap();
        let initial = of("monotonic           0         0\nboottime            0         0\n");
        let ahead = of("monotonic           5         0\nboottime         1000         0\n");
        let behind = of("monotonic           0         0\nboottime           -3 995000000\n");
        assert_eq!([initial, ahead, behind].map(|offset| offset.to_initial(100_031)), [100_031, 31, 100_231]);
        for (offset, read) in [(initial, 431), (ahead, 100_431), (behind, 230), (behind, 231)] {
            assert!(offset.is_same(read, 431), "{offset:?} {read}");
        }
        assert!(!ahead.is_same(431, 431) && !initial.is_same(433, 431));
    }

    #[test]
    fn a_kernel_without_time_namespaces_has_no_offset() {
        let this = tempfile::tempdir().unwrap();
        assert_eq!(TickOffset::of(this.path()).unwrap(), TickOffset(0));
    }

    #[test]
    fn what_is_not_told_of_the_own_namespace_is_not_guessed() {
        let offsets = "monotonic 0 0\nboottime 1000 0\n";
        assert!(TickOffset::of(process(Some(offsets), "time:[4026532177]").path()).is_err());
        assert!(TickOffset::of(process(Some("boottime 1\n"), "time:[4026531834]").path()).is_err());
    }
}
