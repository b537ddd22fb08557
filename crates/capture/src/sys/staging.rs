//! Memory to stage pages into.

use std::mem::MaybeUninit;

use rustix::mm::{Advice, madvise};

/// As x86-64 has them, and arm64 with pages of 4 KiB.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Have memory that holds nothing yet come in huge pages, where the kernel has some: it is there at once then, while
/// the first touch of each small page asks the kernel for it, which takes longer than to copy one.
pub(crate) fn prefer_huge_pages(memory: &mut [MaybeUninit<u8>]) {
    let before = memory.as_ptr().align_offset(HUGE_PAGE_BYTES);
    let whole = memory.len().saturating_sub(before) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if whole == 0 {
        return;
    }
    let whole = &mut memory[before..before + whole];
    // SAFETY: the advice changes how the memory is provided, not what it holds, and the slice is ours alone. A kernel
    // without huge pages refuses it, which costs time only.
    let _ = unsafe { madvise(whole.as_mut_ptr().cast(), whole.len(), Advice::LinuxHugepage) };
}
