//! A log that never grows beyond a bound: what is added is in it whole or not at all, and the oldest goes
//! first.
//!
//! It is two files of at most half the bound: `NAME` and, as soon as that is full, `NAME.1` with what came
//! before.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file; it is opened when there is something to write, as often as that takes.
#[derive(Debug)]
pub struct BoundedFile {
    path: PathBuf,
    part_bytes: u64,
    head: Vec<u8>,
    begins_anew: bool,
    file: Option<File>,
}

impl BoundedFile {
    /// Go on with what there is; both parts together take at most `limit_bytes`.
    pub fn continued(path: PathBuf, limit_bytes: u64) -> Self {
        Self { path, part_bytes: limit_bytes / 2, head: Vec::new(), begins_anew: false, file: None }
    }

    /// Begin with an empty file.
    pub fn anew(path: PathBuf, limit_bytes: u64) -> Self {
        Self { begins_anew: true, ..Self::continued(path, limit_bytes) }
    }

    /// Begin each part with this.
    #[must_use]
    pub fn with_head(mut self, head: Vec<u8>) -> Self {
        self.head = head;
        self
    }

    /// Where what came before is kept.
    pub fn older(path: &Path) -> PathBuf {
        let mut name = OsString::from(path);
        name.push(".1");
        name.into()
    }

    /// Add bytes. They are in the file at once, as whoever writes may be killed at any time.
    pub fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        let mut before = file.metadata()?.len();
        if before > 0 && before + bytes.len() as u64 > self.part_bytes {
            fs::rename(&self.path, Self::older(&self.path))?;
            file = self.open()?;
            before = file.metadata()?.len();
        }
        let head = if before == 0 { self.head.as_slice() } else { &[] };
        let written = file.write_all(&[head, bytes].concat());
        if written.is_err() {
            // A part of a line would spoil the one that comes after it.
            let _ = file.set_len(before);
        }
        self.file = Some(file);
        written
    }

    fn open(&mut self) -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        if self.begins_anew {
            file.set_len(0)?;
            match fs::remove_file(Self::older(&self.path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.begins_anew = false,
            }
        }
        Ok(file)
    }
}

/// Bound a file that others only append to (`O_APPEND`) to the same two parts: what they wrote becomes the
/// older one, if it is more than half the bound, and they go on in the empty file. What comes in that very
/// moment is lost.
///
/// # Errors
/// What the system says; that there is no such file is no error.
pub fn bound_appended(path: &Path, limit_bytes: u64) -> io::Result<()> {
    let part_bytes = limit_bytes / 2;
    match fs::metadata(path) {
        Ok(found) if found.len() > part_bytes => {}
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    // Several that write to it may find it too long at the same time.
    file.lock()?;
    let length = file.metadata()?.len();
    if length > part_bytes {
        file.seek(SeekFrom::Start(length - part_bytes))?;
        io::copy(&mut file, &mut File::create(BoundedFile::older(path))?)?;
        file.set_len(0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_append_is_bounded_and_they_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("messages");
        bound_appended(&path, 2000).unwrap();
        let mut theirs = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for number in 0..1000 {
            theirs.write_all(format!("line {number}\n").as_bytes()).unwrap();
            bound_appended(&path, 2000).unwrap();
            let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
            let total = length(&path) + length(&BoundedFile::older(&path));
            assert!(total <= 2000, "{total} bytes after {number}");
        }
        let kept = fs::read_to_string(BoundedFile::older(&path)).unwrap() + &fs::read_to_string(&path).unwrap();
        assert!(kept.ends_with("line 998\nline 999\n") && kept.len() > 1000, "{kept}");
        // However much comes between two looks.
        theirs.write_all(&vec![b'x'; 50_000]).unwrap();
        bound_appended(&path, 2000).unwrap();
        assert_eq!(fs::metadata(BoundedFile::older(&path)).unwrap().len(), 1000);
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn what_could_not_be_opened_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("later").join("lines");
        let mut lines = BoundedFile::anew(path.clone(), 1 << 20);
        assert!(lines.add(b"lost\n").is_err());
        fs::create_dir(folder.path().join("later")).unwrap();
        fs::write(&path, "of an earlier life\n").unwrap();
        lines.add(b"first\n").unwrap();
        lines.add(b"second\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        BoundedFile::continued(path.clone(), 1 << 20).add(b"third\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\nthird\n");
    }

    #[test]
    fn the_newest_is_kept_within_the_bound_and_each_part_has_its_head() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let mut lines = BoundedFile::anew(path.clone(), 2000).with_head(b"name\n".to_vec());
        for number in 0..10_000 {
            lines.add(format!("{number}\n").as_bytes()).unwrap();
            let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
            let total = length(&path) + length(&BoundedFile::older(&path));
            assert!(total <= 2000 + 2 * 5, "{total} bytes after {number}");
        }
        let older = fs::read_to_string(BoundedFile::older(&path)).unwrap();
        let newer = fs::read_to_string(&path).unwrap();
        let numbers = |text: &str| -> Vec<u32> {
            assert!(text.starts_with("name\n"), "{text}");
            text.lines().skip(1).map(|line| line.parse().unwrap()).collect()
        };
        let kept = [numbers(&older), numbers(&newer)].concat();
        assert_eq!(kept.last(), Some(&9999));
        assert!(kept.windows(2).all(|pair| pair[1] == pair[0] + 1), "a line is missing");
        assert!(kept.len() > 200, "{}", kept.len());
    }
}
