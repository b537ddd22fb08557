//! Memory of its own pages, given back as a whole, and what a thread has used.

use std::hint::black_box;
use std::io;
use std::ptr::{self, NonNull};

/// The smallest of x86-64; where the kernel gives larger ones, some are touched more than once.
const PAGE_BYTES: usize = 4096;

/// An array of zeros in a mapping of its own: its pages come when they are first touched, and go with it.
pub struct Mapping {
    start: NonNull<u64>,
    length: usize,
}

// SAFETY: the memory is owned, and nothing in it is tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` numbers, at least one.
    pub fn new(length: usize) -> io::Result<Self> {
        let length = length.max(1);
        let Some(bytes) = length.checked_mul(size_of::<u64>()) else {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping; no existing memory is touched.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { start, length })
    }

    /// Writes to each page, so that all of them come.
    pub fn touch(&mut self) {
        for cell in self.cells_mut().iter_mut().step_by(PAGE_BYTES / size_of::<u64>()) {
            *cell = 1;
        }
        // Else the compiler may leave out what is written over before it is read.
        black_box(self.cells_mut());
    }

    pub fn cells(&self) -> &[u64] {
        // SAFETY: the mapping is valid for `length` numbers as long as `self` lives; zeroed memory is a u64.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    pub fn cells_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of the same size.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length * size_of::<u64>()) };
    }
}

/// What the kernel has counted of the calling thread.
#[derive(Debug, Clone, Copy)]
pub struct ThreadUsage {
    pub minor_faults: u64,
    pub major_faults: u64,
    pub involuntary_switches: u64,
}

impl ThreadUsage {
    #[expect(clippy::cast_sign_loss, reason = "the kernel counts up from zero")]
    pub fn now() -> Self {
        // SAFETY: an all-zero rusage is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is writable; RUSAGE_THREAD exists since 2.6.26, so the call cannot fail.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        Self {
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }
}
