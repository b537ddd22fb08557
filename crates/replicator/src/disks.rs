//! The machine's disks on this host: their images, served to its QEMU.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use stealtime_capture::DiskSpec;
use stealtime_disk::{
    Currency, CurrencyError, Disk, Flush, Image, ImageError, ImageFile, Journal, Recorder, ServeError, Write,
};
use stealtime_succession::{Record, Register, RegisterError, Term};

use crate::clock::now;
use crate::spec::Spec;
use crate::{registers, wording};

/// For how long a standby tries to write what it has acknowledged, where its image does not take it.
const TRIED_FOR: Duration = Duration::from_secs(10);
const TRY_EVERY: Duration = Duration::from_millis(100);

/// Why the disks of a machine cannot be used here.
#[derive(Debug, thiserror::Error)]
pub enum DisksError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Currency(#[from] CurrencyError),
    #[error("the journal {path} of the machine's disks cannot be written into them: {source}")]
    Journal { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Register(#[from] RegisterError),
}

impl DisksError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Image(error) => Some(error.hint()),
            Self::Currency(error) => Some(error.hint()),
            Self::Serve(_) | Self::Register(_) | Self::Journal { .. } => None,
        }
    }
}

/// An acknowledged epoch could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the disk image {image} takes no writes: {source}")]
pub struct DiskWriteError {
    image: PathBuf,
    source: io::Error,
}

/// All disks of a machine, in its order.
#[derive(Debug, Default)]
pub struct Disks {
    disks: Vec<Disk>,
    pub recorder: Recorder,
}

impl Disks {
    /// Open the images, and serve them. Gives the sockets for QEMU. `is_received`: the machine comes from another
    /// host, and what is not here yet is made.
    pub fn open(spec: &Spec, is_received: bool) -> Result<(Self, Vec<OwnedFd>), DisksError> {
        let recorder = Recorder::default();
        recorder.set_flush(spec.flush);
        let open = if is_received { Image::open_or_make } else { Image::open };
        let mut disks = Vec::new();
        let mut sockets = Vec::new();
        for (number, (DiskSpec { name, bytes, .. }, file)) in
            (0..).zip(spec.machine.disks.iter().zip(&spec.disk_images))
        {
            let image = Arc::new(open(file, *bytes)?);
            let (disk, socket) = Disk::serve(name, number, image, &recorder)?;
            disks.push(disk);
            sockets.push(socket);
        }
        let opened = Self { disks, recorder };
        opened.replay()?;
        Ok((opened, sockets))
    }

    /// What a standby here had acknowledged before a power cut.
    fn replay(&self) -> Result<(), DisksError> {
        let images: Vec<_> = self.images().cloned().collect();
        let Some(path) = self.journal_path() else { return Ok(()) };
        match Journal::replay(&path, &images) {
            Ok(_) => Ok(()),
            Err(source) => Err(DisksError::Journal { path, source }),
        }
    }

    /// Where a standby has what it acknowledged; None without disks.
    pub fn journal_path(&self) -> Option<PathBuf> {
        self.images().next().map(|image| Journal::path_of(image.path()))
    }

    /// Wait until all images are on their media.
    pub fn sync(&self) -> io::Result<()> {
        self.images().try_for_each(|image| image.sync())
    }

    pub fn is_empty(&self) -> bool {
        self.disks.is_empty()
    }

    pub fn images(&self) -> impl ExactSizeIterator<Item = &Arc<Image>> {
        self.disks.iter().map(|disk| &disk.image)
    }

    pub fn image(&self, number: u8) -> Option<&Arc<Image>> {
        self.disks.get(usize::from(number)).map(|disk| &disk.image)
    }

    /// The guest is to run here.
    pub fn allow_writes(&self) {
        self.disks.iter().for_each(Disk::allow_writes);
    }

    /// Write what an epoch has of them. What its image does not take is tried again for a while: it was acknowledged.
    pub fn apply(&self, writes: &[Write]) -> Result<(), DiskWriteError> {
        let until = now() + TRIED_FOR;
        for write in writes {
            let no_disk = || io::Error::new(io::ErrorKind::NotFound, "the machine has no such disk");
            let image = self.image(write.disk);
            while let Err(source) = image.map_or_else(|| Err(no_disk()), |image| image.apply(write)) {
                if now() >= until || image.is_none() {
                    let image = image.map_or_else(PathBuf::new, |image| image.path().to_owned());
                    return Err(DiskWriteError { image, source });
                }
                thread::sleep(TRY_EVERY);
            }
        }
        Ok(())
    }

    /// The images are about to become a mixture of two moments.
    pub fn begin_copy(&self) -> Result<(), CurrencyError> {
        self.images().try_for_each(|image| Currency::of(image.path()).begin_copy())
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        // A thread that waits for room on the medium would wait for ever.
        self.recorder.end();
    }
}

/// What is noted beside the images.
#[derive(Debug, Clone, Copy)]
enum Note {
    /// The machine runs here.
    Holds(Term),
    /// It stands by here.
    StandsBy(Term),
}

/// With a journal the images of a standby are as good after a power cut as those of a machine that runs.
fn to_note_of(note: Note, flush: Flush) -> Note {
    match (note, flush) {
        (Note::StandsBy(term), Flush::Stable) => Note::Holds(term),
        (note, _) => note,
    }
}

/// Notes beside the images of a machine up to which term they are current, on a thread of its own: the file system may
/// first have much else to bring to its medium. A note that is late is of an earlier term, which is refused too often
/// and never too seldom.
#[derive(Debug)]
pub struct Notes {
    terms: Sender<Note>,
    /// The last term that was noted as held.
    held: Term,
    fault: Arc<Mutex<Option<String>>>,
}

impl Notes {
    /// Start the thread; it ends with its handle.
    pub fn start(spec: &Spec) -> io::Result<Self> {
        let (terms, to_note) = mpsc::channel::<Note>();
        let fault = Arc::new(Mutex::new(None));
        let (images, flush, told) = (spec.disk_images.clone(), spec.flush, Arc::clone(&fault));
        thread::Builder::new().name("disk-notes".to_owned()).spawn(move || {
            while let Ok(note) = to_note.recv() {
                let noted = images.iter().map(|ImageFile { path, .. }| Currency::of(path)).try_for_each(|currency| {
                    match to_note_of(note, flush) {
                        Note::Holds(term) => currency.hold(term.0),
                        Note::StandsBy(term) => currency.stand_by(term.0),
                    }
                });
                let error = noted.err().map(|error| wording::in_full(&error));
                *told.lock().unwrap_or_else(PoisonError::into_inner) = error;
            }
        })?;
        Ok(Self { terms, held: Term(0), fault })
    }

    /// The machine runs here, and its images are current in this term: they have all that it writes.
    pub fn hold(&mut self, term: Term) {
        if std::mem::replace(&mut self.held, term) == term {
            return;
        }
        // A thread that panicked has said so.
        let _ = self.terms.send(Note::Holds(term));
    }

    /// It stands by here, and the images are current in this term.
    pub fn stand_by(&self, term: Term) {
        let _ = self.terms.send(Note::StandsBy(term));
    }

    /// Why the last note could not be written.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// See that a machine may be booted from the images that are here. `force`: also from those that were left behind.
pub async fn check(spec: &Spec, force: bool) -> Result<(), DisksError> {
    for (DiskSpec { bytes, .. }, file) in spec.machine.disks.iter().zip(&spec.disk_images) {
        Image::open(file, *bytes)?;
    }
    if spec.disk_images.is_empty() {
        return Ok(());
    }
    let vm = spec.machine.name.clone();
    let read = move |mut register: Box<dyn Register>| register.read(&vm);
    let found = registers::once(&spec.register, read).await?;
    let newest = last_held(found.as_ref().map(|found| &found.record));
    for ImageFile { path, .. } in &spec.disk_images {
        Currency::of(path).check(newest.0, force)?;
    }
    Ok(())
}

/// The last term in which somebody had the machine: an orderly end is a term of its own.
pub fn last_held(record: Option<&Record>) -> Term {
    match record {
        None => Term(0),
        Some(record) if record.holder.is_none() => Term(record.term.0.saturating_sub(1)),
        Some(record) => record.term,
    }
}

#[cfg(test)]
mod tests {
    use stealtime_succession::MemberId;

    use super::*;

    #[test]
    fn the_term_of_an_orderly_end_is_nobodys() {
        let record = |term, holder: Option<MemberId>| Record {
            term: Term(term),
            holder,
            standby: None,
            renewals: 0,
            taking_over: false,
            challenger: None,
        };
        assert_eq!(last_held(None), Term(0));
        assert_eq!(last_held(Some(&record(7, Some(MemberId::new("b", 1))))), Term(7), "b has it, or has died with it");
        assert_eq!(last_held(Some(&record(8, None))), Term(7));
    }
}
