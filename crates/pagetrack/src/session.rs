//! What the library knows in the process that it was loaded into: which file to look for and whom to tell.

use std::ffi::OsStr;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::handover::{Report, Step};

static SESSION: OnceLock<Session> = OnceLock::new();

/// Set once when the library is loaded, if its environment is in order.
pub(crate) struct Session {
    file: FileIdentity,
    socket: OwnedFd,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    fn parse(text: &str) -> Option<Self> {
        let (device, inode) = text.split_once(':')?;
        Some(Self { device: device.parse().ok()?, inode: inode.parse().ok()? })
    }
}

/// Begin to look for the file and say so. `socket` is taken over.
pub(crate) fn begin(file: &OsStr, socket: OwnedFd) {
    let Some(file) = file.to_str().and_then(FileIdentity::parse) else { return };
    let session = SESSION.get_or_init(|| Session { file, socket });
    let _ = session.tell(&Report::Loaded, &[]);
}

/// The session that looks for this file, if one does.
pub(crate) fn looking_for(file: BorrowedFd<'_>) -> Option<&'static Session> {
    let session = SESSION.get()?;
    let status = fstat(file).ok()?;
    (FileIdentity { device: status.st_dev, inode: status.st_ino } == session.file).then_some(session)
}

impl Session {
    /// Hands out what came of registering a mapping of the file.
    pub(crate) fn tell_registered(&self, address: u64, length: u64, registered: Result<OwnedFd, (Step, Errno)>) {
        // The descriptor is closed here; the one on its way keeps the registration alive, and so does the
        // receiver.
        let sent = registered.and_then(|userfaultfd| {
            self.tell(&Report::Tracked { address, length }, &[userfaultfd.as_fd()]).map_err(|errno| (Step::Send, errno))
        });
        if let Err((step, errno)) = sent {
            let _ = self.tell(&Report::Failed { step, errno: errno.raw_os_error() }, &[]);
        }
    }

    fn tell(&self, report: &Report, descriptors: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::NOBUFS);
        }
        let text = report.to_string();
        // Never blocks QEMU and never kills it: the other side may be gone.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(text.as_bytes())], &mut control, flags).map(drop)
    }
}

/// Give `LD_PRELOAD` without the entries whose file name is ours. Entries are split by colons and spaces
/// (ld.so(8)).
pub(crate) fn without_library(preload: &OsStr, library_name: &OsStr) -> std::ffi::OsString {
    let kept: Vec<&[u8]> = preload
        .as_bytes()
        .split(|&byte| byte == b':' || byte == b' ')
        .filter(|entry| !entry.is_empty() && Path::new(OsStr::from_bytes(entry)).file_name() != Some(library_name))
        .collect();
    std::ffi::OsString::from_vec(kept.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_device_and_inode() {
        assert_eq!(FileIdentity::parse("26:4711"), Some(FileIdentity { device: 26, inode: 4711 }));
        for text in ["", "26", "26:", ":1", "26:-1", "a:b"] {
            assert_eq!(FileIdentity::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_our_own_entry_leaves_the_preload_list() {
        let ours = OsStr::new("libours.so");
        for (before, after) in [
            ("/a/libours.so", ""),
            ("/x/liba.so:/a/libours.so /y/libb.so", "/x/liba.so:/y/libb.so"),
            ("/x/libours.so.other", "/x/libours.so.other"),
        ] {
            assert_eq!(without_library(OsStr::new(before), ours), after, "{before}");
        }
    }
}
