//! Where the kernel's events are: a tracefs that is mounted, or one that is mounted for this process alone.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::error::TraceError;

/// Where it usually is; the second one until Linux 4.1, and where debugfs is mounted also today.
const USUAL: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Present in the root of every tracefs.
const CLOCK: &str = "trace_clock";

/// A tracefs that can be used.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// A mount that no folder shows: it goes away with the process, also with a killed one.
    _private: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds or mounts it.
    pub fn open() -> Result<Self, TraceError> {
        let mounted = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let listed = mounted_at(&mounted).into_iter().map(PathBuf::from);
        for root in USUAL.iter().map(PathBuf::from).chain(listed) {
            if File::open(root.join(CLOCK)).is_ok() {
                return Ok(Self { root, _private: None });
            }
        }
        Self::mount_privately().map_err(|source| TraceError::Tracefs { source })
    }

    fn mount_privately() -> io::Result<Self> {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOEXEC | MountAttrFlags::MOUNT_ATTR_NOSUID;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        File::open(root.join(CLOCK))?;
        Ok(Self { root, _private: Some(mount) })
    }

    pub fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.root.join(file)
    }
}

/// The folders that a list of mounts (`/proc/self/mounts`) has for tracefs.
fn mounted_at(mounts: &str) -> Vec<&str> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|fields| fields.get(2) == Some(&"tracefs")).filter_map(|fields| fields.get(1).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_anywhere_is_found() {
        let mounts = "sysfs /sys sysfs rw 0 0\nnodev /mnt tracefs rw,relatime 0 0\ntracefs /t x tracefs 0 0\n";
        assert_eq!(mounted_at(mounts), ["/mnt"]);
    }
}
