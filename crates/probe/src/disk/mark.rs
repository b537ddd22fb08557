//! The mark of a disk that was made for the probe `disk`: it says that what the disk holds may be lost.
//!
//! A disk is called differently in each machine, and none of a machine's own must ever be written to. So the disk
//! itself says what it is: its first bytes are [`MARK`], then the name of its device in 32 bytes. What is before
//! [`FIRST_BYTE`] is never written.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::sys::{mixed, next_random};

/// What a marked disk begins with.
pub const MARK: &[u8; 16] = b"stealtime-disk\0\0";

/// Behind the mark stands what the disk calls the device that it is on, filled up with zeros.
const DEVICE_BYTES: usize = 32;

/// Where on a marked disk transfers begin: after the mark, on a multiple of every disk's blocks.
pub const FIRST_BYTE: u64 = 1 << 20;

const BLOCK_DEVICES: &str = "/sys/class/block";

/// Makes a disk image with the mark. All of it is written, with what does not compress, so that no read of it ends
/// before the disk.
///
/// # Errors
/// The file exists already, or cannot be written; what was begun is then removed.
pub fn make(path: &Path, device: &str, bytes: u64, seed: u64) -> io::Result<()> {
    let mut name = [0; DEVICE_BYTES];
    let told = name.get_mut(..device.len()).ok_or_else(|| io::Error::other("the name of its device is too long"))?;
    told.copy_from_slice(device.as_bytes());
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let written = fill(&mut file, bytes, seed).and_then(|()| {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(MARK)?;
        file.write_all(&name)?;
        file.sync_all()
    });
    written.inspect_err(|_| drop(fs::remove_file(path)))
}

/// Writes so much of what does not compress, from where the file stands.
pub fn fill(file: &mut File, bytes: u64, seed: u64) -> io::Result<()> {
    let mut piece = vec![0_u8; 1 << 20];
    let (mut state, mut left) = (seed, bytes);
    while left > 0 {
        for cell in piece.chunks_exact_mut(8) {
            state = next_random(state);
            cell.copy_from_slice(&mixed(state).to_le_bytes());
        }
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        file.write_all(&piece[..length])?;
        left -= length as u64;
    }
    Ok(())
}

/// What a file or device that begins with the mark calls its device; nothing of one without it.
pub fn device_of(file: &mut File) -> io::Result<Option<String>> {
    let mut begin = [0; MARK.len() + DEVICE_BYTES];
    file.seek(SeekFrom::Start(0))?;
    match file.read_exact(&mut begin) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let (mark, name) = begin.split_at(MARK.len());
    Ok((mark == MARK).then(|| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()))
}

/// The block devices of this machine that bear the mark. One that cannot be read bears none.
pub fn marked_devices() -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(BLOCK_DEVICES) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name()).filter(|name| may_be_one(name));
    let mut found: Vec<(PathBuf, String)> = names
        .filter_map(|name| {
            let path = Path::new("/dev").join(name);
            let device = device_of(&mut File::open(&path).ok()?).ok()??;
            Some((path, device))
        })
        .collect();
    found.sort();
    found
}

/// Whether a block device is a whole disk that holds anything: opening an empty drive may wait for it.
fn may_be_one(name: &OsStr) -> bool {
    let folder = Path::new(BLOCK_DEVICES).join(name);
    let bytes = fs::read_to_string(folder.join("size"));
    bytes.is_ok_and(|sectors| sectors.trim() != "0") && !folder.join("partition").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_bears_the_mark_and_no_other_file_is_written_over() {
        let folder = std::env::temp_dir().join(format!("stealtime-mark-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("disk.img");
        make(&path, "virtio-blk", FIRST_BYTE + 4096, 1).unwrap();
        assert_eq!(device_of(&mut File::open(&path).unwrap()).unwrap().as_deref(), Some("virtio-blk"));
        assert_eq!(fs::metadata(&path).unwrap().len(), FIRST_BYTE + 4096);
        fs::write(&path, "somebody's").unwrap();
        assert_eq!(make(&path, "", 1 << 20, 1).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(device_of(&mut File::open(&path).unwrap()).unwrap(), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
