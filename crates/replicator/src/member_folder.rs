//! The folder of a member on its host: locked while it lives, so that one machine has one member there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::rand::{GetRandomFlags, getrandom};
use stealtime_succession::MemberId;
use tokio::net::UnixListener;

use crate::control;
use crate::spec::Spec;

/// Locked by the member that lives in the folder.
const LOCK: &str = "lock";
const PID: &str = "pid";

/// How long a look at who lives in a folder takes at the most, and how many of them are waited for.
const LOOK: Duration = Duration::from_millis(2);
const LOOKS: u32 = 5;

/// Why a folder cannot be lived in.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another member of the same machine lives there.
    #[error("{vm} has a member on this host already, in {folder} (hint: stealtime protect status {vm})")]
    Occupied { vm: String, folder: PathBuf },
    /// The file system says no.
    #[error("the folder of the member cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Take the folder of the spec; it is free again when the lock is dropped, or its process gone.
pub fn enter(spec: &Spec) -> Result<OwnedFd, FolderError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&spec.folder)?;
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(spec.folder.join(LOCK))?;
    match take(&lock) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let (vm, folder) = (spec.machine.name.clone(), spec.folder.clone());
            return Err(FolderError::Occupied { vm, folder });
        }
        Err(errno) => return Err(io::Error::from(errno).into()),
    }
    fs::write(spec.folder.join(PID), format!("{}\n", std::process::id()))?;
    Ok(File::into(lock))
}

/// Take a lock that somebody may hold for the moment of a look.
fn take(lock: &File) -> rustix::io::Result<()> {
    for _ in 0..LOOKS {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOOK),
            outcome => return outcome,
        }
    }
    flock(lock, FlockOperation::NonBlockingLockExclusive)
}

/// Whether a member lives in a folder. Nothing is made or changed there.
pub fn is_occupied(folder: &Path) -> bool {
    let lock = match OpenOptions::new().write(true).open(folder.join(LOCK)) {
        Ok(lock) => lock,
        // What cannot be looked at may be there.
        Err(error) => return error.kind() != io::ErrorKind::NotFound,
    };
    matches!(flock(&lock, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK))
}

/// How many members live in the folder of a host.
pub fn count(host_folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(host_folder) else { return 0 };
    entries.flatten().filter(|entry| is_occupied(&entry.path())).count()
}

/// Make the control socket there.
pub fn listen(spec: &Spec) -> Result<UnixListener, FolderError> {
    Ok(control::listen(&spec.folder)?)
}

/// Name this life of a member.
pub fn new_life(host: &str) -> Result<MemberId, FolderError> {
    let mut life = [0; 8];
    getrandom(&mut life[..], GetRandomFlags::empty()).map_err(io::Error::from)?;
    Ok(MemberId::new(host, u64::from_ne_bytes(life)))
}
