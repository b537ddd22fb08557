//! Where pages wait until they are understood: an unnamed temporary file for each CPU, so that an hour fits
//! and nothing is left of a killed process.
//!
//! A record is the length of the page (u32), how many events were lost before it (u64), and the page without
//! its unused end.
//!
//! Where only the last pages are to be kept there are two such files: when one is full, the other is emptied and takes
//! its place. What was in it counts as lost.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

/// One system call for so many bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// A page that is longer is none; the kernel's largest is 2^10 system pages (`buffer_subbuf_size_kb`).
const LARGEST_PAGE: usize = 1 << 22;

/// The end of a spool that is written.
#[derive(Debug)]
pub struct Spool {
    file: BufWriter<File>,
    /// What is in the file, of a spool that keeps only the last.
    content: Content,
    kept: Option<Kept>,
}

/// What a file holds.
#[derive(Debug, Default, Clone, Copy)]
struct Content {
    bytes: u64,
    /// Those in its pages, and those that were lost before them.
    events: u64,
}

/// The files of a spool that keeps only the last pages.
#[derive(Debug)]
struct Kept {
    /// Of a file.
    most_bytes: u64,
    /// The one before.
    older: Option<(File, Content)>,
    /// Events that are in no file any more.
    dropped: u64,
}

impl Spool {
    /// Makes an empty one; with `keep_bytes` it keeps the last pages alone, at least so many bytes of them.
    pub fn new(keep_bytes: Option<u64>) -> io::Result<Self> {
        let kept = keep_bytes.map(|most_bytes| Kept { most_bytes, older: None, dropped: 0 });
        Ok(Self { file: empty()?, content: Content::default(), kept })
    }

    /// Keeps a page of events, how many there are in it, and how many were lost before it.
    pub fn push(&mut self, page: &[u8], events: impl FnOnce() -> u64, lost: u64) -> io::Result<()> {
        if let Some(kept) = &mut self.kept {
            if self.content.bytes >= kept.most_bytes {
                let full = std::mem::replace(&mut self.file, empty()?);
                let full = full.into_inner().map_err(io::IntoInnerError::into_error)?;
                let before = kept.older.replace((full, std::mem::take(&mut self.content)));
                kept.dropped += before.map_or(0, |(_, content)| content.events);
            }
            self.content.bytes += page.len() as u64;
            self.content.events += events() + lost;
        }
        let length = u32::try_from(page.len()).map_err(io::Error::other)?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&lost.to_le_bytes())?;
        self.file.write_all(page)
    }

    /// Events that it has let go.
    pub fn dropped(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.dropped)
    }

    /// Turns to reading it from its beginning.
    pub fn rewind(self) -> io::Result<SpooledPages> {
        let untold = self.dropped();
        let older = self.kept.and_then(|kept| kept.older).map(|(file, _)| file);
        let newer = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut files = VecDeque::new();
        for mut file in older.into_iter().chain([newer]) {
            file.seek(SeekFrom::Start(0))?;
            files.push_back(BufReader::with_capacity(BUFFER_BYTES, file));
        }
        Ok(SpooledPages { files, untold })
    }
}

fn empty() -> io::Result<BufWriter<File>> {
    Ok(BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?))
}

/// The end of a spool that is read.
#[derive(Debug)]
pub struct SpooledPages {
    files: VecDeque<BufReader<File>>,
    /// Events that were let go before the first page.
    untold: u64,
}

impl SpooledPages {
    /// Reads the next page into `page`; gives how many events were lost before it, or `None` at the end.
    pub fn next_into(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let mut length = [0; 4];
        let file = loop {
            let Some(file) = self.files.front_mut() else { return Ok(None) };
            match file.read_exact(&mut length) {
                Ok(()) => break file,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(error),
            }
            self.files.pop_front();
        };
        let length = u32::from_le_bytes(length) as usize;
        if length > LARGEST_PAGE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a page of {length} bytes")));
        }
        let mut lost = [0; 8];
        file.read_exact(&mut lost)?;
        page.resize(length, 0);
        file.read_exact(page)?;
        Ok(Some(u64::from_le_bytes(lost) + std::mem::take(&mut self.untold)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut pages: SpooledPages) -> Vec<(Vec<u8>, u64)> {
        let mut page = Vec::new();
        std::iter::from_fn(|| pages.next_into(&mut page).unwrap().map(|lost| (page.clone(), lost))).collect()
    }

    #[test]
    fn what_was_kept_comes_back_in_order() {
        let mut spool = Spool::new(None).unwrap();
        spool.push(b"first", || 1, 0).unwrap();
        spool.push(b"", || 0, 7).unwrap();
        assert_eq!(all(spool.rewind().unwrap()), [(b"first".to_vec(), 0), (Vec::new(), 7)]);
    }

    #[test]
    fn of_a_flight_recorder_the_last_come_back_and_the_rest_counts_as_lost() {
        let mut spool = Spool::new(Some(8)).unwrap();
        for number in 0..10_u8 {
            spool.push(&[number; 4], || 3, u64::from(number == 1)).unwrap();
        }
        assert_eq!(spool.dropped(), 6 * 3 + 1);
        let kept = all(spool.rewind().unwrap());
        assert_eq!(kept.iter().map(|(page, _)| page[0]).collect::<Vec<_>>(), [6, 7, 8, 9]);
        assert_eq!(kept.iter().map(|&(_, lost)| lost).collect::<Vec<_>>(), [19, 0, 0, 0]);
    }
}
