//! The CPU quotas that hold for this process: CFS bandwidth of its own group and those above it, in cgroups of
//! both versions.
//!
//! A thread that has used up the quota of a period is stopped by the kernel until the next one begins
//! (`Documentation/scheduler/sched-bwc.rst`). In a sample it looks as if somebody had taken the CPU. Threads of
//! `SCHED_FIFO` are not bound.

use std::fs;
use std::path::{Path, PathBuf};

/// A quota and the group that it holds in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    pub quota_us: u64,
    pub period_us: u64,
    pub file: PathBuf,
    /// What the kernel has counted since the group was made; absent where it does not say.
    pub stopped: Option<Stopped>,
}

/// What a quota has done to the threads of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    pub times: u64,
    /// Of all CPUs together.
    pub ns: u64,
}

impl Quota {
    /// How long a thread that always wants to run is stopped in each period; 0 if it alone cannot use it up.
    pub fn pause_us(&self) -> u64 {
        self.period_us.saturating_sub(self.quota_us)
    }

    /// What it has done since an earlier reading.
    pub fn stopped_since(&self, before: &[Self]) -> Option<Stopped> {
        let earlier = before.iter().find(|one| one.file == self.file)?.stopped?;
        let now = self.stopped?;
        Some(Stopped { times: now.times.checked_sub(earlier.times)?, ns: now.ns.checked_sub(earlier.ns)? })
    }
}

/// The quotas that hold for this process, its own group's first.
pub fn of_this_process() -> Vec<Quota> {
    quotas_below(Path::new("/"))
}

fn quotas_below(root: &Path) -> Vec<Quota> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    // The controller is in one tree, which may be mounted more than once.
    let tree = |version: Version| {
        let mut mounts = mounts.iter().filter(|mount| mount.version == version);
        mounts.find_map(|mount| Some(mount.quotas(root, &mount.group_of(&groups)?)))
    };
    [Version::Two, Version::One].into_iter().filter_map(tree).flatten().collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where a tree of groups with the cpu controller is seen.
struct Mount {
    version: Version,
    /// The group that is seen at `point`: in a container, its own.
    group: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// Parses a line of `mountinfo` (`proc_pid_mountinfo(5)`); nothing but trees that may have the controller.
    fn parse(line: &str) -> Option<Self> {
        let (mounted, kind) = line.split_once(" - ")?;
        let mut mounted = mounted.split(' ').skip(3);
        let (group, point) = (mounted.next()?, mounted.next()?);
        let mut kind = kind.split(' ');
        let version = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|option| option == "cpu") => Version::One,
            _ => return None,
        };
        Some(Self { version, group: unescape(group), point: unescape(point) })
    }

    /// The group of a `/proc/PID/cgroup` in this tree, as far as it can be seen from here.
    fn group_of(&self, groups: &str) -> Option<PathBuf> {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_here = match self.version {
                Version::One => controllers.split(',').any(|controller| controller == "cpu"),
                Version::Two => controllers.is_empty(),
            };
            is_here.then_some(path)
        })?;
        let below = Path::new(path).strip_prefix(&self.group).ok()?;
        (!below.starts_with("..")).then(|| below.to_path_buf())
    }

    fn quotas(&self, root: &Path, group: &Path) -> Vec<Quota> {
        let point = self.point.strip_prefix("/").unwrap_or(&self.point);
        // `ancestors` of a relative path end with the empty one: the group at the mount point itself.
        group.ancestors().filter_map(|above| self.quota_in(root, &Path::new("/").join(point).join(above))).collect()
    }

    fn quota_in(&self, root: &Path, folder: &Path) -> Option<Quota> {
        let read = |name: &str| {
            let file = folder.join(name);
            fs::read_to_string(root.join(file.strip_prefix("/").unwrap_or(&file))).ok()
        };
        let (name, quota, period) = match self.version {
            Version::Two => {
                let text = read("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ')?;
                ("cpu.max", quota.to_owned(), period.to_owned())
            }
            Version::One => ("cpu.cfs_quota_us", read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        };
        // Without a limit v2 says `max`, v1 -1.
        let (quota_us, period_us) = (quota.trim().parse().ok()?, period.trim().parse().ok().filter(|us| *us > 0)?);
        let stopped = read("cpu.stat").and_then(|text| self.stopped(&text));
        Some(Quota { quota_us, period_us, file: folder.join(name), stopped })
    }

    fn stopped(&self, stat: &str) -> Option<Stopped> {
        let count = |key: &str| {
            stat.lines().filter_map(|line| line.split_once(' ')).find(|(name, _)| *name == key)?.1.trim().parse().ok()
        };
        let ns = match self.version {
            Version::One => count("throttled_time")?,
            Version::Two => count("throttled_usec").map(|us: u64| us * 1000)?,
        };
        Some(Stopped { times: count("nr_throttled")?, ns })
    }
}

/// The kernel writes space, tab, newline and backslash in paths as three octal digits.
fn unescape(path: &str) -> PathBuf {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (code, letter)| path.replace(code, letter))
        .into()
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    /// A machine's files, removed with it.
    struct Fabricated(PathBuf);

    impl Fabricated {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir().join(format!("stealtime-quota-{}-{name}", process::id()));
            for (path, text) in files {
                let path = folder.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(folder)
        }
    }

    impl Drop for Fabricated {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    const V2: &str = "40 30 0:38 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn own_quota_and_those_above_are_read() {
        let machine = Fabricated::new(
            "v2",
            &[
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/system.slice/measure.service\n"),
                ("sys/fs/cgroup/cpu.stat", "usage_usec 1\n"),
                ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
                ("sys/fs/cgroup/system.slice/measure.service/cpu.max", "20000 100000\n"),
                (
                    "sys/fs/cgroup/system.slice/measure.service/cpu.stat",
                    "usage_usec 9\nnr_periods 50\nnr_throttled 49\nthrottled_usec 3920000\n",
                ),
            ],
        );
        let quotas = quotas_below(&machine.0);
        assert_eq!(quotas.iter().map(|quota| quota.quota_us).collect::<Vec<_>>(), [20_000, 150_000]);
        assert_eq!(quotas[0].file, Path::new("/sys/fs/cgroup/system.slice/measure.service/cpu.max"));
        assert_eq!(quotas[0].stopped, Some(Stopped { times: 49, ns: 3_920_000_000 }));
        assert_eq!((quotas[0].pause_us(), quotas[1].pause_us(), quotas[1].stopped), (80_000, 0, None));
    }

    #[test]
    fn no_limit_is_no_quota() {
        let machine = Fabricated::new(
            "max",
            &[
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/a\n"),
                ("sys/fs/cgroup/a/cpu.max", "max 100000\n"),
            ],
        );
        assert_eq!(quotas_below(&machine.0), []);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_mount_of_version_1() {
        let machine = Fabricated::new(
            "v1",
            &[
                (
                    "proc/self/mountinfo",
                    "50 40 0:33 /docker/4f /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                     51 40 0:34 / /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
                ),
                ("proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/docker/4f/inner\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "25000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 50000000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n"),
                ("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n"),
            ],
        );
        let (quotas, stopped) = (quotas_below(&machine.0), Some(Stopped { times: 2, ns: 50_000_000 }));
        let file = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us");
        assert_eq!(quotas, [Quota { quota_us: 25_000, period_us: 50_000, file, stopped }]);
    }

    #[test]
    fn a_group_that_is_not_seen_from_here_has_no_quota_to_tell() {
        let machine = Fabricated::new(
            "hidden",
            &[
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/../other\n"),
                ("sys/fs/cgroup/other/cpu.max", "20000 100000\n"),
            ],
        );
        assert_eq!(quotas_below(&machine.0), []);
    }

    #[test]
    fn what_a_quota_did_is_the_difference_of_two_readings() {
        let at = |times, ns| Quota {
            quota_us: 1,
            period_us: 2,
            file: PathBuf::from("/a/cpu.max"),
            stopped: Some(Stopped { times, ns }),
        };
        assert_eq!(at(7, 900).stopped_since(&[at(5, 100)]), Some(Stopped { times: 2, ns: 800 }));
        assert_eq!(at(1, 900).stopped_since(&[at(5, 100)]), None, "another group of the same name");
        assert_eq!(at(1, 900).stopped_since(&[]), None);
    }
}
