//! How much memory this process may still use: the least of what the machine has and what each of the memory
//! groups around the process leaves, since whoever takes more is killed, not refused.
//!
//! `MemAvailable` is the kernel's estimate of what can be had without swapping (`proc_meminfo(5)`, since 3.14).
//! A group leaves its limit less what it holds; of that the inactive file cache counts as free, as it is given
//! up before anybody is killed (so the working set of the kubelet, `memory.usage - inactive_file`). Groups of
//! version 2 have `memory.max` and `memory.high` (a process above that is throttled until it stands still), those
//! of version 1 `memory.limit_in_bytes`. On a hybrid host both kinds of tree are mounted, the controller is in
//! one; all are walked, from the process's own group up to where the tree is mounted.

mod cgroup;
mod lock;

use std::fs;
use std::io;
use std::path::Path;

pub use lock::lockable_bytes;

/// What may still be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    pub bytes: u64,
    /// What sets it: `MemAvailable`, or the file of a group that holds the limit.
    pub limit: String,
}

impl Room {
    /// Refuses what would take more than this.
    pub fn refuse_more(&self, bytes: u64) -> io::Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let text = format!("{} bytes may still be used by {}", self.bytes, self.limit);
        Err(io::Error::new(io::ErrorKind::OutOfMemory, text))
    }
}

/// Reads what this process may still use; `None` where neither the kernel nor a group says anything.
///
/// # Arguments
/// * `root`: where `/proc` and `/sys` are; another than `/` for files that were made up.
pub fn room(root: &Path) -> Option<Room> {
    let machine = available_bytes(root).map(|bytes| Room { bytes, limit: "MemAvailable".to_owned() });
    machine.into_iter().chain(cgroup::rooms(root)).min_by_key(|room| room.bytes)
}

/// The same in bytes; unknown counts as enough.
pub fn usable_bytes() -> u64 {
    room(Path::new("/")).map_or(u64::MAX, |room| room.bytes)
}

/// Refuses what would take more than may still be used: the kernel would hand it out page by page, and then kill.
pub fn refuse_more_than_there_is(bytes: u64) -> io::Result<()> {
    room(Path::new("/")).map_or(Ok(()), |room| room.refuse_more(bytes))
}

fn available_bytes(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim_end();
    kibibytes.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    const MIB: u64 = 1 << 20;
    const VERSION_2: &str = "31 23 0:27 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const HYBRID: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                          41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let meminfo = [("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n")];
        for (path, text) in meminfo.iter().chain(files) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn room_of(files: &[(&str, &str)]) -> (u64, String) {
        let root = machine(files);
        let Room { bytes, limit } = room(root.path()).unwrap();
        (bytes, limit)
    }

    #[test]
    fn without_groups_the_machine_is_the_limit() {
        assert_eq!(room_of(&[]), (4096 * MIB, "MemAvailable".to_owned()));
        let files = [("proc/meminfo", "MemTotal: 8388608 kB\n")];
        assert_eq!(room(machine(&files).path()), None, "an old kernel does not say what is available");
    }

    #[test]
    fn the_narrowest_of_all_groups_above_counts() {
        let files = [
            ("proc/self/cgroup", "0::/pods/one/main\n"),
            ("proc/self/mountinfo", VERSION_2),
            ("sys/fs/cgroup/pods/memory.max", "629145600\n"),
            ("sys/fs/cgroup/pods/memory.current", "524288000\n"),
            ("sys/fs/cgroup/pods/memory.stat", "anon 1\nfile 9\ninactive_file 0\n"),
            ("sys/fs/cgroup/pods/one/memory.max", "max\n"),
            ("sys/fs/cgroup/pods/one/memory.current", "104857600\n"),
            ("sys/fs/cgroup/pods/one/main/memory.max", "209715200\n"),
            ("sys/fs/cgroup/pods/one/main/memory.current", "1048576\n"),
        ];
        assert_eq!(room_of(&files), (100 * MIB, "/sys/fs/cgroup/pods/memory.max".to_owned()));
    }

    #[test]
    fn what_throttles_counts_like_what_kills() {
        let files = [
            ("proc/self/cgroup", "0::/one\n"),
            ("proc/self/mountinfo", VERSION_2),
            ("sys/fs/cgroup/one/memory.max", "209715200\n"),
            ("sys/fs/cgroup/one/memory.high", "104857600\n"),
            ("sys/fs/cgroup/one/memory.current", "20971520\n"),
        ];
        assert_eq!(room_of(&files), (80 * MIB, "/sys/fs/cgroup/one/memory.high".to_owned()));
    }

    #[test]
    fn file_cache_that_nobody_uses_is_free() {
        let files = [
            ("proc/self/cgroup", "0::/one\n"),
            ("proc/self/mountinfo", VERSION_2),
            ("sys/fs/cgroup/one/memory.max", "209715200\n"),
            ("sys/fs/cgroup/one/memory.current", "209715200\n"),
            ("sys/fs/cgroup/one/memory.stat", "inactive_anon 5\ninactive_file 52428800\n"),
        ];
        assert_eq!(room_of(&files).0, 50 * MIB);
    }

    #[test]
    fn a_group_over_its_limit_leaves_nothing() {
        let files = [
            ("proc/self/cgroup", "0::/one\n"),
            ("proc/self/mountinfo", VERSION_2),
            ("sys/fs/cgroup/one/memory.max", "209715200\n"),
            ("sys/fs/cgroup/one/memory.current", "229715200\n"),
        ];
        assert_eq!(room_of(&files).0, 0);
    }

    #[test]
    fn on_a_hybrid_host_the_tree_with_the_controller_counts() {
        let files = [
            ("proc/self/cgroup", "4:memory:/jobs/7\n1:cpu:/\n0::/other\n"),
            ("proc/self/mountinfo", HYBRID),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "524288000\n"),
            ("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "419430400\n"),
            ("sys/fs/cgroup/memory/jobs/memory.stat", "inactive_file 0\ntotal_inactive_file 10485760\n"),
            ("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "209715200\n"),
            ("sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "0\n"),
        ];
        assert_eq!(room_of(&files), (110 * MIB, "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes".to_owned()));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_root_of_its_mount() {
        // Without a cgroup namespace the path is the host's; the mount shows only what lies below it.
        let mounted = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let files = [
            ("proc/self/cgroup", "4:memory:/docker/abc\n"),
            ("proc/self/mountinfo", mounted),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "209715200\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n"),
        ];
        assert_eq!(room_of(&files).0, 100 * MIB);
        // Moved out of its namespace's root, or mounted by another namespace: what is seen at the mount counts.
        let outside = [("proc/self/cgroup", "4:memory:/../elsewhere\n"), files[1], files[2], files[3]];
        assert_eq!(room_of(&outside).0, 100 * MIB);
    }

    #[test]
    fn a_mount_point_with_a_space_is_found() {
        let files = [
            ("proc/self/cgroup", "0::/one\n"),
            ("proc/self/mountinfo", "31 23 0:27 / /my\\040groups rw - cgroup2 cgroup2 rw\n"),
            ("my groups/one/memory.max", "209715200\n"),
            ("my groups/one/memory.current", "0\n"),
        ];
        assert_eq!(room_of(&files).0, 200 * MIB);
    }
}
