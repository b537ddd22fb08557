//! The stager: at the standby, it takes the messages of an epoch in order, decodes them against the content
//! before, verifies every hash, and gives the epoch when it is whole. It applies nothing. What breaks off or
//! does not verify leaves no trace but an error, after which the stager takes only a full epoch of a new
//! link.

use stealtime_succession::{Epoch, Term};

use super::batch::{self, BatchError, BatchHead, PageKind, Run};
use super::digest::{BatchHash, EpochDigest};
use super::packing::PackingHead;
use super::{PageSource, StageError, StagedEpoch, delta};
use crate::disks;
use crate::message::{DevicePiece, DiskPiece, EpochBegin, EpochEnd, Message, PageBatch};
use crate::page::ZERO_PAGE;

/// What an epoch may have at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagerLimits {
    pub ram_pages: u64,
    /// The longest device state.
    pub device_bytes: u64,
    /// The most of the disks, before packing.
    pub disk_bytes: u64,
}

impl StagerLimits {
    /// Limits for a RAM of `ram_pages`. Device state was 13 kB for a small machine; 64 MiB leaves room for the memory
    /// of a graphics adapter, which `ignore-shared` counts as device state. Of the disks an epoch has 64 MiB and what
    /// QEMU had under way, as writers wait above that.
    pub fn new(ram_pages: u64) -> Self {
        Self { ram_pages, device_bytes: 64 << 20, disk_bytes: 1 << 30 }
    }
}

/// An epoch of which not everything has come.
struct Staging {
    begin: EpochBegin,
    next_batch: u32,
    next_index: u64,
    pages: u64,
    disk_bytes: u64,
    digest: EpochDigest,
    epoch: StagedEpoch,
}

/// Stages the epochs that come over one link.
pub struct EpochStager {
    limits: StagerLimits,
    term: Term,
    last: Option<Epoch>,
    /// Whether a machine could be resumed from the last one.
    is_resumable: bool,
    staging: Option<Staging>,
    broken: bool,
    contents: Vec<u8>,
    hash: BatchHash,
    spare: StagedEpoch,
}

impl EpochStager {
    /// A stager for a fresh link in `term`; the first epoch must be a full one.
    pub fn new(limits: StagerLimits, term: Term) -> Self {
        Self {
            limits,
            term,
            last: None,
            is_resumable: false,
            staging: None,
            broken: false,
            contents: Vec::new(),
            hash: BatchHash::default(),
            spare: StagedEpoch::default(),
        }
    }

    /// From here on epochs begin in `term`, after [`Message::Protected`].
    pub fn set_term(&mut self, term: Term) {
        self.term = term;
    }

    /// The last epoch that was staged whole.
    pub fn last(&self) -> Option<Epoch> {
        self.last
    }

    /// Pages that have come of the full epoch under way, and pages that it announced: the progress of a first
    /// copy.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let staging = self.staging.as_ref().filter(|staging| staging.begin.full)?;
        Some((staging.pages, staging.begin.pages))
    }

    /// Drops what was staged of an epoch that broke off. The stager takes nothing more.
    pub fn discard(&mut self) {
        self.staging = None;
        self.broken = true;
    }

    /// Takes back the memory of an epoch that was applied.
    pub fn recycle(&mut self, epoch: StagedEpoch) {
        self.spare = epoch;
    }

    /// Takes any message: one of an epoch is staged, any other is none of the stager's business.
    pub fn accept(&mut self, message: &Message, base: &dyn PageSource) -> Result<Option<StagedEpoch>, StageError> {
        match message {
            Message::EpochBegin(begin) => self.begin(begin).map(|()| None),
            Message::Pages(batch) => self.pages(batch, base).map(|()| None),
            Message::DiskWrites(piece) => self.disks(piece).map(|()| None),
            Message::Devices(piece) => self.devices(piece).map(|()| None),
            Message::EpochEnd(end) => self.end(end).map(Some),
            _ => Ok(None),
        }
    }

    /// Begins an epoch.
    ///
    /// # Errors
    /// A [`StageError`] if it is of another term, out of turn, too large, or a difference to nothing.
    pub fn begin(&mut self, begin: &EpochBegin) -> Result<(), StageError> {
        let result = self.check_begin(begin);
        if result.is_err() {
            self.discard();
            return result;
        }
        let mut epoch = std::mem::take(&mut self.spare);
        epoch.clear();
        (epoch.term, epoch.epoch, epoch.full) = (begin.term, begin.epoch, begin.full);
        let digest = EpochDigest::new(begin);
        self.staging =
            Some(Staging { begin: *begin, next_batch: 0, next_index: 0, pages: 0, disk_bytes: 0, digest, epoch });
        Ok(())
    }

    fn check_begin(&self, begin: &EpochBegin) -> Result<(), StageError> {
        let EpochBegin { term, epoch, full, pages, device_bytes, disk_bytes } = *begin;
        if self.broken {
            return Err(StageError::Broken { epoch });
        }
        if self.staging.is_some() {
            return Err(StageError::Order { message: "the head", epoch, place: "within an epoch" });
        }
        if term != self.term {
            return Err(StageError::Term { epoch, term, expected: self.term });
        }
        let is_in_advance = device_bytes == 0;
        match self.last {
            None if !full => return Err(StageError::NothingBefore { epoch }),
            // It would be written at once, over what the machine is to be resumed from.
            Some(_) if is_in_advance && self.is_resumable => {
                return Err(StageError::Order { message: "a copy in advance", epoch, place: "after a whole epoch" });
            }
            Some(last) if epoch != last.next() && !(is_in_advance && epoch == last) => {
                return Err(StageError::Epoch { epoch, expected: last.next() });
            }
            _ => {}
        }
        let StagerLimits { ram_pages, device_bytes: device_limit, disk_bytes: disk_limit } = self.limits;
        if pages > ram_pages || (full && pages != ram_pages) {
            return Err(StageError::Announced { epoch, what: "pages", announced: pages, limit: ram_pages });
        }
        if device_bytes > device_limit {
            let what = "bytes of device state";
            return Err(StageError::Announced { epoch, what, announced: device_bytes, limit: device_limit });
        }
        if disk_bytes > disk_limit {
            let what = "bytes of disks";
            return Err(StageError::Announced { epoch, what, announced: disk_bytes, limit: disk_limit });
        }
        Ok(())
    }

    /// Takes a batch of pages and decodes it against `base`, the content after the epoch before.
    ///
    /// # Errors
    /// A [`StageError`] if the batch is out of turn, malformed, or does not decode to what was shipped.
    pub fn pages(&mut self, batch: &PageBatch, base: &dyn PageSource) -> Result<(), StageError> {
        let mut staging = self.take_staging("a batch", batch.term, batch.epoch)?;
        let (ram_pages, epoch) = (self.limits.ram_pages, batch.epoch);
        let result = batch::read(&batch.body, &mut self.contents)
            .map_err(|error| StageError::Batch { epoch, batch: staging.next_batch, error })
            .and_then(|head| staging.decode(&head, &self.contents, &mut self.hash, base, ram_pages));
        self.put_back(staging, result)
    }

    /// Takes a piece of what the epoch has of the disks.
    ///
    /// # Errors
    /// A [`StageError`] if it is out of turn, malformed or more than was announced.
    pub fn disks(&mut self, piece: &DiskPiece) -> Result<(), StageError> {
        let mut staging = self.take_staging("a part of a disk", piece.term, piece.epoch)?;
        let result = staging.take_disks(piece, &mut self.contents);
        self.put_back(staging, result)
    }

    /// Takes a piece of the device state.
    ///
    /// # Errors
    /// A [`StageError`] if it is out of turn or more than was announced.
    pub fn devices(&mut self, piece: &DevicePiece) -> Result<(), StageError> {
        let mut staging = self.take_staging("device state", piece.term, piece.epoch)?;
        let result = staging.take_devices(piece, &mut self.contents);
        self.put_back(staging, result)
    }

    /// Ends the epoch and gives it, whole and verified: now it may be acknowledged.
    ///
    /// # Errors
    /// A [`StageError`] if anything of it is missing or not what was sent.
    pub fn end(&mut self, end: &EpochEnd) -> Result<StagedEpoch, StageError> {
        let staging = self.take_staging("the tail", end.term, end.epoch)?;
        let (epoch, announced) = (end.epoch, staging.begin.device_bytes);
        let found = staging.epoch.devices.len() as u64;
        let result = if found != announced {
            Err(StageError::Incomplete { epoch, what: "bytes of device state", found, announced })
        } else if staging.digest.finish() == end.digest {
            staging.check_counts()
        } else {
            staging.check_counts().and(Err(StageError::Digest { epoch }))
        };
        if let Err(error) = result {
            self.discard();
            return Err(error);
        }
        self.last = Some(epoch);
        self.is_resumable = staging.epoch.is_resumable();
        Ok(staging.epoch)
    }

    /// The epoch under way, which is put back if all goes well.
    fn take_staging(&mut self, message: &'static str, term: Term, epoch: Epoch) -> Result<Staging, StageError> {
        let found = self.staging.take();
        let result = match found {
            _ if self.broken => Err(StageError::Broken { epoch }),
            None => Err(StageError::Order { message, epoch, place: "before the head of an epoch" }),
            Some(staging) if staging.begin.term != term => {
                Err(StageError::Term { epoch, term, expected: staging.begin.term })
            }
            Some(staging) if staging.begin.epoch != epoch => {
                Err(StageError::Epoch { epoch, expected: staging.begin.epoch })
            }
            Some(staging) => return Ok(staging),
        };
        self.broken = true;
        result
    }

    fn put_back(&mut self, staging: Staging, result: Result<(), StageError>) -> Result<(), StageError> {
        match result {
            Ok(()) => self.staging = Some(staging),
            Err(_) => self.discard(),
        }
        result
    }
}

impl Staging {
    fn check_page_count(&self) -> Result<(), StageError> {
        let EpochBegin { epoch, pages: announced, .. } = self.begin;
        if self.pages == announced {
            return Ok(());
        }
        Err(StageError::Incomplete { epoch, what: "pages", found: self.pages, announced })
    }

    fn check_counts(&self) -> Result<(), StageError> {
        self.check_page_count()?;
        let EpochBegin { epoch, disk_bytes: announced, .. } = self.begin;
        if self.disk_bytes == announced {
            return Ok(());
        }
        Err(StageError::Incomplete { epoch, what: "bytes of disks", found: self.disk_bytes, announced })
    }

    fn decode(
        &mut self,
        head: &BatchHead,
        contents: &[u8],
        hash: &mut BatchHash,
        base: &dyn PageSource,
        ram_pages: u64,
    ) -> Result<(), StageError> {
        let epoch = self.begin.epoch;
        if head.number != self.next_batch {
            let (batch, expected) = (head.number, self.next_batch);
            return Err(StageError::BatchNumber { epoch, batch, expected });
        }
        if !self.epoch.devices.is_empty() {
            return Err(StageError::Order { message: "a batch", epoch, place: "after device state" });
        }
        let mut rest = contents;
        for run in &head.runs {
            self.check_run(run, ram_pages)?;
            for index in run.first..run.first + run.count {
                self.decode_page(index, run.kind, &mut rest, base, hash).map_err(|error| StageError::Batch {
                    epoch,
                    batch: head.number,
                    error,
                })?;
            }
        }
        if !rest.is_empty() {
            let error = BatchError::LeftOver(rest.len());
            return Err(StageError::Batch { epoch, batch: head.number, error });
        }
        if hash.take() != head.hash {
            return Err(StageError::DecodedHash { epoch, batch: head.number });
        }
        self.digest.batch(head.hash);
        self.next_batch += 1;
        Ok(())
    }

    fn take_disks(&mut self, piece: &DiskPiece, contents: &mut Vec<u8>) -> Result<(), StageError> {
        let (epoch, announced) = (piece.epoch, self.begin.disk_bytes);
        let mut packed = piece.content.as_slice();
        PackingHead::take(&mut packed)
            .and_then(|head| head.unpack(packed, contents))
            .map_err(Into::into)
            .and_then(|()| disks::read_writes(contents, &mut self.epoch.disks))
            .map_err(|error| StageError::Disks { epoch, error })?;
        self.digest.disks(contents);
        self.disk_bytes += contents.len() as u64;
        if self.disk_bytes > announced {
            let found = self.disk_bytes;
            return Err(StageError::Incomplete { epoch, what: "bytes of disks", found, announced });
        }
        Ok(())
    }

    fn take_devices(&mut self, piece: &DevicePiece, contents: &mut Vec<u8>) -> Result<(), StageError> {
        let (epoch, announced) = (piece.epoch, self.begin.device_bytes);
        let mut packed = piece.content.as_slice();
        PackingHead::take(&mut packed)
            .and_then(|head| head.unpack(packed, contents))
            .map_err(|error| StageError::Devices { epoch, error })?;
        self.epoch.devices.extend_from_slice(contents);
        self.digest.devices(contents);
        let found = self.epoch.devices.len() as u64;
        if found > announced {
            return Err(StageError::Incomplete { epoch, what: "bytes of device state", found, announced });
        }
        self.check_page_count()
    }

    fn check_run(&mut self, run: &Run, ram_pages: u64) -> Result<(), StageError> {
        let EpochBegin { epoch, full, pages: announced, .. } = self.begin;
        let end = run.first + run.count;
        if run.first < self.next_index || end > ram_pages {
            let index = if end > ram_pages { end - 1 } else { run.first };
            return Err(StageError::PageIndex { epoch, index, least: self.next_index, limit: ram_pages });
        }
        if full && matches!(run.kind, PageKind::Same | PageKind::Delta) {
            return Err(StageError::DeltaInFull { epoch, index: run.first });
        }
        self.next_index = end;
        self.pages += run.count;
        if self.pages > announced {
            return Err(StageError::Incomplete { epoch, what: "pages", found: self.pages, announced });
        }
        Ok(())
    }

    fn decode_page(
        &mut self,
        index: u64,
        kind: PageKind,
        contents: &mut &[u8],
        base: &dyn PageSource,
        hash: &mut BatchHash,
    ) -> Result<(), BatchError> {
        let mut page = ZERO_PAGE;
        match kind {
            PageKind::Zero => {
                self.epoch.zero_pages.push(index);
                hash.add(index, &page);
                return Ok(());
            }
            PageKind::Same => {
                base.page(index, &mut page);
                hash.add(index, &page);
                return Ok(());
            }
            PageKind::Delta => {
                base.page(index, &mut page);
                delta::apply(contents, &mut page).ok_or(BatchError::Contents(index))?;
            }
            PageKind::Raw => {
                let (raw, rest) = contents.split_first_chunk().ok_or(BatchError::Contents(index))?;
                page = *raw;
                *contents = rest;
            }
        }
        hash.add(index, &page);
        self.epoch.pages.push(index);
        self.epoch.content.extend_from_slice(&page);
        Ok(())
    }
}
