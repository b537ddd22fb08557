//! The guest's memory: a shared file that QEMU maps as its RAM and this process maps too.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

#[cfg(test)]
use rustix::fs::{FallocateFlags, fallocate};
use rustix::fs::{MemfdFlags, SeekFrom, fstat, memfd_create, seek};
use rustix::io::Errno;

use crate::pages::{PAGE_BYTES, PageRange, StagedPages, append, count_pages};
use crate::sys::{Mapping, copy_to, extend_from, page_equals};

/// Why the memory of a guest cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum RamError {
    #[error("the guest's memory {path} cannot be {action}")]
    File { path: PathBuf, action: &'static str, source: io::Error },
    #[error("the guest's memory cannot have {bytes} bytes: it must be a multiple of {PAGE_BYTES}, and not 0")]
    Size {
        /// What was asked for, or what the file has.
        bytes: u64,
    },
    #[error("page {index} is outside of the guest's memory of {pages} pages")]
    Outside { index: u64, pages: u64 },
}

/// A guest's memory. QEMU's own writes to it appear here at once: read it while the guest is stopped.
pub struct RamFile {
    file: File,
    path: PathBuf,
    pages: u64,
    mapping: Mapping,
}

impl RamFile {
    /// Memory without a name in any file system: nothing of it is left when the last process that has it is
    /// gone. `name` is only shown in `/proc`.
    pub fn anonymous(name: &str, bytes: u64) -> Result<Self, RamError> {
        let path = PathBuf::from(format!("memfd:{name}"));
        let failed = |source: Errno| RamError::File { path: path.clone(), action: "created", source: source.into() };
        let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC).map_err(failed)?);
        Self::sized(file, path, bytes)
    }

    /// Create a file of zeros; it must not exist. Put it on tmpfs (`/dev/shm`).
    pub fn create(path: &Path, bytes: u64) -> Result<Self, RamError> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = file.map_err(|source| RamError::File { path: path.into(), action: "created", source })?;
        Self::sized(file, path.into(), bytes)
    }

    /// Open a file that exists.
    pub fn open(path: &Path) -> Result<Self, RamError> {
        let failed = |source| RamError::File { path: path.into(), action: "opened", source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        Self::mapped(file, path.into(), bytes)
    }

    fn sized(file: File, path: PathBuf, bytes: u64) -> Result<Self, RamError> {
        file.set_len(bytes).map_err(|source| RamError::File { path: path.clone(), action: "sized", source })?;
        Self::mapped(file, path, bytes)
    }

    fn mapped(file: File, path: PathBuf, bytes: u64) -> Result<Self, RamError> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES as u64) {
            return Err(RamError::Size { bytes });
        }
        let length = usize::try_from(bytes).map_err(|_| RamError::Size { bytes })?;
        let mapping = Mapping::of(&file, length).map_err(|source| RamError::File {
            path: path.clone(),
            action: "mapped",
            source,
        })?;
        Ok(Self { file, path, pages: bytes / PAGE_BYTES as u64, mapping })
    }

    pub fn len_pages(&self) -> u64 {
        self.pages
    }

    pub fn len_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    /// How much memory it takes: pages of zeros that nobody has written take none.
    pub fn allocated_bytes(&self) -> Result<u64, RamError> {
        let status = fstat(&self.file).map_err(|errno| self.failed("examined", errno.into()))?;
        // In units of 512 bytes, whatever the file system's blocks are (inode(7)).
        Ok(u64::try_from(status.st_blocks).unwrap_or(0) * 512)
    }

    /// Its device and inode, which name it in every process.
    pub fn identity(&self) -> Result<(u64, u64), RamError> {
        let status = fstat(&self.file).map_err(|errno| self.failed("examined", errno.into()))?;
        Ok((status.st_dev, status.st_ino))
    }

    pub fn copy_page_into(&self, index: u64, target: &mut Vec<u8>) -> Result<(), RamError> {
        extend_from(&self.mapping, self.offset_of(PageRange { first: index, count: 1 })?, PAGE_BYTES, target);
        Ok(())
    }

    /// Append copies of all pages of `ranges` to `staged`. This is the copy of the pause: no system call is
    /// made, unless there is too little room.
    pub(crate) fn stage(&self, ranges: &[PageRange], staged: &mut StagedPages) -> Result<(), RamError> {
        staged.reserve(usize::try_from(count_pages(ranges)).unwrap_or(usize::MAX));
        for &range in ranges {
            let offset = self.offset_of(range)?;
            let length = usize::try_from(range.count).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES);
            extend_from(&self.mapping, offset, length, &mut staged.content);
            staged.indices.extend(range.indices());
        }
        Ok(())
    }

    /// Write one page. Only for a QEMU that has not run yet: one that has keeps translations of the code it
    /// saw.
    pub fn write_page(&self, index: u64, content: &[u8; PAGE_BYTES]) -> Result<(), RamError> {
        copy_to(&self.mapping, self.offset_of(PageRange { first: index, count: 1 })?, content);
        Ok(())
    }

    /// Make pages zero and give their memory back.
    #[cfg(test)]
    pub fn punch_hole(&self, range: PageRange) -> Result<(), RamError> {
        let offset = self.offset_of(range)? as u64;
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = fallocate(&self.file, mode, offset, range.count * PAGE_BYTES as u64);
        punched.map_err(|errno| self.failed("given back", errno.into()))
    }

    /// The pages that have memory; all others are zero. For the first full copy.
    pub fn populated(&self) -> Result<Vec<PageRange>, RamError> {
        let page_bytes = PAGE_BYTES as u64;
        let mut ranges = Vec::new();
        let mut position = 0;
        while position < self.len_bytes() {
            let first = match seek(&self.file, SeekFrom::Data(position)) {
                Ok(found) => found / page_bytes,
                Err(Errno::NXIO) => break,
                Err(errno) => return Err(self.failed("searched", errno.into())),
            };
            let hole = seek(&self.file, SeekFrom::Hole(first * page_bytes));
            let end = hole.map_err(|errno| self.failed("searched", errno.into()))?.div_ceil(page_bytes);
            append(&mut ranges, PageRange { first, count: end.min(self.pages) - first });
            position = end * page_bytes;
        }
        Ok(ranges)
    }

    pub fn page_equals(&self, index: u64, content: &[u8; PAGE_BYTES]) -> Result<bool, RamError> {
        Ok(page_equals(&self.mapping, self.offset_of(PageRange { first: index, count: 1 })?, content))
    }

    fn offset_of(&self, range: PageRange) -> Result<usize, RamError> {
        let end = range.first.checked_add(range.count);
        if end.is_none_or(|end| end > self.pages) {
            return Err(RamError::Outside { index: range.first.saturating_add(range.count) - 1, pages: self.pages });
        }
        usize::try_from(range.first)
            .map(|first| first * PAGE_BYTES)
            .map_err(|_| RamError::Size { bytes: self.len_bytes() })
    }

    fn failed(&self, action: &'static str, source: io::Error) -> RamError {
        RamError::File { path: self.path.clone(), action, source }
    }
}

impl AsFd for RamFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(byte: u8) -> [u8; PAGE_BYTES] {
        [byte; PAGE_BYTES]
    }

    #[test]
    fn a_page_that_was_written_is_read_back_alone() {
        let ram = RamFile::anonymous("test", 8 * PAGE_BYTES as u64).unwrap();
        ram.write_page(3, &filled(7)).unwrap();
        let mut staged = StagedPages::default();
        ram.stage(&[PageRange { first: 2, count: 3 }], &mut staged).unwrap();
        assert_eq!(staged.indices, [2, 3, 4]);
        assert_eq!(staged.content, [filled(0), filled(7), filled(0)].concat());
        assert!(ram.page_equals(3, &filled(7)).unwrap());
        assert!(!ram.page_equals(3, &filled(8)).unwrap());
    }

    #[test]
    fn only_written_pages_have_memory_until_they_are_punched() {
        let ram = RamFile::anonymous("test", 64 * PAGE_BYTES as u64).unwrap();
        assert_eq!(ram.populated().unwrap(), []);
        for index in [0, 1, 40, 63] {
            ram.write_page(index, &filled(1)).unwrap();
        }
        let expected = [(0, 2), (40, 1), (63, 1)].map(|(first, count)| PageRange { first, count });
        assert_eq!(ram.populated().unwrap(), expected);
        assert_eq!(ram.allocated_bytes().unwrap(), 4 * PAGE_BYTES as u64);
        ram.punch_hole(PageRange { first: 0, count: 41 }).unwrap();
        assert_eq!(ram.populated().unwrap(), [PageRange { first: 63, count: 1 }]);
        assert_eq!(ram.allocated_bytes().unwrap(), PAGE_BYTES as u64);
    }

    #[test]
    fn a_file_is_seen_by_whoever_opens_it_and_is_never_made_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ram");
        let first = RamFile::create(&path, 2 * PAGE_BYTES as u64).unwrap();
        first.write_page(1, &filled(9)).unwrap();
        let second = RamFile::open(&path).unwrap();
        assert_eq!(second.len_pages(), 2);
        assert_eq!(second.identity().unwrap(), first.identity().unwrap());
        assert!(second.page_equals(1, &filled(9)).unwrap());
        assert!(matches!(RamFile::create(&path, 4096), Err(RamError::File { action: "created", .. })));
    }

    #[test]
    fn what_is_outside_is_refused_by_number() {
        let ram = RamFile::anonymous("test", 2 * PAGE_BYTES as u64).unwrap();
        assert!(matches!(ram.write_page(2, &filled(0)), Err(RamError::Outside { index: 2, pages: 2 })));
        for range in [PageRange { first: 1, count: 2 }, PageRange { first: u64::MAX, count: 2 }] {
            let refused = ram.stage(&[range], &mut StagedPages::default());
            assert!(matches!(refused, Err(RamError::Outside { pages: 2, .. })), "{range:?}");
        }
        for bytes in [0, 4095] {
            assert!(matches!(RamFile::anonymous("test", bytes), Err(RamError::Size { .. })), "{bytes}");
        }
    }
}
