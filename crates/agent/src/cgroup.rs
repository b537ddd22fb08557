//! Joining a cgroup, of either version: both have a file `cgroup.procs` to which a process writes its number.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A cgroup that this process could not join.
#[derive(Debug, thiserror::Error)]
#[error("the cgroup {} cannot be joined: {source}", path.display())]
pub struct CgroupError {
    path: PathBuf,
    source: io::Error,
}

impl CgroupError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self.source.kind() {
            io::ErrorKind::NotFound => {
                "make the group first; it must be a folder in a mounted cgroup hierarchy".to_owned()
            }
            io::ErrorKind::PermissionDenied => "run as root, or own the group and its parent".to_owned(),
            _ => "a cpuset needs cpuset.cpus and cpuset.mems before anyone may join; a threaded or inner group of \
                  version 2 takes no processes; with RT_GROUP_SCHED a SCHED_FIFO process needs a cpu.rt_runtime_us there"
                .to_owned(),
        }
    }
}

/// Puts the calling process, and what it starts from now on, into a cgroup.
pub fn join(path: &Path) -> Result<(), CgroupError> {
    // Opened without creating it: in a folder that is no cgroup a file would be made and nothing be joined.
    let joined = fs::OpenOptions::new()
        .write(true)
        .open(path.join("cgroup.procs"))
        .and_then(|mut file| io::Write::write_all(&mut file, std::process::id().to_string().as_bytes()));
    joined.map_err(|source| CgroupError { path: path.to_owned(), source })
}
