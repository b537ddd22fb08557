//! The folder of a member on its host: locked while it lives, so that one machine has one member there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
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
    #[error("{vm} has a member on this host already, in {folder} (hint: stealtime protect status {vm})")]
    Occupied { vm: String, folder: PathBuf },
    #[error("the folder of the member cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// Take the folder of a member; it is free again when the lock is dropped, or its process gone.
pub fn enter(folder: &Path, vm: &str) -> Result<OwnedFd, FolderError> {
    let path = folder.join(LOCK);
    for _ in 0..LOOKS {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let lock = match OpenOptions::new().create(true).truncate(false).write(true).open(&path) {
            // Whoever left has taken the folder away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            outcome => outcome?,
        };
        match take(&lock) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let (vm, folder) = (vm.to_owned(), folder.to_owned());
                return Err(FolderError::Occupied { vm, folder });
            }
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
        // Else it is that of a folder that was taken away meanwhile.
        if is_at(&lock, &path) {
            fs::write(folder.join(PID), format!("{}\n", std::process::id()))?;
            return Ok(File::into(lock));
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy).into())
}

fn is_at(file: &File, path: &Path) -> bool {
    let name = |found: &fs::Metadata| (found.dev(), found.ino());
    matches!((file.metadata(), fs::metadata(path)), (Ok(ours), Ok(there)) if name(&ours) == name(&there))
}

/// Leave nothing of a folder whose lock this process holds. It has another name first: whoever enters now makes a new
/// one, and nothing of that is removed.
pub fn leave_nothing(folder: &Path) {
    let aside = folder.with_file_name(format!(".left-{}", std::process::id()));
    if fs::rename(folder, &aside).is_ok() {
        let _ = fs::remove_dir_all(aside);
    }
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
        // What cannot be looked at may be there; a file beside the members' folders is none.
        Err(error) => return !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
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

pub fn new_life(host: &str) -> Result<MemberId, FolderError> {
    let mut life = [0; 8];
    getrandom(&mut life[..], GetRandomFlags::empty()).map_err(io::Error::from)?;
    Ok(MemberId::new(host, u64::from_ne_bytes(life)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_left_with_nothing_is_another_one_for_who_enters_next() {
        let host = tempfile::tempdir().unwrap();
        let folder = host.path().join("phone");
        let first = enter(&folder, "phone").unwrap();
        assert!(matches!(enter(&folder, "phone"), Err(FolderError::Occupied { .. })));
        // Somebody has opened the lock already, and waits for it.
        let waiting = File::open(folder.join(LOCK)).unwrap();
        leave_nothing(&folder);
        assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0);
        drop(first);
        flock(&waiting, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(!is_at(&waiting, &folder.join(LOCK)), "it is the lock of nothing");
        let _second = enter(&folder, "phone").unwrap();
        assert!(!is_at(&waiting, &folder.join(LOCK)), "there are two now");
        assert!(is_occupied(&folder));
    }

    #[test]
    fn a_host_has_as_many_members_as_folders_that_are_locked() {
        let host = tempfile::tempdir().unwrap();
        for name in ["host.json", "leaving", ".way-out-br0"] {
            fs::write(host.path().join(name), "").unwrap();
        }
        fs::create_dir(host.path().join("fax")).unwrap();
        fs::create_dir(host.path().join("phone")).unwrap();
        let lock = File::create(host.path().join("phone").join(LOCK)).unwrap();
        assert_eq!(count(host.path()), 0);
        take(&lock).unwrap();
        assert_eq!(count(host.path()), 1);
    }
}
