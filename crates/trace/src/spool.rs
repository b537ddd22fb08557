//! Where pages wait until they are understood: an unnamed temporary file for each CPU, so that an hour fits
//! and nothing is left of a killed process.
//!
//! A record is the length of the page (u32), how many events were lost before it (u64), and the page without
//! its unused end.

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
}

impl Spool {
    /// Makes an empty one.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: BufWriter::with_capacity(BUFFER_BYTES, tempfile::tempfile()?) })
    }

    /// Keeps a page of events, and how many were lost before it.
    pub fn push(&mut self, page: &[u8], lost: u64) -> io::Result<()> {
        let length = u32::try_from(page.len()).map_err(io::Error::other)?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(&lost.to_le_bytes())?;
        self.file.write_all(page)
    }

    /// Turns to reading it from its beginning.
    pub fn rewind(self) -> io::Result<SpooledPages> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(SpooledPages { file: BufReader::with_capacity(BUFFER_BYTES, file) })
    }
}

/// The end of a spool that is read.
#[derive(Debug)]
pub struct SpooledPages {
    file: BufReader<File>,
}

impl SpooledPages {
    /// Reads the next page into `page`; gives how many events were lost before it, or `None` at the end.
    pub fn next_into(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let mut length = [0; 4];
        match self.file.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > LARGEST_PAGE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a page of {length} bytes")));
        }
        let mut lost = [0; 8];
        self.file.read_exact(&mut lost)?;
        page.resize(length, 0);
        self.file.read_exact(page)?;
        Ok(Some(u64::from_le_bytes(lost)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_in_order() {
        let mut spool = Spool::new().unwrap();
        spool.push(b"first", 0).unwrap();
        spool.push(b"", 7).unwrap();
        let mut pages = spool.rewind().unwrap();
        let mut page = Vec::new();
        assert_eq!(pages.next_into(&mut page).unwrap(), Some(0));
        assert_eq!(page, b"first");
        assert_eq!(pages.next_into(&mut page).unwrap(), Some(7));
        assert_eq!(page, b"");
        assert_eq!(pages.next_into(&mut page).unwrap(), None);
    }
}
