//! Where threads may run.

use std::io;

use super::check;

/// How many CPUs a set of the C library can name.
pub const MOST_CPUS: u32 = libc::CPU_SETSIZE.unsigned_abs();

/// The calling thread, wherever the kernel takes a thread's id.
const THIS_THREAD: u32 = 0;

/// A set of CPUs as the kernel writes it: to have one and to compare two takes no memory from anywhere.
#[derive(Clone, Copy)]
pub struct Affinity(libc::cpu_set_t);

impl Default for Affinity {
    fn default() -> Self {
        // SAFETY: an all-zero cpu_set_t is a valid empty set.
        Self(unsafe { std::mem::zeroed() })
    }
}

impl Affinity {
    /// Where the calling thread may run.
    pub fn here() -> io::Result<Self> {
        Self::of(THIS_THREAD)
    }

    /// Where a thread of this process may run, by its own id.
    pub fn of(thread: u32) -> io::Result<Self> {
        let mut set = Self::default();
        // SAFETY: `set` is writable and of the size given.
        check(unsafe { libc::sched_getaffinity(thread.cast_signed(), size_of_val(&set.0), &raw mut set.0) })?;
        Ok(set)
    }

    pub fn cpus(&self) -> Vec<u32> {
        let is_set = |cpu: &u32| {
            // SAFETY: `cpu` is below CPU_SETSIZE by the range.
            unsafe { libc::CPU_ISSET(*cpu as usize, &self.0) }
        };
        (0..MOST_CPUS).filter(is_set).collect()
    }
}

impl PartialEq for Affinity {
    fn eq(&self, other: &Self) -> bool {
        // SAFETY: both are valid sets.
        unsafe { libc::CPU_EQUAL(&self.0, &other.0) }
    }
}

impl std::fmt::Debug for Affinity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cpus().fmt(formatter)
    }
}

/// Allows the calling thread to run on these CPUs only.
pub fn set_affinity(cpus: &[u32]) -> io::Result<()> {
    set_affinity_of(THIS_THREAD, cpus)
}

/// Allows a thread of this process, by its own id, to run on these CPUs only.
pub fn set_affinity_of(thread: u32, cpus: &[u32]) -> io::Result<()> {
    let mut set = Affinity::default();
    for &cpu in cpus {
        if cpu >= MOST_CPUS {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the bound was checked just above.
        unsafe { libc::CPU_SET(cpu as usize, &mut set.0) };
    }
    // SAFETY: `set` is a valid set of the size given.
    check(unsafe { libc::sched_setaffinity(thread.cast_signed(), size_of_val(&set.0), &raw const set.0) })
}

/// The CPUs that the calling thread may run on.
pub fn affinity() -> io::Result<Vec<u32>> {
    Ok(Affinity::here()?.cpus())
}
