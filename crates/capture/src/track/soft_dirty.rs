//! Written pages by the kernel's soft-dirty bit (`CONFIG_MEM_SOFT_DIRTY`,
//! Documentation/admin-guide/mm/soft-dirty.rst).
//!
//! Needs nothing inside of QEMU, but clears and protects the whole process each time, and reads 8 bytes for
//! each page. The bit lives in the page table: where an entry of shared memory can be dropped (swap,
//! splitting of huge pages) it is lost, so such machines are refused.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{major, minor};

use super::{TrackError, WriteTracker};
use crate::pages::{PAGE_BYTES, PageRange, append};
use crate::ram::RamFile;

const NAME: &str = "soft-dirty";
/// Bit 55 of an entry of `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).
const SOFT_DIRTY: u64 = 1 << 55;
const ENTRY_BYTES: usize = 8;
/// What is written to `clear_refs` to clear the bits (proc(5)).
const CLEAR_SOFT_DIRTY: &[u8] = b"4";

/// Tracks a process through its page table.
pub struct SoftDirtyTracker {
    pagemap: File,
    clear_references: File,
    start: u64,
    entries: Vec<u8>,
}

impl SoftDirtyTracker {
    /// Track the memory `ram` in the process `pid`. Fails if the kernel does not have the bit: that is tried
    /// out.
    pub fn new(ram: &RamFile, pid: u32) -> Result<Self, TrackError> {
        prove_bit_works()?;
        let swaps = std::fs::read_to_string("/proc/swaps").map_err(|source| failed("read /proc/swaps", source))?;
        let huge_pages =
            std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
        if let Some(reason) = reason_for_loss(&swaps, &huge_pages) {
            return Err(unusable(reason));
        }
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        let maps = maps.map_err(|source| failed("read the mappings", source))?;
        let (device, inode) = ram.identity()?;
        let places = find_mappings(&maps, device, inode);
        let &[(start, end)] = places.as_slice() else {
            return Err(unusable(&format!("QEMU maps the guest's memory in {} pieces, not in one", places.len())));
        };
        if end - start != ram.len_bytes() {
            return Err(unusable(&format!("QEMU maps {} bytes of the guest's memory", end - start)));
        }
        let pages = usize::try_from(ram.len_pages()).map_err(|_| unusable("the memory is too large"))?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"));
        let clear_references = OpenOptions::new().write(true).open(format!("/proc/{pid}/clear_refs"));
        Ok(Self {
            pagemap: pagemap.map_err(|source| failed("open the page map", source))?,
            clear_references: clear_references.map_err(|source| failed("open clear_refs", source))?,
            start,
            entries: vec![0; pages * ENTRY_BYTES],
        })
    }
}

fn failed(action: &'static str, source: io::Error) -> TrackError {
    TrackError::System { tracker: NAME, action, source }
}

fn unusable(reason: &str) -> TrackError {
    TrackError::Unusable { tracker: NAME, reason: reason.into() }
}

/// Clear the bits of this process, write one of two pages, and look: only then is the bit known to work.
fn prove_bit_works() -> Result<(), TrackError> {
    let mut memory = vec![1_u8; 4 * PAGE_BYTES];
    let begin = black_box(memory.as_ptr()).addr().next_multiple_of(PAGE_BYTES);
    let offset = begin - memory.as_ptr().addr();
    let clear = OpenOptions::new().write(true).open("/proc/self/clear_refs");
    let mut clear = clear.map_err(|source| failed("open clear_refs", source))?;
    if let Err(source) = clear.write_all(CLEAR_SOFT_DIRTY) {
        return Err(match source.raw_os_error() {
            Some(libc::EINVAL) => unusable("the kernel was built without CONFIG_MEM_SOFT_DIRTY"),
            _ => failed("clear the soft-dirty bits", source),
        });
    }
    memory[offset + PAGE_BYTES] = 2;
    let written = black_box(&mut memory).as_ptr().addr() + offset;
    let mut entries = [0; 2 * ENTRY_BYTES];
    let position = (written / PAGE_BYTES * ENTRY_BYTES) as u64;
    let pagemap = File::open("/proc/self/pagemap").map_err(|source| failed("open the page map", source))?;
    pagemap.read_exact_at(&mut entries, position).map_err(|source| failed("read the page map", source))?;
    let mut found = Vec::new();
    append_written(&entries, &mut found);
    if found == [PageRange { first: 1, count: 1 }] {
        return Ok(());
    }
    Err(unusable("the kernel's soft-dirty bit does not tell which of two pages was written"))
}

/// Why the bit of a page of shared memory may be lost on this machine.
fn reason_for_loss(swaps: &str, shared_huge_pages: &str) -> Option<&'static str> {
    if swaps.lines().nth(1).is_some() {
        return Some("swap is on, and the bit of a page that is swapped out is lost");
    }
    let chosen = shared_huge_pages.split_whitespace().find(|word| word.starts_with('['));
    match chosen {
        None | Some("[never]" | "[deny]") => None,
        Some(_) => Some("huge pages are on for shared memory, and the bits of a huge page that is split are lost"),
    }
}

/// Where a file is mapped, from `/proc/PID/maps`.
fn find_mappings(maps: &str, device: u64, inode: u64) -> Vec<(u64, u64)> {
    let device = format!("{:02x}:{:02x}", major(device), minor(device));
    let inode = inode.to_string();
    let wanted = |line: &&str| {
        let mut words = line.split_whitespace().skip(3);
        words.next() == Some(device.as_str()) && words.next() == Some(inode.as_str())
    };
    let span = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    maps.lines().filter(wanted).filter_map(span).collect()
}

/// Append the pages whose entries have the bit; the first entry is page 0.
fn append_written(entries: &[u8], written: &mut Vec<PageRange>) {
    let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
    for (index, entry) in (0..).zip(entries) {
        if u64::from_ne_bytes(*entry) & SOFT_DIRTY != 0 {
            append(written, PageRange { first: index, count: 1 });
        }
    }
}

impl WriteTracker for SoftDirtyTracker {
    fn name(&self) -> &'static str {
        NAME
    }

    fn arm(&mut self) -> Result<(), TrackError> {
        let cleared = self.clear_references.write_all(CLEAR_SOFT_DIRTY);
        cleared.map_err(|source| failed("clear the soft-dirty bits", source))
    }

    /// Reading the bits and clearing them are two steps: what is written in between would be cleared unread.
    fn collects_at_standstill_only(&self) -> bool {
        true
    }

    fn collect(&mut self, written: &mut Vec<PageRange>) -> Result<(), TrackError> {
        let position = self.start / PAGE_BYTES as u64 * ENTRY_BYTES as u64;
        let read = self.pagemap.read_exact_at(&mut self.entries, position);
        read.map_err(|source| failed("read the page map", source))?;
        append_written(&self.entries, written);
        self.arm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_with_the_bit_become_ranges() {
        let present = 1 << 63;
        let entries = [present | SOFT_DIRTY, SOFT_DIRTY, present, 0, present | SOFT_DIRTY];
        let bytes: Vec<u8> = entries.iter().flat_map(|entry: &u64| entry.to_ne_bytes()).collect();
        let mut written = Vec::new();
        append_written(&bytes, &mut written);
        assert_eq!(written, [PageRange { first: 0, count: 2 }, PageRange { first: 4, count: 1 }]);
    }

    #[test]
    fn a_mapping_is_found_by_device_and_inode() {
        let maps = "\
55d8c0000000-55d8c0001000 r--p 00000000 08:01 4711    /usr/bin/qemu
7f0000000000-7f0008000000 rw-s 00000000 00:01 4711    /memfd:ram (deleted)
7f0010000000-7f0010001000 rw-s 00000000 00:01 12    /memfd:other (deleted)
";
        let device = rustix::fs::makedev(0, 1);
        assert_eq!(find_mappings(maps, device, 4711), [(0x7f00_0000_0000, 0x7f00_0800_0000)]);
        assert_eq!(find_mappings(maps, device, 1), []);
    }

    #[test]
    fn machines_where_bits_are_lost_are_refused() {
        let no_swap = "Filename Type Size Used Priority\n";
        let never = "always within_size advise [never] deny force\n";
        assert_eq!(reason_for_loss(no_swap, never), None);
        assert_eq!(reason_for_loss(no_swap, ""), None);
        assert!(reason_for_loss("Filename\n/dev/sda2 partition 1 0 -2\n", never).unwrap().contains("swap"));
        assert!(reason_for_loss(no_swap, "always [advise] never").unwrap().contains("huge"));
    }

    #[test]
    fn the_bit_works_or_its_absence_is_named() {
        match prove_bit_works() {
            Ok(()) => {}
            Err(TrackError::Unusable { reason, .. }) => {
                assert!(reason.contains("soft-dirty") || reason.contains("SOFT_DIRTY"));
            }
            Err(other) => panic!("{other}"),
        }
    }
}
