//! A disk of a running QEMU: its requests, one after the other, and beside them those that wait for the medium.

use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::image::Image;
use crate::nbd::{self, Command, Failure, PAYLOAD_BYTES_MAX, Request};
use crate::recorder::Recorder;
use crate::write::{Content, Write};

/// From one try of a write that its image does not take to the next.
const TRY_EVERY: Duration = Duration::from_millis(100);

/// A disk cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("the disk {name} cannot be served to QEMU: {source}")]
pub struct ServeError {
    name: String,
    source: io::Error,
}

/// A disk that a QEMU has, or is to have.
#[derive(Debug)]
pub struct Disk {
    pub image: Arc<Image>,
    is_writable: Arc<AtomicBool>,
}

impl Disk {
    /// Serve an image as the machine's disk of this number. Gives the socket for QEMU; when that is closed, the
    /// threads end. Nothing is written until [`Disk::allow_writes`].
    pub fn serve(
        name: &str,
        number: u8,
        image: Arc<Image>,
        recorder: &Recorder,
    ) -> Result<(Self, OwnedFd), ServeError> {
        let failed = |source| ServeError { name: name.to_owned(), source };
        let (ours, of_qemu) = UnixStream::pair().map_err(failed)?;
        let is_writable = Arc::new(AtomicBool::new(false));
        let answers = Arc::new(Mutex::new(ours.try_clone().map_err(failed)?));
        let (syncs, to_sync) = mpsc::channel();
        let (answers_of_syncs, recorder_of_syncs) = (Arc::clone(&answers), recorder.clone());
        let flusher =
            Flusher { number, image: Arc::clone(&image), recorder: recorder_of_syncs, answers: answers_of_syncs };
        let named = |what| thread::Builder::new().name(format!("{what}-{name}").chars().take(15).collect());
        named("sync").spawn(move || flusher.run(&to_sync)).map_err(failed)?;
        let server = Server {
            number,
            name: name.to_owned(),
            image: Arc::clone(&image),
            recorder: recorder.clone(),
            is_writable: Arc::clone(&is_writable),
            answers,
            syncs,
        };
        // A client that speaks something else, or is gone, ends it: QEMU says what it thinks of that.
        named("disk").spawn(move || drop(server.run(ours))).map_err(failed)?;
        Ok((Self { image, is_writable }, of_qemu.into()))
    }

    /// The guest is to run here.
    pub fn allow_writes(&self) {
        self.is_writable.store(true, Ordering::Release);
    }
}

/// What is to be on the medium, and who waits for it: nobody, if it was answered before.
struct Sync {
    cookie: Option<u64>,
}

struct Flusher {
    number: u8,
    image: Arc<Image>,
    recorder: Recorder,
    answers: Arc<Mutex<UnixStream>>,
}

impl Flusher {
    fn run(&self, syncs: &Receiver<Sync>) {
        while let Ok(first) = syncs.recv() {
            // One call serves all that wait for it.
            let waiting: Vec<Sync> = std::iter::once(first).chain(syncs.try_iter()).collect();
            let failed = self.image.sync().err();
            let told = failed.as_ref().map(|error| medium_fault(&self.image, error));
            self.recorder.set_medium_fault(self.number, told);
            let failure = failed.map(|error| failure_of(&error));
            for cookie in waiting.into_iter().filter_map(|sync| sync.cookie) {
                if answer(&self.answers, cookie, failure, &[]).is_err() {
                    return;
                }
            }
        }
    }
}

/// What an operator hears of it: that was answered to a guest may be gone with the power.
pub fn medium_fault(image: &Image, error: &io::Error) -> String {
    format!("what was written to {} does not come to its medium: {error}", image.path().display())
}

fn answer(answers: &Mutex<UnixStream>, cookie: u64, failure: Option<Failure>, data: &[u8]) -> io::Result<()> {
    nbd::reply(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner), cookie, failure, data)
}

fn failure_of(error: &io::Error) -> Failure {
    if is_full(error) { Failure::NoSpace } else { Failure::InputOutput }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

struct Server {
    number: u8,
    name: String,
    image: Arc<Image>,
    recorder: Recorder,
    is_writable: Arc<AtomicBool>,
    answers: Arc<Mutex<UnixStream>>,
    syncs: Sender<Sync>,
}

impl Server {
    fn run(&self, mut stream: UnixStream) -> io::Result<()> {
        if !nbd::shake_hands(&mut stream, self.image.bytes())? {
            return Ok(());
        }
        let mut requests = io::BufReader::with_capacity(64 << 10, stream);
        let mut data = Vec::new();
        while let Some(request) = Request::read(&mut requests)? {
            if request.command == Command::Disconnect {
                break;
            }
            // Also of what is refused: the next request comes behind it.
            if request.command == Command::Write {
                if request.length > PAYLOAD_BYTES_MAX {
                    return Err(io::Error::new(ErrorKind::InvalidData, "a write is too long"));
                }
                data.resize(request.length as usize, 0);
                requests.read_exact(&mut data)?;
            }
            self.serve(&request, &mut data)?;
        }
        Ok(())
    }

    fn serve(&self, request: &Request, data: &mut Vec<u8>) -> io::Result<()> {
        let Request { command, cookie, offset, length, .. } = *request;
        let refuse = |failure| answer(&self.answers, cookie, Some(failure), &[]);
        if command != Command::Flush && !request.fits(self.image.bytes()) {
            let is_write = matches!(command, Command::Write | Command::WriteZeroes);
            return refuse(if is_write { Failure::NoSpace } else { Failure::Invalid });
        }
        match command {
            Command::Read if length > PAYLOAD_BYTES_MAX => refuse(Failure::Invalid),
            Command::Read => {
                data.resize(length as usize, 0);
                match self.image.read_at(data, offset) {
                    Ok(()) => answer(&self.answers, cookie, None, data),
                    Err(_) => refuse(Failure::InputOutput),
                }
            }
            Command::Write | Command::WriteZeroes | Command::Trim if !self.is_writable.load(Ordering::Acquire) => {
                refuse(Failure::NotPermitted)
            }
            Command::Write => self.write(request, Content::Data(std::mem::take(data))),
            Command::WriteZeroes | Command::Trim => self.write(request, Content::Zeroes(u64::from(length))),
            Command::Flush => self.sync(cookie),
            Command::Disconnect | Command::Unknown(_) => refuse(Failure::Invalid),
        }
    }

    fn write(&self, request: &Request, content: Content) -> io::Result<()> {
        let Request { cookie, offset, .. } = *request;
        self.recorder.await_room();
        let write = Write { disk: self.number, offset, content };
        if let Err(error) = self.apply(&write) {
            return answer(&self.answers, cookie, Some(failure_of(&error)), &[]);
        }
        let length = write.len();
        self.recorder.written(|| write, self.number, offset, length);
        if request.is_durable { self.sync(cookie) } else { answer(&self.answers, cookie, None, &[]) }
    }

    /// Write into the image. One that has no room is tried until it has; so is any that fails while somebody else has
    /// what is written: the guest stops at it then, cannot be stopped for its next epoch, and goes on from its last
    /// one where its disk works. A guest that is alone hears of any other failure, as from any disk.
    fn apply(&self, write: &Write) -> io::Result<()> {
        let mut has_failed = false;
        loop {
            let outcome = self.image.apply(write);
            match outcome {
                Err(error) if !self.recorder.is_over() && (is_full(&error) || self.recorder.keeps_writes()) => {
                    has_failed = true;
                    let path = self.image.path().display();
                    self.recorder.set_fault(Some(format!("the disk {} takes no writes: {path}: {error}", self.name)));
                    thread::sleep(TRY_EVERY);
                }
                outcome => {
                    if has_failed {
                        self.recorder.set_fault(None);
                    }
                    return outcome;
                }
            }
        }
    }

    /// Have all that was written so far on the medium. While the guest is being stopped for an epoch, nobody waits for
    /// that, unless it is to be [`Flush::Stable`](crate::Flush): QEMU asks for it at each stop, and what the guest
    /// says of it leaves only when its standby has the epoch.
    fn sync(&self, cookie: u64) -> io::Result<()> {
        let cookie = if self.recorder.answers_early() {
            answer(&self.answers, cookie, None, &[])?;
            None
        } else {
            Some(cookie)
        };
        // A flusher that has ended could not answer.
        let _ = self.syncs.send(Sync { cookie });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::image::ImageFile;
    use crate::recorder::Flush;

    const LENGTH: u64 = 1 << 20;

    /// A client that knows as much as a test needs.
    struct Client {
        stream: UnixStream,
        cookie: u64,
    }

    impl Client {
        fn new(socket: OwnedFd) -> Self {
            let mut stream = UnixStream::from(socket);
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut greeting = [0; 18];
            stream.read_exact(&mut greeting).unwrap();
            assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
            stream.write_all(&3_u32.to_be_bytes()).unwrap();
            // Structured replies, which it does not have; then the export.
            for (option, data) in [(8_u32, &b""[..]), (7, &[0, 0, 0, 1, b'x', 0, 0][..])] {
                stream.write_all(b"IHAVEOPT").unwrap();
                stream.write_all(&option.to_be_bytes()).unwrap();
                stream.write_all(&u32::try_from(data.len()).unwrap().to_be_bytes()).unwrap();
                stream.write_all(data).unwrap();
            }
            let mut replies = Vec::new();
            while replies.last() != Some(&1) {
                let mut head = [0; 20];
                stream.read_exact(&mut head).unwrap();
                let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
                let mut data = vec![0; number(16) as usize];
                stream.read_exact(&mut data).unwrap();
                if data.len() == 12 {
                    assert_eq!(data[2..10], LENGTH.to_be_bytes());
                }
                replies.push(number(12));
            }
            assert_eq!(replies, [1 << 31 | 1, 3, 3, 1]);
            Self { stream, cookie: 0 }
        }

        fn begin(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
            self.cookie += 1;
            let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
            request.extend_from_slice(&flags.to_be_bytes());
            request.extend_from_slice(&command.to_be_bytes());
            request.extend_from_slice(&self.cookie.to_be_bytes());
            request.extend_from_slice(&offset.to_be_bytes());
            request.extend_from_slice(&length.to_be_bytes());
            request.extend_from_slice(data);
            self.stream.write_all(&request).unwrap();
            self.cookie
        }

        fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> Result<Vec<u8>, u32> {
            let cookie = self.begin(command, 0, offset, length, data);
            self.finish(cookie, if command == 0 { length } else { 0 })
        }

        fn finish(&mut self, cookie: u64, length: u32) -> Result<Vec<u8>, u32> {
            let mut head = [0; 16];
            self.stream.read_exact(&mut head).unwrap();
            assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes());
            assert_eq!(head[8..], cookie.to_be_bytes());
            let error = u32::from_be_bytes(head[4..8].try_into().unwrap());
            if error != 0 {
                return Err(error);
            }
            let mut data = vec![0; length as usize];
            self.stream.read_exact(&mut data).unwrap();
            Ok(data)
        }
    }

    fn served() -> (tempfile::TempDir, Disk, Recorder, Client) {
        let folder = tempfile::tempdir().unwrap();
        let image = Arc::new(Image::open_or_make(&ImageFile::raw(folder.path().join("disk.raw")), LENGTH).unwrap());
        let recorder = Recorder::default();
        let (disk, socket) = Disk::serve("root", 3, image, &recorder).unwrap();
        (folder, disk, recorder, Client::new(socket))
    }

    #[test]
    fn what_was_written_is_read_and_recorded() {
        let (_folder, disk, recorder, mut client) = served();
        disk.allow_writes();
        recorder.keep_writes();
        client.ask(1, 4096, 512, &[5; 512]).unwrap();
        client.ask(6, 4096 + 256, 128, &[]).unwrap();
        client.ask(4, 8192, 4096, &[]).unwrap();
        client.ask(3, 0, 0, &[]).unwrap();
        let found = client.ask(0, 4096, 512, &[]).unwrap();
        assert_eq!([found[0], found[255], found[256], found[383], found[384]], [5, 5, 0, 0, 5]);
        let zeroes = |offset, bytes| Write { disk: 3, offset, content: Content::Zeroes(bytes) };
        let data = Write { disk: 3, offset: 4096, content: Content::Data(vec![5; 512]) };
        assert_eq!(recorder.cut(), [data, zeroes(4096 + 256, 128), zeroes(8192, 4096)]);
    }

    #[test]
    fn a_durable_write_is_answered_once() {
        let (_folder, disk, recorder, mut client) = served();
        disk.allow_writes();
        for is_cutting in [false, true] {
            recorder.cutting(is_cutting);
            let cookie = client.begin(1, 1, 0, 4, b"last");
            client.finish(cookie, 0).unwrap();
            assert_eq!(client.ask(0, 0, 4, &[]).unwrap(), b"last");
        }
    }

    #[test]
    fn a_disk_of_a_guest_that_does_not_run_here_takes_no_writes() {
        let (_folder, disk, _recorder, mut client) = served();
        for command in [1, 4, 6] {
            let data: &[u8] = if command == 1 { b"data" } else { b"" };
            assert_eq!(client.ask(command, 0, 4, data), Err(1), "{command}");
        }
        assert_eq!(client.ask(0, 0, 4, &[]).unwrap(), [0; 4]);
        disk.allow_writes();
        client.ask(1, 0, 4, b"data").unwrap();
    }

    #[test]
    fn what_is_beyond_the_end_is_refused_and_the_next_request_is_served() {
        let (_folder, disk, recorder, mut client) = served();
        disk.allow_writes();
        recorder.keep_writes();
        assert_eq!(client.ask(1, LENGTH - 2, 4, b"data"), Err(28));
        assert_eq!(client.ask(0, u64::MAX, 4, &[]), Err(22));
        assert_eq!(client.ask(0, LENGTH - 2, 4, &[]), Err(22));
        assert_eq!(client.ask(9, 0, 0, &[]), Err(22), "an unknown command");
        client.ask(0, LENGTH - 4, 4, &[]).unwrap();
        assert!(recorder.cut().is_empty());
    }

    #[test]
    fn a_flush_waits_for_no_medium_while_the_guest_is_stopped() {
        let (_folder, disk, recorder, mut client) = served();
        disk.allow_writes();
        // A medium that never answers.
        let (syncs, _never) = mpsc::channel();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let server = Server {
            number: 0,
            name: "root".to_owned(),
            image: Arc::clone(&disk.image),
            recorder: recorder.clone(),
            is_writable: Arc::default(),
            answers: Arc::new(Mutex::new(ours)),
            syncs,
        };
        client.stream = theirs;
        client.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        server.sync(7).unwrap();
        assert!(client.stream.read(&mut [0]).is_err(), "it waits for the medium");
        recorder.cutting(true);
        server.sync(8).unwrap();
        client.finish(8, 0).unwrap();
        recorder.set_flush(Flush::Stable);
        server.sync(9).unwrap();
        assert!(client.stream.read(&mut [0]).is_err(), "it waits for the medium all the same");
    }
}
