//! The machine's disks on this host: their images, served to its QEMU.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use stealtime_capture::DiskSpec;
use stealtime_disk::{Currency, CurrencyError, Disk, Image, ImageError, Recorder, ServeError, Write};
use stealtime_succession::{Register, RegisterError, Term};

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
    #[error(transparent)]
    Register(#[from] RegisterError),
}

impl DisksError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Image(error) => Some(error.hint()),
            Self::Currency(error) => Some(error.hint()),
            Self::Serve(_) | Self::Register(_) => None,
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
    /// Open the images, and serve them. Gives the sockets for QEMU. `is_received`: the machine comes from another host, and
    /// what is not here yet is made.
    pub fn open(spec: &Spec, is_received: bool) -> Result<(Self, Vec<OwnedFd>), DisksError> {
        let recorder = Recorder::default();
        let open = if is_received { Image::open_or_make } else { Image::open };
        let mut disks = Vec::new();
        let mut sockets = Vec::new();
        for (number, (DiskSpec { name, bytes }, path)) in (0..).zip(spec.machine.disks.iter().zip(&spec.disk_images)) {
            let image = Arc::new(open(path, *bytes)?);
            let (disk, socket) = Disk::serve(name, number, image, &recorder)?;
            disks.push(disk);
            sockets.push(socket);
        }
        Ok((Self { disks, recorder }, sockets))
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

/// Notes beside the images of a machine up to which term they are current, on a thread of its own: the file system may
/// first have much else to bring to its medium. A note that is late is of an earlier term, which is refused too often and
/// never too seldom.
#[derive(Debug, Clone)]
pub struct Notes {
    terms: Sender<Term>,
    fault: Arc<Mutex<Option<String>>>,
}

impl Notes {
    /// Start the thread; it ends with the last of its handles.
    pub fn start(spec: &Spec) -> io::Result<Self> {
        let (terms, to_note) = mpsc::channel::<Term>();
        let fault = Arc::new(Mutex::new(None));
        let (images, told) = (spec.disk_images.clone(), Arc::clone(&fault));
        thread::Builder::new().name("disk-notes".to_owned()).spawn(move || {
            while let Ok(term) = to_note.recv() {
                let term = to_note.try_iter().last().unwrap_or(term);
                let noted = images.iter().try_for_each(|path| Currency::of(path).hold(term.0));
                let error = noted.err().map(|error| wording::in_full(&error));
                *told.lock().unwrap_or_else(PoisonError::into_inner) = error;
            }
        })?;
        Ok(Self { terms, fault })
    }

    /// The images are current in this term.
    pub fn hold(&self, term: Term) {
        // A thread that panicked has said so.
        let _ = self.terms.send(term);
    }

    /// Why the last note could not be written.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// See that a machine may be booted from the images that are here: before the register is told of anything.
pub async fn check_current(spec: &Spec, force: bool) -> Result<(), DisksError> {
    if spec.disk_images.is_empty() {
        return Ok(());
    }
    let vm = spec.machine.name.clone();
    let read = move |mut register: Box<dyn Register>| register.read(&vm);
    let newest = registers::once(&spec.register, read).await?.map_or(Term(0), |found| found.record.term);
    for path in &spec.disk_images {
        Currency::of(path).check(newest.next().0, force)?;
    }
    Ok(())
}
