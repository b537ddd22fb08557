//! The thread that stages epochs at the standby and writes them into the memory of the waiting QEMU.
//!
//! It works through megabytes; the conductor meanwhile answers heartbeats. An epoch is written only after the
//! conductor has committed it, and the next one is decoded against what was written.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stealtime_capture::{RamError, RamFile};
use stealtime_disk::{BLOCK_BYTES, CurrencyError, Flush, Image, Journal, WINDOW_BLOCKS, medium_fault};
use stealtime_shipping::{
    Comparison, DiskDigests, DiskWanted, EpochStager, Message, PAGE_BYTES, PageSource, StageError, StagedEpoch,
    StagerLimits, page_digest,
};
use stealtime_succession::{Epoch, Term};
use tokio::sync::{mpsc, oneshot};

use crate::clock::now;
use crate::disks::{DiskWriteError, Disks};
use crate::trial_load::{TrialEnd, TrialError, Trials};
use crate::{faults, thread_priority};

/// Messages that wait for the thread, about 64 KiB each: then the link is to wait, not the memory to fill.
/// Heartbeats come behind them on the link. If it waited sooner, a thread that gets no CPU would look like a
/// dead host; all epochs that may be on their way have room here, unless they are very large.
const WAITING_MESSAGES: usize = 512;

/// The journal of the disks grows to this, or for so long, before the images are brought to their media.
const JOURNAL_BYTES: u64 = 64 << 20;
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What the thread is given, in the order in which it came.
#[derive(Debug)]
pub enum Piece {
    Message(Message),
    /// Epochs begin in this term from here on.
    Term(Term),
}

/// What the thread tells.
#[derive(Debug)]
pub enum StagingEvent {
    /// An epoch is whole and verified. It is written once `commit` is answered with true; where that is
    /// dropped, nothing more is taken.
    Verified { term: Term, epoch: Epoch, commit: oneshot::Sender<bool> },
    /// So many pages of the first full copy have come.
    Progress { pages: u64, total_pages: u64 },
    /// So many bytes of a disk were compared.
    DiskCompared { wanted: DiskWanted, bytes: u64 },
    /// A part of the copy in advance is written.
    CopyHeld { term: Term },
    /// A further trial was made, or could not be.
    Tried(Result<(), TrialError>),
    /// What came is no epoch, cannot be written, or could not be resumed; what was committed before is whole.
    Failed(StagingError),
}

/// Why nothing more is staged.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    #[error(transparent)]
    Stage(#[from] StageError),
    #[error(transparent)]
    Ram(#[from] RamError),
    #[error(transparent)]
    Disk(#[from] DiskWriteError),
    #[error(transparent)]
    Currency(#[from] CurrencyError),
    #[error("an epoch cannot be brought to the medium of the disks: {0}")]
    Medium(#[source] io::Error),
    #[error("a disk cannot be compared: {0}")]
    Compare(#[source] io::Error),
    /// Of what was committed.
    #[error("the copy differs from the guest: {what} is another one after epoch {epoch}")]
    Differs { what: String, epoch: u64 },
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// The handle of the thread.
pub struct Staging {
    devices: oneshot::Receiver<Vec<u8>>,
    trial_end: TrialEnd,
    leftover: Leftover,
}

/// The thread's memory. It is given back when this is dropped: that holds up the whole process for
/// milliseconds, and not when a guest is to resume.
pub struct Leftover {
    _held: std::sync::mpsc::Sender<Infallible>,
}

#[cfg(test)]
impl Leftover {
    pub fn none() -> Self {
        Self { _held: std::sync::mpsc::channel().0 }
    }
}

impl Staging {
    /// Start the thread; `tell` is called on it. Pieces go to the sender that comes back.
    pub fn start(
        (ram, disks, flush): (Arc<RamFile>, Arc<Disks>, Flush),
        term: Term,
        trials: Trials,
        tell: impl Fn(StagingEvent) + Send + 'static,
    ) -> io::Result<(Self, mpsc::Sender<Piece>)> {
        let (sender, pieces) = mpsc::channel(WAITING_MESSAGES);
        let stager = EpochStager::new(StagerLimits::new(ram.len_pages()), term);
        let (give_devices, devices) = oneshot::channel();
        let (held, is_held) = std::sync::mpsc::channel();
        let trial_end = trials.end.clone();
        let journal = match disks.journal_path().filter(|_| flush == Flush::Stable) {
            Some(path) => Some(Journal::begin(&path)?),
            None => None,
        };
        thread::Builder::new().name("staging".to_owned()).spawn(move || {
            thread_priority::reset();
            let mut work = Work {
                base: Base(ram),
                disks,
                copies_disks: false,
                journal,
                synced_at: now(),
                stager,
                devices: Vec::new(),
                applied: (Term(0), Epoch(0)),
                trials,
                tell,
            };
            if let Err(error) = work.run(pieces) {
                (work.tell)(StagingEvent::Failed(error));
            }
            work.end_journal();
            let _ = give_devices.send(std::mem::take(&mut work.devices));
            let _ = is_held.recv();
        })?;
        Ok((Self { devices, trial_end, leftover: Leftover { _held: held } }, sender))
    }

    /// Wait until the last committed epoch is written, and give the state of its devices. Every sender of
    /// pieces must be gone, and every event that was told: nobody commits any more.
    pub async fn finish(self) -> (Vec<u8>, Leftover) {
        self.trial_end.end();
        // After a panic, which was printed, the memory may be half written: then there is no state that fits
        // it.
        (self.devices.await.unwrap_or_default(), self.leftover)
    }
}

struct Work<T> {
    base: Base,
    disks: Arc<Disks>,
    /// Whether it was noted that the images are of no single moment.
    copies_disks: bool,
    /// Where an epoch is on the medium before it is acknowledged.
    journal: Option<Journal>,
    synced_at: Duration,
    stager: EpochStager,
    devices: Vec<u8>,
    /// The epoch that was written last.
    applied: (Term, Epoch),
    trials: Trials,
    tell: T,
}

impl<T: Fn(StagingEvent)> Work<T> {
    fn run(&mut self, mut pieces: mpsc::Receiver<Piece>) -> Result<(), StagingError> {
        while let Some(piece) = pieces.blocking_recv() {
            match piece {
                Piece::Term(term) => self.stager.set_term(term),
                Piece::Message(Message::DiskDigests(digests)) => self.compare(&digests)?,
                Piece::Message(Message::Comparison(comparison)) => self.hold_against(&comparison)?,
                Piece::Message(message) => {
                    faults::point("during-stage");
                    if let Some(epoch) = self.stager.accept(&message, &self.base)? {
                        if !self.take(epoch)? {
                            return Ok(());
                        }
                    } else if let Some((pages, total_pages)) = self.stager.progress()
                        && self.devices.is_empty()
                    {
                        (self.tell)(StagingEvent::Progress { pages, total_pages });
                    }
                }
            }
        }
        Ok(())
    }

    /// A whole epoch is here; tells whether to go on. One without device state is a copy in advance: only
    /// memory.
    fn take(&mut self, mut epoch: StagedEpoch) -> Result<bool, StagingError> {
        // Until one is committed there is nothing that writing could spoil, and a trial needs the memory of
        // its epoch.
        let is_first = self.devices.is_empty();
        if is_first {
            self.write(&epoch)?;
        }
        if epoch.is_resumable() {
            if is_first {
                self.trials.first(&epoch.devices)?;
                self.sync()?;
            } else if let Some(journal) = &mut self.journal {
                journal.append(&epoch.disks).map_err(StagingError::Medium)?;
            }
            faults::point("after-stage");
            let (commit, answer) = oneshot::channel();
            (self.tell)(StagingEvent::Verified { term: epoch.term, epoch: epoch.epoch, commit });
            if answer.blocking_recv() != Ok(true) {
                if let Some(journal) = &mut self.journal {
                    journal.take_back().map_err(StagingError::Medium)?;
                }
                return Ok(false);
            }
            self.devices = std::mem::take(&mut epoch.devices);
        } else {
            (self.tell)(StagingEvent::CopyHeld { term: epoch.term });
        }
        if !is_first {
            self.write(&epoch)?;
            self.sync_now_and_then()?;
            match self.trials.again(&self.devices) {
                Some(Err(error @ TrialError::Refused(_))) => return Err(error.into()),
                Some(outcome) => (self.tell)(StagingEvent::Tried(outcome)),
                None => {}
            }
        }
        faults::point("after-apply");
        self.applied = (epoch.term, epoch.epoch);
        self.stager.recycle(epoch);
        Ok(true)
    }

    /// See that what was compared there is the same here. A comparison of another epoch is of no use: it comes after
    /// the one that it is of, or that was never whole.
    fn hold_against(&self, comparison: &Comparison) -> Result<(), StagingError> {
        if (comparison.term, comparison.epoch) != self.applied {
            return Ok(());
        }
        let differs = |what: String| StagingError::Differs { what, epoch: comparison.epoch.0 };
        let mut page = Vec::with_capacity(PAGE_BYTES);
        for &(index, digest) in &comparison.pages {
            page.clear();
            self.base.0.copy_page_into(index, &mut page)?;
            if page.as_slice().try_into().map(page_digest).ok() != Some(digest) {
                return Err(differs(format!("page {index} of the memory")));
            }
        }
        for &(disk, block, digest) in &comparison.blocks {
            let image = self.disks.image(disk).filter(|image| block < image.blocks());
            let image =
                image.ok_or_else(|| differs(format!("the number of disks, or block {block} of disk {disk}")))?;
            if image.digests(block, 1).map_err(StagingError::Compare)? != [digest] {
                return Err(differs(format!("block {block} of {} (64 KiB each)", image.path().display())));
            }
        }
        Ok(())
    }

    /// Have the images on their media, and nothing more in the journal; where none is kept, nothing waits for that.
    fn sync(&mut self) -> Result<(), StagingError> {
        if let Some(journal) = &mut self.journal {
            self.disks.sync().and_then(|()| journal.clear()).map_err(StagingError::Medium)?;
            self.synced_at = now();
        }
        Ok(())
    }

    /// The guest may write here from now on: what is in the journal is older than all that, and may not come again.
    fn end_journal(&mut self) {
        let Err(StagingError::Medium(error)) = self.sync() else { return };
        if let (Some(path), Some(image)) = (self.disks.journal_path(), self.disks.image(0)) {
            self.disks.recorder.set_medium_fault(0, Some(medium_fault(image, &error)));
            // Its epochs are in the images, and come to the media when those can take them.
            let _ = std::fs::remove_file(path);
        }
    }

    fn sync_now_and_then(&mut self) -> Result<(), StagingError> {
        let is_due = |journal: &Journal| journal.bytes() > JOURNAL_BYTES || now() >= self.synced_at + SYNC_EVERY;
        if self.journal.as_ref().is_some_and(|journal| journal.bytes() > 0 && is_due(journal)) {
            return self.sync();
        }
        Ok(())
    }

    /// Tell which of these blocks are others here.
    fn compare(&self, digests: &DiskDigests) -> Result<(), StagingError> {
        let &DiskDigests { term, disk, first, ref digests } = digests;
        let count = digests.len() as u64;
        let no_blocks = || io::Error::new(io::ErrorKind::InvalidInput, "the machine has no such blocks");
        let fits = |image: &&Arc<Image>| {
            count <= WINDOW_BLOCKS && first.checked_add(count).is_some_and(|end| end <= image.blocks())
        };
        let image = self.disks.image(disk).filter(fits).ok_or_else(|| StagingError::Compare(no_blocks()))?;
        let ours = image.digests(first, count).map_err(StagingError::Compare)?;
        let differing = (first..).zip(ours.iter().zip(digests)).filter(|(_, (ours, theirs))| ours != theirs);
        let wanted = DiskWanted { term, disk, blocks: differing.map(|(block, _)| block).collect() };
        (self.tell)(StagingEvent::DiskCompared { wanted, bytes: count * BLOCK_BYTES });
        Ok(())
    }

    fn write(&mut self, epoch: &StagedEpoch) -> Result<(), StagingError> {
        // From the first whole epoch on they are of that of the last one.
        let copies = self.devices.is_empty() && !epoch.disks.is_empty();
        if copies && !std::mem::replace(&mut self.copies_disks, true) {
            self.disks.begin_copy()?;
        }
        self.disks.apply(&epoch.disks)?;
        for (index, page) in epoch.contents() {
            self.base.0.write_page(index, page)?;
        }
        if !epoch.full {
            // The memory of a fresh QEMU is all zeros; only later epochs have anything to clear.
            for &index in &epoch.zero_pages {
                self.base.0.write_page(index, &[0; PAGE_BYTES])?;
            }
        }
        Ok(())
    }
}

/// The memory of the waiting QEMU, as what differences refer to.
struct Base(Arc<RamFile>);

impl PageSource for Base {
    fn page(&self, index: u64, into: &mut [u8; PAGE_BYTES]) {
        let mut page = Vec::with_capacity(PAGE_BYTES);
        match self.0.copy_page_into(index, &mut page) {
            Ok(()) => into.copy_from_slice(&page),
            // The stager has checked the index; what does not decode is refused by its hash.
            Err(_) => into.fill(0),
        }
    }
}
