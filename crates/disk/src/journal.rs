//! Acknowledged epochs of a standby that are on its medium before they are in its images.
//!
//! An epoch's writes are appended and synchronised as one record, and only then acknowledged. After a power cut the
//! records that are whole are written into the images again, in their order: an image then has whole epochs alone. A
//! record that is not whole was never acknowledged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::companion::beside;
use crate::image::Image;
use crate::write::{Content, Write};

const MAGIC: [u8; 8] = *b"STEPOCH1";
const HEAD_BYTES: usize = 8 + 8 + 8;
const RECORD_BYTES_MAX: u64 = 4 << 30;
const DATA: u8 = 0;
const ZEROES: u8 = 1;

/// The journal of a machine's disks, beside the first image.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Of whole records.
    bytes: u64,
    /// Before the last record.
    bytes_before: u64,
}

impl Journal {
    /// Where the journal of a machine is whose first disk has this image.
    pub fn path_of(image: &Path) -> PathBuf {
        beside(image, ".journal")
    }

    /// Begin an empty one; what was in it must have been replayed.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(path)?;
        file.sync_all()?;
        // Else it might not be there after a power cut, and what it had.
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        Ok(Self { file, bytes: 0, bytes_before: 0 })
    }

    /// Append the writes of one epoch, and wait until they are on the medium.
    pub fn append(&mut self, writes: &[Write]) -> io::Result<()> {
        self.bytes_before = self.bytes;
        if writes.is_empty() {
            return Ok(());
        }
        let payload = encode(writes);
        let mut record = Vec::with_capacity(HEAD_BYTES + payload.len());
        record.extend_from_slice(&MAGIC);
        record.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        record.extend_from_slice(&xxh3_64(&payload).to_le_bytes());
        record.extend_from_slice(&payload);
        self.file.write_all(&record)?;
        self.file.sync_data()?;
        self.bytes += record.len() as u64;
        Ok(())
    }

    /// Forget the last epoch: it is not ours.
    pub fn take_back(&mut self) -> io::Result<()> {
        self.cut(self.bytes_before)
    }

    /// Forget all: the images have it, and are on the medium.
    pub fn clear(&mut self) -> io::Result<()> {
        self.cut(0)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::Start(bytes))?;
        self.file.sync_data()?;
        (self.bytes, self.bytes_before) = (bytes, bytes);
        Ok(())
    }

    /// What it has now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Write what a journal has into the images, have it on the medium, and remove the journal. Gives how many epochs.
    pub fn replay(path: &Path, images: &[Arc<Image>]) -> io::Result<u64> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut records = BufReader::new(file);
        let mut epochs = 0;
        while let Some(writes) = next_record(&mut records)? {
            for write in &writes {
                let none = || io::Error::new(ErrorKind::InvalidData, "the journal is of another machine's disks");
                images.get(usize::from(write.disk)).ok_or_else(none)?.apply(write)?;
            }
            epochs += 1;
        }
        images.iter().try_for_each(|image| image.sync())?;
        fs::remove_file(path)?;
        Ok(epochs)
    }
}

fn encode(writes: &[Write]) -> Vec<u8> {
    let mut payload = Vec::new();
    for write in writes {
        let (kind, data): (u8, &[u8]) = match &write.content {
            Content::Data(data) => (DATA, data),
            Content::Zeroes(_) => (ZEROES, &[]),
        };
        payload.extend_from_slice(&[write.disk, kind]);
        payload.extend_from_slice(&write.offset.to_le_bytes());
        payload.extend_from_slice(&write.len().to_le_bytes());
        payload.extend_from_slice(data);
    }
    payload
}

/// The next whole record; None where there is none any more.
fn next_record(records: &mut impl Read) -> io::Result<Option<Vec<Write>>> {
    let mut head = [0; HEAD_BYTES];
    if !fill(records, &mut head)? || head[..8] != MAGIC {
        return Ok(None);
    }
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
    let (length, digest) = (number(8), number(16));
    if length > RECORD_BYTES_MAX {
        return Ok(None);
    }
    let mut payload = Vec::new();
    records.take(length).read_to_end(&mut payload)?;
    if payload.len() as u64 != length || xxh3_64(&payload) != digest {
        return Ok(None);
    }
    Ok(decode(&payload))
}

/// Read all of it; false where it ends before.
fn fill(from: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn decode(mut payload: &[u8]) -> Option<Vec<Write>> {
    let mut writes = Vec::new();
    while !payload.is_empty() {
        let (&[disk, kind], rest) = payload.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = u64::from_le_bytes(*length);
        let (content, rest) = match kind {
            DATA => {
                let (data, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Content::Data(data.to_vec()), rest)
            }
            ZEROES => (Content::Zeroes(length), rest),
            _ => return None,
        };
        writes.push(Write { disk, offset: u64::from_le_bytes(*offset), content });
        payload = rest;
    }
    Some(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageFile;

    fn data(offset: u64, byte: u8) -> Write {
        Write { disk: 0, offset, content: Content::Data(vec![byte; 600]) }
    }

    fn zeroes(offset: u64) -> Write {
        Write { disk: 0, offset, content: Content::Zeroes(600) }
    }

    struct Bench {
        folder: tempfile::TempDir,
        image: Arc<Image>,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let image =
                Arc::new(Image::open_or_make(&ImageFile::raw(folder.path().join("disk.raw")), 1 << 20).unwrap());
            Self { folder, image }
        }

        fn path(&self) -> PathBuf {
            Journal::path_of(self.image.path())
        }

        /// The bytes at the beginning of both places that the tests write.
        fn found(&self) -> [u8; 2] {
            [0, 4096].map(|offset| {
                let mut byte = [0];
                self.image.read_at(&mut byte, offset).unwrap();
                byte[0]
            })
        }

        fn replay(&self) -> u64 {
            Journal::replay(&self.path(), &[Arc::clone(&self.image)]).unwrap()
        }
    }

    #[test]
    fn whole_epochs_are_written_again_in_their_order_and_once() {
        let bench = Bench::new();
        assert_eq!(bench.replay(), 0, "there is none");
        let mut journal = Journal::begin(&bench.path()).unwrap();
        journal.append(&[data(0, 1), data(4096, 1)]).unwrap();
        journal.append(&[]).unwrap();
        journal.append(&[data(0, 2), zeroes(4096)]).unwrap();
        assert_eq!(bench.replay(), 2);
        assert_eq!(bench.found(), [2, 0]);
        assert!(!bench.path().exists());
        assert_eq!(bench.replay(), 0);
        assert!(bench.folder.path().exists());
    }

    #[test]
    fn an_epoch_that_is_not_whole_leaves_no_trace() {
        let bench = Bench::new();
        let mut journal = Journal::begin(&bench.path()).unwrap();
        journal.append(&[data(0, 1), data(4096, 1)]).unwrap();
        let whole = journal.bytes();
        journal.append(&[data(0, 2), data(4096, 2)]).unwrap();
        let all = fs::read(bench.path()).unwrap();
        for end in [usize::try_from(whole).unwrap() + 3, all.len() - 1] {
            fs::write(bench.path(), &all[..end]).unwrap();
            assert_eq!(bench.replay(), 1, "{end}");
            assert_eq!(bench.found(), [1, 1]);
        }
        let mut damaged = all;
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        fs::write(bench.path(), &damaged).unwrap();
        assert_eq!(bench.replay(), 1);
        assert_eq!(bench.found(), [1, 1]);
    }

    #[test]
    fn what_was_taken_back_or_cleared_does_not_come_again() {
        let bench = Bench::new();
        let mut journal = Journal::begin(&bench.path()).unwrap();
        journal.append(&[data(0, 1)]).unwrap();
        journal.append(&[data(4096, 2)]).unwrap();
        journal.take_back().unwrap();
        journal.append(&[data(4096, 3)]).unwrap();
        assert_eq!(bench.replay(), 2);
        assert_eq!(bench.found(), [1, 3]);
        let mut journal = Journal::begin(&bench.path()).unwrap();
        journal.append(&[data(0, 9)]).unwrap();
        journal.clear().unwrap();
        assert_eq!((journal.bytes(), bench.replay()), (0, 0));
        assert_eq!(bench.found(), [1, 3]);
    }
}
