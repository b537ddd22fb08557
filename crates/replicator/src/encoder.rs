//! The thread that makes frames of what the engine captured, while the guest runs again, and gives them to
//! the link.

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use stealtime_capture::StagedPages;
use stealtime_disk::Write;
use stealtime_shipping::{
    Comparison, DiskDigests, EncodeError, EncodedFrame, EpochBegin, EpochToShip, LinkError, LinkSender, Message,
    PageEncoder, ProtocolVersion, encoded_bytes,
};
use stealtime_succession::{Epoch, Term};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::{nanoseconds, now};
use crate::epoch_log::EpochRow;
use crate::guest::GuestEvent;
use crate::{faults, thread_priority, wording};

/// What comes to the encoder, in order.
pub enum Parcel {
    /// A fresh standby is linked; what follows is for it. `delta`: it takes differences.
    Link { sender: LinkSender, delta: bool },
    /// A part of a copy in advance, taken while the guest runs. `head` stands before the pages of the copy.
    Part { head: EpochBegin, pages: StagedPages, is_last: bool },
    /// What goes of the disks in advance, while the guest runs.
    Disk(DiskParcel),
    /// The pages of an epoch, what was written of the disks, the state of its devices, what else the standby is to
    /// have then, and its figures so far.
    Epoch { pages: StagedPages, disks: Vec<Write>, devices: Vec<u8>, comparison: Comparison, row: Box<EpochRow> },
}

/// What goes of the disks in advance.
pub enum DiskParcel {
    /// The digests of some blocks.
    Digests(DiskDigests),
    /// Some of the blocks.
    Part { head: EpochBegin, writes: Vec<Write> },
}

#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// What the thread works with.
pub struct Encoder {
    /// Pages of the guest's memory.
    pub ram_pages: u64,
    pub parcels: Receiver<Parcel>,
    /// Where staging memory goes back to.
    pub spare: Sender<StagedPages>,
    pub events: UnboundedSender<GuestEvent>,
}

impl Encoder {
    /// Start the thread; it ends when nobody sends parcels any more.
    pub fn start(self) -> io::Result<()> {
        thread::Builder::new().name("encoder".to_owned()).spawn(move || self.run())?;
        Ok(())
    }

    fn run(self) {
        // It works through everything; the others only when something happens.
        thread_priority::reset();
        let mut link: Option<(LinkSender, PageEncoder)> = None;
        let mut next = None;
        while let Some(parcel) = next.take().or_else(|| self.parcels.recv().ok()) {
            match parcel {
                Parcel::Link { sender, delta } => {
                    link = Some((sender, PageEncoder::new(self.ram_pages, delta)));
                }
                Parcel::Part { head, pages: first, is_last } => {
                    let Some((sender, encoder)) = &mut link else {
                        self.give_back(first);
                        continue;
                    };
                    match self.copy_in_advance(encoder, sender, head, (first, is_last)) {
                        Ok(following) => next = following,
                        Err(error) => {
                            link = None;
                            self.tell(GuestEvent::ShippingFailed(wording::in_full(&error)));
                        }
                    }
                }
                Parcel::Disk(parcel) => {
                    let Some((sender, encoder)) = &mut link else { continue };
                    if let Err(error) = Self::of_disk(encoder, sender, parcel) {
                        link = None;
                        self.tell(GuestEvent::ShippingFailed(wording::in_full(&error)));
                    }
                }
                Parcel::Epoch { pages: staged, disks, devices, comparison, row } => {
                    let Some((sender, encoder)) = &mut link else {
                        self.give_back(staged);
                        continue;
                    };
                    let shipped = Self::epoch(encoder, sender, (&staged, &disks, &devices), *row)
                        .and_then(|shipped| Self::compare(sender, comparison).map(|()| shipped));
                    match shipped {
                        Ok(shipped) => self.tell(shipped),
                        Err(error) => {
                            link = None;
                            self.tell(GuestEvent::ShippingFailed(wording::in_full(&error)));
                        }
                    }
                    self.give_back(staged);
                }
            }
        }
    }

    fn tell(&self, event: GuestEvent) {
        // A member that has ended hears nothing.
        let _ = self.events.send(event);
    }

    fn give_back(&self, pages: StagedPages) {
        // An engine that has ended needs none.
        let _ = self.spare.send(pages);
    }

    fn epoch(
        encoder: &mut PageEncoder,
        sender: &LinkSender,
        (staged, disks, devices): (&StagedPages, &[Write], &[u8]),
        mut row: EpochRow,
    ) -> Result<GuestEvent, SendError> {
        faults::point("before-encode");
        let begin = now();
        let mut outlet = Outlet::new(sender);
        let to_ship = EpochToShip {
            term: Term(row.term),
            epoch: Epoch(row.epoch),
            full: false,
            indices: &staged.indices,
            content: &staged.content,
            disks,
            devices,
        };
        let statistics = encoder.encode(&to_ship, &mut |frame| outlet.take(frame))?;
        let Outlet { waited, failure, .. } = outlet;
        failure.map_or(Ok(()), Err)?;
        faults::point("after-ship");
        let end = now();
        row.encode_ns = nanoseconds(end.saturating_sub(begin + waited));
        row.ship_ns = nanoseconds(waited);
        row.zero_pages = statistics.zero_pages;
        row.same_pages = statistics.same_pages;
        row.delta_pages = statistics.delta_pages;
        row.whole_pages = statistics.raw_pages;
        row.shipped_bytes = statistics.shipped_bytes;
        row.disk_bytes = statistics.disk_bytes;
        Ok(GuestEvent::EpochShipped { row, at: end })
    }

    /// Behind its epoch: what else the standby is to have then.
    fn compare(sender: &LinkSender, comparison: Comparison) -> Result<(), SendError> {
        if comparison.is_empty() || sender.version() < ProtocolVersion::NEWEST {
            return Ok(());
        }
        let frame = Message::Comparison(comparison).encode().map_err(EncodeError::from)?;
        Ok(sender.send_frame_blocking(frame)?)
    }

    /// What goes of a disk in advance.
    fn of_disk(encoder: &mut PageEncoder, sender: &LinkSender, parcel: DiskParcel) -> Result<(), SendError> {
        match parcel {
            DiskParcel::Digests(digests) => {
                let frame = Message::DiskDigests(digests).encode().map_err(EncodeError::from)?;
                Ok(sender.send_frame_blocking(frame)?)
            }
            DiskParcel::Part { head, writes } => {
                let mut outlet = Outlet::new(sender);
                let head = EpochBegin { disk_bytes: encoded_bytes(&writes), ..head };
                let mut emit = |frame| outlet.take(frame);
                let mut part = encoder.begin(head, &mut emit)?;
                part.disks(&writes)?;
                part.end()?;
                outlet.failure.map_or(Ok(()), |error| Err(error.into()))
            }
        }
    }

    /// Encode parts until the last one; gives back what came instead of a part.
    fn copy_in_advance(
        &self,
        encoder: &mut PageEncoder,
        sender: &LinkSender,
        head: EpochBegin,
        (first, is_last): (StagedPages, bool),
    ) -> Result<Option<Parcel>, SendError> {
        let mut outlet = Outlet::new(sender);
        let mut emit = |frame| outlet.take(frame);
        let mut copy = encoder.begin(head, &mut emit)?;
        let (mut part, mut is_last) = (first, is_last);
        let following = loop {
            let encoded = copy.pages(&part.indices, &part.content);
            if head.full {
                self.tell(GuestEvent::PartShipped { raw_bytes: part.content.len() as u64 });
            }
            self.give_back(part);
            encoded?;
            if is_last {
                copy.end()?;
                break None;
            }
            match self.parcels.recv() {
                Ok(Parcel::Part { pages: next, is_last: next_is_last, .. }) => {
                    (part, is_last) = (next, next_is_last);
                }
                // The copy was broken off: it is not ended, and so never of use.
                other => break other.ok(),
            }
        };
        outlet.failure.map_or(Ok(following), |error| Err(error.into()))
    }
}

/// Where frames go, until the link fails: from then on nowhere, and why is kept.
struct Outlet<'link> {
    sender: &'link LinkSender,
    waited: Duration,
    failure: Option<LinkError>,
}

impl<'link> Outlet<'link> {
    fn new(sender: &'link LinkSender) -> Self {
        Self { sender, waited: Duration::ZERO, failure: None }
    }

    fn take(&mut self, frame: EncodedFrame) {
        if self.failure.is_some() {
            return;
        }
        let begin = now();
        self.failure = self.sender.send_frame_blocking(frame).err();
        self.waited += now().saturating_sub(begin);
        faults::point("during-ship");
    }
}
