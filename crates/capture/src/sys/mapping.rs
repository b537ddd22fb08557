//! The guest's memory as this process sees it.
//!
//! Another process writes it, so no reference to it may exist: it is only ever copied or compared through raw
//! pointers. Callers see to it that the guest is stopped; what is copied while it runs may be torn, never out
//! of bounds.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use crate::PAGE_BYTES;

/// A whole shared file, mapped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping stays until it is dropped; it is only accessed by copies from and to raw pointers,
// bounds checked.
unsafe impl Send for Mapping {}
// SAFETY: as above; concurrent copies race only as other processes' writes do.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Map the first `bytes` of a file.
    pub(crate) fn of(file: impl AsFd, bytes: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that exists is replaced.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { start, bytes })
    }

    fn span(&self, offset: usize, length: usize) -> *mut u8 {
        assert!(
            offset.checked_add(length).is_some_and(|end| end <= self.bytes),
            "bytes {offset} to {offset}+{length} lie outside the {} bytes of the memory file",
            self.bytes
        );
        // SAFETY: the assertion keeps it inside of the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of` with this length, and nothing borrows from it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Append `length` bytes at `offset` to `target`.
pub(crate) fn extend_from(mapping: &Mapping, offset: usize, length: usize, target: &mut Vec<u8>) {
    let source = mapping.span(offset, length);
    target.reserve(length);
    // SAFETY: the source lies in the mapping, the target's spare room was just reserved, and they are
    // different memory. The bytes are initialised by the copy before the length covers them.
    unsafe {
        std::ptr::copy_nonoverlapping(source.cast_const(), target.as_mut_ptr().add(target.len()), length);
        target.set_len(target.len() + length);
    }
}

pub(crate) fn copy_to(mapping: &Mapping, offset: usize, content: &[u8]) {
    let target = mapping.span(offset, content.len());
    // SAFETY: the target lies in the mapping, and a slice of ours cannot overlap it.
    unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), target, content.len()) };
}

pub(crate) fn page_equals(mapping: &Mapping, offset: usize, content: &[u8; PAGE_BYTES]) -> bool {
    let page = mapping.span(offset, PAGE_BYTES);
    // SAFETY: both are PAGE_BYTES long and readable; memcmp keeps no reference.
    unsafe { libc::memcmp(page.cast_const().cast(), content.as_ptr().cast(), PAGE_BYTES) == 0 }
}
