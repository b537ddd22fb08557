//! The ioctl `PAGEMAP_SCAN` (Linux 6.7, include/uapi/linux/fs.h), which is not in the `libc` crate.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::PAGE_BYTES;

/// `_IOWR('f', 16, struct pm_scan_arg)`
const PAGEMAP_SCAN: libc::c_ulong = 0xC060_6610;
/// Write-protect what is found, in the same step.
const WP_MATCHING: u64 = 1 << 0;
/// Fail instead of skipping a range that is not registered for asynchronous write-protection.
const CHECK_WPASYNC: u64 = 1 << 1;
/// The range is registered for asynchronous write-protection.
const PAGE_IS_WPALLOWED: u64 = 1 << 0;
const PAGE_IS_WRITTEN: u64 = 1 << 1;

/// A run of pages by addresses in the scanned process.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct PageRegion {
    pub(crate) start: u64,
    pub(crate) end: u64,
    categories: u64,
}

#[repr(C)]
struct Argument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vector: u64,
    vector_length: u64,
    pages_max: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_of_mask: u64,
    return_mask: u64,
}

/// What one call found.
pub(crate) struct ScanOutcome {
    /// How many of the regions are filled in.
    pub(crate) regions: usize,
    /// Up to where it surely looked; before the end if there was no more room.
    pub(crate) walk_end: u64,
}

/// Find written pages, and with `protect` begin anew with them.
///
/// Both masks are exactly `PAGE_IS_WRITTEN`: with others, kernels before the fixes 07b4377bdbe7 and
/// 40de8160ca7f report a written page as clean when its table entry was zapped meanwhile (found in gVisor's
/// hostmm).
pub(crate) fn scan_written(
    pagemap: impl AsFd,
    start: u64,
    end: u64,
    protect: bool,
    regions: &mut [PageRegion],
) -> io::Result<ScanOutcome> {
    let flags = CHECK_WPASYNC | if protect { WP_MATCHING } else { 0 };
    scan(pagemap, start, end, flags, PAGE_IS_WRITTEN, regions)
}

/// Whether the page at `address` still belongs to a range that is registered.
///
/// Of a process that has ended the scan finds nothing, which looks as if nothing had been written. Its memory
/// is taken down in one step for the scan (`exit_mmap` holds the lock), so what is registered after a scan
/// was so during it.
pub(crate) fn is_registered(pagemap: impl AsFd, address: u64) -> io::Result<bool> {
    let mut regions = [PageRegion::default()];
    let outcome = scan(pagemap, address, address + PAGE_BYTES as u64, 0, PAGE_IS_WPALLOWED, &mut regions)?;
    Ok(outcome.regions == 1)
}

fn scan(
    pagemap: impl AsFd,
    start: u64,
    end: u64,
    flags: u64,
    category: u64,
    regions: &mut [PageRegion],
) -> io::Result<ScanOutcome> {
    let mut argument = Argument {
        size: size_of::<Argument>() as u64,
        flags,
        start,
        end,
        walk_end: 0,
        vector: regions.as_mut_ptr().expose_provenance() as u64,
        vector_length: regions.len() as u64,
        pages_max: 0,
        category_inverted: 0,
        category_mask: category,
        category_any_of_mask: 0,
        return_mask: category,
    };
    // SAFETY: the structure is the one of this ioctl; the kernel writes at most `vector_length` regions to
    // the slice.
    let found = unsafe { libc::ioctl(pagemap.as_fd().as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
    let found = usize::try_from(found).map_err(|_| io::Error::last_os_error())?;
    // The kernel walks on whenever it has found 512 regions, and tells where it did so last, not where it ended (seen
    // with 6.18). Whoever went on there would find what was written meanwhile once more, behind what comes after it.
    let walk_end = regions[..found].last().map_or(argument.walk_end, |last| argument.walk_end.max(last.end));
    Ok(ScanOutcome { regions: found, walk_end })
}
