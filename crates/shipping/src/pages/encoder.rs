//! The encoder of written pages, for one link: it keeps a shadow of what was shipped on it.

use stealtime_disk::Write;
use stealtime_succession::{Epoch, Term};

use super::batch::{PAGES_LIMIT, PageKind, RunBuilder};
use super::digest::{BatchHash, EpochDigest};
use super::packing::{CONTENTS_LIMIT_BYTES, pack};
use super::shadow::Shadow;
use super::{EncodeStatistics, delta};
use crate::disks;
use crate::frame::{EncodedFrame, FrameKind};
use crate::message::{EpochBegin, EpochEnd, Message, MessageError};
use crate::page::{PAGE_BYTES, Page, ZERO_PAGE};

/// Device state goes in pieces as long as a batch of pages, so that heartbeats wait no longer for it.
const DEVICE_PIECE_BYTES: usize = CONTENTS_LIMIT_BYTES;

/// A difference this short is taken unseen: what LZ4 makes of the whole page is hardly less.
const SHORT_DIFFERENCE_BYTES: usize = PAGE_BYTES / 8;

/// Why an epoch cannot be encoded: the caller is at fault. The standby cannot complete the epoch, and the
/// next one must be full.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    #[error("{epoch} cannot be a difference: no full epoch was encoded before it, or the last one broke off")]
    NothingBefore { epoch: Epoch },
    #[error("page {index} comes where page {least} or one after it may come")]
    Order {
        index: u64,
        /// The page after the last one.
        least: u64,
    },
    #[error("page {index} is beyond the {ram_pages} pages of the RAM")]
    BeyondRam { index: u64, ram_pages: u64 },
    #[error("{pages} pages come with {bytes} bytes of content")]
    ContentLength { pages: usize, bytes: usize },
    #[error(
        "{epoch} has {pages} pages, {disk_bytes} bytes of disks and {device_bytes} bytes of device state, and announced \
         {announced:?}"
    )]
    Announced {
        epoch: Epoch,
        pages: u64,
        /// What came of the disks, and the device state that came.
        disk_bytes: u64,
        device_bytes: u64,
        announced: EpochBegin,
    },
    #[error(transparent)]
    Message(#[from] MessageError),
}

/// A whole epoch, ready to be encoded.
#[derive(Debug, Clone, Copy)]
pub struct EpochToShip<'staged> {
    /// The active member's term.
    pub term: Term,
    pub epoch: Epoch,
    /// Whether these are all pages of the RAM, and no earlier content may be referred to.
    pub full: bool,
    /// The pages, in ascending order.
    pub indices: &'staged [u64],
    /// Their content, one after the other.
    pub content: &'staged [u8],
    /// What was written of the disks.
    pub disks: &'staged [Write],
    pub devices: &'staged [u8],
}

/// Encodes the epochs that go over one link.
pub struct PageEncoder {
    ram_pages: u64,
    shadow: Option<Shadow>,
    /// Whether a full epoch, and whole ones since, were encoded.
    in_step: bool,
    contents: Vec<u8>,
    difference: Vec<u8>,
    packed: Vec<u8>,
    body: Vec<u8>,
}

impl PageEncoder {
    /// An encoder for a RAM of `ram_pages`. With `keeps_shadow` it ships differences, and takes as much
    /// memory as the guest has; without, it ships pages whole.
    pub fn new(ram_pages: u64, keeps_shadow: bool) -> Self {
        let shadow = keeps_shadow.then(|| Shadow::new(usize::try_from(ram_pages).unwrap_or(usize::MAX)));
        Self {
            ram_pages,
            shadow,
            in_step: false,
            contents: Vec::new(),
            difference: Vec::new(),
            packed: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Forgets what was shipped: a fresh standby comes, and the next epoch must be full.
    pub fn reset(&mut self) {
        self.in_step = false;
    }

    /// Encodes a whole epoch and gives its frames to `emit`, in order.
    pub fn encode(
        &mut self,
        epoch: &EpochToShip<'_>,
        emit: &mut dyn FnMut(EncodedFrame),
    ) -> Result<EncodeStatistics, EncodeError> {
        let begin = EpochBegin {
            term: epoch.term,
            epoch: epoch.epoch,
            full: epoch.full,
            pages: epoch.indices.len() as u64,
            device_bytes: epoch.devices.len() as u64,
            disk_bytes: disks::encoded_bytes(epoch.disks),
        };
        let mut encoder = self.begin(begin, emit)?;
        encoder.pages(epoch.indices, epoch.content)?;
        encoder.disks(epoch.disks)?;
        encoder.devices(epoch.devices)?;
        encoder.end()
    }

    /// Begins an epoch whose pages come piece by piece, for example the first copy of a large RAM.
    ///
    /// # Errors
    /// [`EncodeError::NothingBefore`] if the epoch would refer to what the standby does not have.
    pub fn begin<'encoder>(
        &'encoder mut self,
        begin: EpochBegin,
        emit: &'encoder mut dyn FnMut(EncodedFrame),
    ) -> Result<EpochEncoder<'encoder>, EncodeError> {
        if begin.full {
            if let Some(shadow) = &mut self.shadow {
                shadow.forget();
            }
        } else if !self.in_step {
            return Err(EncodeError::NothingBefore { epoch: begin.epoch });
        }
        // Set again at the end: an epoch that breaks off leaves the shadow ahead of the standby.
        self.in_step = false;
        self.contents.clear();
        let mut epoch = EpochEncoder {
            encoder: self,
            emit,
            begin,
            next_batch: 0,
            next_index: 0,
            pages: 0,
            device_bytes: 0,
            disk_bytes: 0,
            runs: RunBuilder::default(),
            hash: BatchHash::default(),
            digest: EpochDigest::new(&begin),
            statistics: EncodeStatistics::default(),
        };
        epoch.ship(Message::EpochBegin(begin).encode()?);
        Ok(epoch)
    }
}

/// An epoch that is being encoded. Dropped before [`EpochEncoder::end`], it leaves the encoder in need of a
/// full epoch.
pub struct EpochEncoder<'encoder> {
    encoder: &'encoder mut PageEncoder,
    emit: &'encoder mut dyn FnMut(EncodedFrame),
    begin: EpochBegin,
    next_batch: u32,
    next_index: u64,
    pages: u64,
    device_bytes: u64,
    disk_bytes: u64,
    runs: RunBuilder,
    hash: BatchHash,
    digest: EpochDigest,
    statistics: EncodeStatistics,
}

impl EpochEncoder<'_> {
    /// Encodes more pages: `content` is that of `indices`, which ascend, over the whole epoch.
    ///
    /// # Errors
    /// An [`EncodeError`] if they are not what was announced.
    pub fn pages(&mut self, indices: &[u64], content: &[u8]) -> Result<(), EncodeError> {
        let (pages, rest) = content.as_chunks::<PAGE_BYTES>();
        if pages.len() != indices.len() || !rest.is_empty() {
            return Err(EncodeError::ContentLength { pages: indices.len(), bytes: content.len() });
        }
        for (&index, page) in indices.iter().zip(pages) {
            self.page(index, page)?;
        }
        Ok(())
    }

    fn page(&mut self, index: u64, page: &Page) -> Result<(), EncodeError> {
        if index < self.next_index {
            return Err(EncodeError::Order { index, least: self.next_index });
        }
        let ram_pages = self.encoder.ram_pages;
        if index >= ram_pages {
            return Err(EncodeError::BeyondRam { index, ram_pages });
        }
        if self.runs.pages() == PAGES_LIMIT || self.encoder.contents.len() + PAGE_BYTES > CONTENTS_LIMIT_BYTES {
            self.ship_batch()?;
        }
        self.next_index = index + 1;
        self.pages += 1;
        let kind = self.encoder.append(index, page);
        *match kind {
            PageKind::Zero => &mut self.statistics.zero_pages,
            PageKind::Same => &mut self.statistics.same_pages,
            PageKind::Delta => &mut self.statistics.delta_pages,
            PageKind::Raw => &mut self.statistics.raw_pages,
        } += 1;
        self.runs.add(index, kind);
        self.hash.add(index, page);
        Ok(())
    }

    /// Adds what was written of the disks; no pages may come after it.
    pub fn disks(&mut self, writes: &[Write]) -> Result<(), EncodeError> {
        self.ship_batch()?;
        let before = self.statistics.shipped_bytes;
        for piece in disks::pieces(writes, CONTENTS_LIMIT_BYTES) {
            self.digest.disks(&piece);
            self.disk_bytes += piece.len() as u64;
            self.ship_packed(FrameKind::DiskWrites, &piece)?;
        }
        self.statistics.disk_bytes += self.statistics.shipped_bytes - before;
        Ok(())
    }

    /// Adds device state; no pages may come after it.
    pub fn devices(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.ship_batch()?;
        let before = self.statistics.shipped_bytes;
        for piece in bytes.chunks(DEVICE_PIECE_BYTES) {
            self.digest.devices(piece);
            self.device_bytes += piece.len() as u64;
            self.ship_packed(FrameKind::Devices, piece)?;
        }
        self.statistics.device_bytes += self.statistics.shipped_bytes - before;
        Ok(())
    }

    fn ship_packed(&mut self, kind: FrameKind, contents: &[u8]) -> Result<(), EncodeError> {
        let EpochBegin { term, epoch, .. } = self.begin;
        let PageEncoder { packed: room, body, .. } = &mut *self.encoder;
        let (head, packed) = pack(contents, room);
        body.clear();
        head.push(body);
        body.extend_from_slice(packed);
        let frame = EncodedFrame::new(kind, term, epoch, body).map_err(MessageError::from)?;
        self.ship(frame);
        Ok(())
    }

    pub fn end(mut self) -> Result<EncodeStatistics, EncodeError> {
        self.ship_batch()?;
        let announced = self.begin;
        let (pages, disk_bytes, device_bytes) = (self.pages, self.disk_bytes, self.device_bytes);
        if (pages, disk_bytes, device_bytes) != (announced.pages, announced.disk_bytes, announced.device_bytes)
            || (announced.full && pages != self.encoder.ram_pages)
        {
            let epoch = announced.epoch;
            return Err(EncodeError::Announced { epoch, pages, disk_bytes, device_bytes, announced });
        }
        let digest = self.digest.finish();
        let EpochBegin { term, epoch, .. } = announced;
        self.ship(Message::EpochEnd(EpochEnd { term, epoch, digest }).encode()?);
        self.encoder.in_step = true;
        Ok(self.statistics)
    }

    fn ship_batch(&mut self) -> Result<(), EncodeError> {
        if self.runs.pages() == 0 {
            return Ok(());
        }
        let hash = self.hash.take();
        self.digest.batch(hash);
        let PageEncoder { contents, packed, body, .. } = &mut *self.encoder;
        let compressed = self.runs.write(self.next_batch, hash, contents, packed, body);
        contents.clear();
        let EpochBegin { term, epoch, .. } = self.begin;
        let frame = EncodedFrame::new(FrameKind::Pages, term, epoch, body).map_err(MessageError::from)?;
        self.next_batch += 1;
        self.statistics.compressed_batches += u64::from(compressed);
        self.statistics.stored_batches += u64::from(!compressed);
        self.ship(frame);
        Ok(())
    }

    fn ship(&mut self, frame: EncodedFrame) {
        self.statistics.shipped_bytes += frame.as_bytes().len() as u64;
        (self.emit)(frame);
    }
}

impl PageEncoder {
    /// Appends what is to be shipped of a page to the contents of the batch, and notes it in the shadow.
    fn append(&mut self, index: u64, page: &Page) -> PageKind {
        let position = usize::try_from(index).unwrap_or(usize::MAX);
        let kind = if *page == ZERO_PAGE {
            PageKind::Zero
        } else if let Some(before) = self.shadow.as_ref().and_then(|shadow| shadow.page(position)) {
            self.difference.clear();
            if !delta::encode(before, page, &mut self.difference) {
                return PageKind::Same;
            }
            if self.difference.len() <= SHORT_DIFFERENCE_BYTES || self.difference_packs_better(page) {
                PageKind::Delta
            } else {
                PageKind::Raw
            }
        } else {
            PageKind::Raw
        };
        match kind {
            PageKind::Zero | PageKind::Same => {}
            PageKind::Delta => self.contents.extend_from_slice(&self.difference),
            PageKind::Raw => self.contents.extend_from_slice(page),
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.store(position, page);
        }
        kind
    }

    /// Packs the page both ways, each by itself.
    fn difference_packs_better(&mut self, page: &Page) -> bool {
        if self.difference.len() >= PAGE_BYTES {
            return false;
        }
        self.packed.resize(lz4_flex::block::get_maximum_output_size(PAGE_BYTES), 0);
        let mut packed_bytes =
            |bytes: &[u8]| lz4_flex::block::compress_into(bytes, &mut self.packed).unwrap_or(usize::MAX);
        packed_bytes(&self.difference) <= packed_bytes(page)
    }
}
