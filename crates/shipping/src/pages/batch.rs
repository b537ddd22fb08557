//! The body of one batch of pages, as the table in [`super`] has it: written by the encoder, read by the
//! stager.

use super::packing::{PackingError, PackingHead, pack};
use super::varint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    Zero = 0,
    Same = 1,
    Delta = 2,
    Raw = 3,
}

impl PageKind {
    fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Zero,
            1 => Self::Same,
            2 => Self::Delta,
            _ => Self::Raw,
        }
    }
}

/// The most pages of a batch: it bounds what a batch decodes to (16 MiB).
pub const PAGES_LIMIT: u64 = 4096;

const FIXED_BYTES: usize = 4 + 8 + PackingHead::BYTES + 2;

/// Pages that lie side by side and are shipped in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub first: u64,
    pub count: u64,
    pub kind: PageKind,
}

/// Why a body is no batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    #[error("it ends early")]
    Truncated,
    #[error("it has {0} pages, and not 1 to {PAGES_LIMIT}")]
    PageCount(u64),
    #[error("a page index overflows")]
    IndexOverflow,
    #[error(transparent)]
    Packing(#[from] PackingError),
    /// A difference is not one, or the contents end within a page.
    #[error("the contents of page {0} are malformed")]
    Contents(u64),
    #[error("{0} bytes of contents are left over")]
    LeftOver(usize),
}

/// What is in front of the contents.
#[derive(Debug, PartialEq, Eq)]
pub struct BatchHead {
    pub number: u32,
    pub hash: u64,
    pub runs: Vec<Run>,
}

/// Collects runs from pages in ascending order.
#[derive(Default)]
pub struct RunBuilder {
    runs: Vec<Run>,
    pages: u64,
}

impl RunBuilder {
    pub fn pages(&self) -> u64 {
        self.pages
    }

    pub fn add(&mut self, index: u64, kind: PageKind) {
        self.pages += 1;
        match self.runs.last_mut() {
            Some(run) if run.kind == kind && run.first + run.count == index => run.count += 1,
            _ => self.runs.push(Run { first: index, count: 1, kind }),
        }
    }

    /// Writes a batch of the pages that were added, and has none from here on. True if the contents were
    /// packed.
    pub fn write(&mut self, number: u32, hash: u64, contents: &[u8], room: &mut Vec<u8>, body: &mut Vec<u8>) -> bool {
        body.clear();
        body.extend_from_slice(&number.to_le_bytes());
        body.extend_from_slice(&hash.to_le_bytes());
        let (head, packed) = pack(contents, room);
        head.push(body);
        body.extend_from_slice(&u16::try_from(self.runs.len()).unwrap_or(u16::MAX).to_le_bytes());
        let mut end = 0;
        for run in &self.runs {
            varint::push(body, run.first - end);
            varint::push(body, run.count << 2 | run.kind as u64);
            end = run.first + run.count;
        }
        body.extend_from_slice(packed);
        self.runs.clear();
        self.pages = 0;
        head.is_packed()
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], BatchError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(BatchError::Truncated)?;
    *bytes = rest;
    Ok(*taken)
}

fn read_runs(bytes: &mut &[u8], count: u16) -> Result<Vec<Run>, BatchError> {
    let mut runs = Vec::with_capacity(usize::from(count).min(bytes.len() / 2));
    let (mut end, mut pages) = (0_u64, 0_u64);
    for _ in 0..count {
        let gap = varint::take(bytes).ok_or(BatchError::Truncated)?;
        let count_and_kind = varint::take(bytes).ok_or(BatchError::Truncated)?;
        let (count, kind) = (count_and_kind >> 2, PageKind::from_bits(count_and_kind));
        pages = pages.saturating_add(count);
        if count == 0 || pages > PAGES_LIMIT {
            return Err(BatchError::PageCount(pages));
        }
        let first = end.checked_add(gap).ok_or(BatchError::IndexOverflow)?;
        end = first.checked_add(count).ok_or(BatchError::IndexOverflow)?;
        runs.push(Run { first, count, kind });
    }
    if pages == 0 { Err(BatchError::PageCount(0)) } else { Ok(runs) }
}

/// Reads a batch; its contents, unpacked, replace what is in `contents`.
pub fn read(mut body: &[u8], contents: &mut Vec<u8>) -> Result<BatchHead, BatchError> {
    if body.len() < FIXED_BYTES {
        return Err(BatchError::Truncated);
    }
    let bytes = &mut body;
    let number = u32::from_le_bytes(take(bytes)?);
    let hash = u64::from_le_bytes(take(bytes)?);
    let packing = PackingHead::take(bytes)?;
    let run_count = u16::from_le_bytes(take(bytes)?);
    let runs = read_runs(bytes, run_count)?;
    packing.unpack(bytes, contents)?;
    Ok(BatchHead { number, hash, runs })
}
