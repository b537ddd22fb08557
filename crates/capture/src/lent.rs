//! Files that a QEMU reads which may open none of them by itself: it has another user than this process, and
//! folders on the way may be closed to it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::images::ImageError;

const READABLE_BY_ALL: u32 = 0o004;

/// Open a file for a process that inherits the descriptor and opens it anew as [`path_of`].
///
/// That asks nobody for the way to the file, but for the right to read it: one that not everybody has is lent
/// as a copy in memory. Initramfs are often for root's eyes, and a guest may read what it boots from.
pub(crate) fn lend(path: &Path) -> Result<OwnedFd, ImageError> {
    let failed = |source| ImageError::Read { path: path.into(), source };
    let mut file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & READABLE_BY_ALL != 0 {
        return Ok(file.into());
    }
    let copy = memfd_create("boot-file", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
    let mut copy = File::from(copy);
    io::copy(&mut file, &mut copy).map_err(failed)?;
    Ok(copy.into())
}

/// How a process names a descriptor that it inherited.
pub(crate) fn path_of(number: RawFd) -> PathBuf {
    format!("/proc/self/fd/{number}").into()
}

/// Descriptors that a QEMU inherits under their numbers.
#[derive(Default)]
pub(crate) struct Lent(Vec<OwnedFd>);

impl Lent {
    /// Add one, and give its number.
    pub(crate) fn add(&mut self, descriptor: impl Into<OwnedFd>) -> RawFd {
        let descriptor = descriptor.into();
        let number = descriptor.as_raw_fd();
        self.0.push(descriptor);
        number
    }

    pub(crate) fn into_all(self) -> Vec<OwnedFd> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_not_all_may_read_is_lent_as_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("initramfs");
        fs::write(&path, "content").unwrap();
        for (mode, is_copy) in [(0o644, false), (0o600, true), (0o660, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let lent = lend(&path).unwrap();
            let mut again = File::open(path_of(lent.as_raw_fd())).unwrap();
            let mut text = String::new();
            again.read_to_string(&mut text).unwrap();
            assert_eq!(text, "content", "{mode:o}");
            let status = again.metadata().unwrap();
            assert!(status.mode() & READABLE_BY_ALL != 0, "{mode:o}");
            assert_eq!(status.ino() != fs::metadata(&path).unwrap().ino(), is_copy, "{mode:o}");
        }
        assert!(matches!(lend(&folder.path().join("missing")), Err(ImageError::Read { .. })));
    }
}
