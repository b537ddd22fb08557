//! Written pages by asynchronous write-protection and `PAGEMAP_SCAN` (Linux 6.7).
//!
//! Finding a page and protecting it anew is one step of the kernel's, and only pages that were written cost
//! something.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;

use super::{TrackError, WriteTracker};
use crate::pages::{PAGE_BYTES, PageRange, append};
use crate::reception::Handover;
use crate::sys::{PageRegion, is_registered, scan_written, write_protect};

const NAME: &str = "userfault";
/// Room for one call; if there is more, it goes on where it stopped.
const REGIONS_A_CALL: usize = 4096;

/// Tracks a process that handed its userfaultfd over.
pub struct UserfaultTracker {
    userfaultfd: OwnedFd,
    pagemap: File,
    start: u64,
    end: u64,
    regions: Vec<PageRegion>,
}

impl UserfaultTracker {
    /// Track the memory that the process `pid` handed over. Fails if the kernel has no `PAGEMAP_SCAN`.
    pub fn new(handover: Handover, pid: u32) -> Result<Self, TrackError> {
        Self::with_room(handover, pid, REGIONS_A_CALL)
    }

    fn with_room(handover: Handover, pid: u32, regions: usize) -> Result<Self, TrackError> {
        let Handover { userfaultfd, address, length } = handover;
        let path = format!("/proc/{pid}/pagemap");
        let pagemap = OpenOptions::new().read(true).open(path).map_err(|source| failed("open the page map", source))?;
        let mut regions = vec![PageRegion::default(); regions];
        if let Err(source) = scan_written(&pagemap, address, address + PAGE_BYTES as u64, false, &mut regions) {
            return Err(match source.raw_os_error() {
                Some(libc::ENOTTY | libc::EINVAL) => TrackError::Unusable {
                    tracker: NAME,
                    reason: "the kernel has no PAGEMAP_SCAN (Linux 6.7 or newer is needed)".into(),
                },
                _ => failed("scan the page map", source),
            });
        }
        Ok(Self { userfaultfd, pagemap, start: address, end: address + length, regions })
    }

    fn page_of(&self, address: u64) -> u64 {
        (address - self.start) / PAGE_BYTES as u64
    }
}

fn failed(action: &'static str, source: io::Error) -> TrackError {
    TrackError::System { tracker: NAME, action, source }
}

impl WriteTracker for UserfaultTracker {
    fn name(&self) -> &'static str {
        NAME
    }

    fn arm(&mut self) -> Result<(), TrackError> {
        let armed = write_protect(&self.userfaultfd, self.start, self.end - self.start);
        armed.map_err(|source| failed("write-protect the guest's memory", source))
    }

    fn collect(&mut self, written: &mut Vec<PageRange>) -> Result<(), TrackError> {
        let mut from = self.start;
        while from < self.end {
            let outcome = scan_written(&self.pagemap, from, self.end, true, &mut self.regions)
                .map_err(|source| failed("scan the page map", source))?;
            for region in &self.regions[..outcome.regions] {
                let first = self.page_of(region.start);
                append(written, PageRange { first, count: self.page_of(region.end) - first });
            }
            if outcome.walk_end <= from {
                return Err(failed("scan on", io::ErrorKind::UnexpectedEof.into()));
            }
            from = outcome.walk_end;
        }
        match is_registered(&self.pagemap, self.start) {
            Ok(true) => Ok(()),
            Ok(false) => Err(failed("scan a process that has ended", io::Error::from_raw_os_error(libc::ESRCH))),
            Err(source) => Err(failed("scan the page map", source)),
        }
    }
}
