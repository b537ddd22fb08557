//! What the standard library lacks about files.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::check;

/// How many bytes an ordinary process may still write to the file system of a folder.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: an all-zero statvfs is valid.
    let mut told: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero, `told` is writable.
    check(unsafe { libc::statvfs(path.as_ptr(), &raw mut told) })?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

/// Reserves room for a file, so that no write to it finds the file system full.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open.
    check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) })
}

/// Of what transfers past the kernel's cache must be a multiple, if the kernel tells (6.1, `statx(2)`).
pub fn direct_alignment(file: &File) -> Option<u32> {
    // SAFETY: an all-zero statx is valid.
    let mut told: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is an empty string, which with the flag means the descriptor; `told` is writable.
    let result = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &raw mut told)
    };
    let is_told = result == 0 && told.stx_mask & libc::STATX_DIOALIGN != 0;
    is_told.then_some(told.stx_dio_offset_align).filter(|&align| align > 0)
}
