//! A file of lines that a full disk may keep from growing, and must not damage: each line is in it whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// The file; it is opened when there is something to write, as often as that takes.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    begins_anew: bool,
    file: Option<File>,
}

impl LineFile {
    /// Go on with what the file holds.
    pub fn continued(path: PathBuf) -> Self {
        Self { path, begins_anew: false, file: None }
    }

    /// Begin with an empty file.
    pub fn anew(path: PathBuf) -> Self {
        Self { path, begins_anew: true, file: None }
    }

    /// Add lines, which end in a line feed each. They are in the file at once, as a member may be killed at any time.
    pub fn add(&mut self, lines: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
                if self.begins_anew {
                    file.set_len(0)?;
                    self.begins_anew = false;
                }
                none.insert(file)
            }
        };
        let before = file.metadata()?.len();
        let written = file.write_all(lines);
        if written.is_err() {
            // A part of a line would spoil the one that comes after it.
            let _ = file.set_len(before);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_could_not_be_opened_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("later").join("lines");
        let mut lines = LineFile::anew(path.clone());
        assert!(lines.add(b"lost\n").is_err());
        fs::create_dir(folder.path().join("later")).unwrap();
        fs::write(&path, "of an earlier life\n").unwrap();
        lines.add(b"first\n").unwrap();
        lines.add(b"second\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        LineFile::continued(path.clone()).add(b"third\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\nthird\n");
    }
}
