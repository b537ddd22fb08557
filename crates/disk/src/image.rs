//! The image of a disk: where it is, whose it is, and its blocks.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fs::{StatVfs, fstatvfs, statvfs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::copying::{BLOCK_BYTES, BlockDigest, ZERO_BLOCK};
use crate::medium::{Format, Medium};
use crate::write::{Content, Write};

/// QEMU locks single bytes of an image, from 100 on for what it does and from 200 on for what it lets others do
/// (block/file-posix.c, `RAW_LOCK_PERM_BASE` and `RAW_LOCK_SHARED_BASE`), for 64 permissions at most. Who has all of
/// them for itself keeps each QEMU away, and is kept away by each.
const LOCKED_FROM: i64 = 100;
const LOCKED_BYTES: i64 = 164;

// As `struct flock` has them.
#[allow(clippy::cast_possible_truncation, reason = "they are 1 and 0")]
const F_WRLCK: libc::c_short = libc::F_WRLCK as libc::c_short;
#[allow(clippy::cast_possible_truncation, reason = "they are 1 and 0")]
const SEEK_SET: libc::c_short = libc::SEEK_SET as libc::c_short;

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("the disk image {path} cannot be {what}: {source}")]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error("the disk image {path} is {found}; only files and block devices can be protected")]
    NoFile { path: PathBuf, found: &'static str },
    #[error("the disk image {path} cannot be used as qcow2: {source}")]
    Format { path: PathBuf, source: io::Error },
    #[error("the disk image {path} has {found} bytes, and the machine's disk has {expected}")]
    Size { path: PathBuf, found: u64, expected: u64 },
    #[error(
        "the disk image {path} may need {needed} bytes more, and its file system has room for {available}: what a guest \
         writes would not be taken"
    )]
    NoRoom { path: PathBuf, needed: u64, available: u64 },
    #[error("the disk image {path} is in use by another program, perhaps by a QEMU that runs the machine already")]
    InUse { path: PathBuf },
}

impl ImageError {
    /// What the user may do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { .. } => "see that it is there, that there is room, and that this user may read and write it",
            Self::NoFile { .. } => "name the image itself, or the device",
            Self::Format { .. } => {
                "`qemu-img check -r all IMAGE` mends one that was left open; one with a backing file becomes one \
                 without: `qemu-img convert -O qcow2 SOURCE IMAGE`"
            }
            Self::Size { .. } => "move the file away if it belongs to another machine: a new one is made and copied",
            Self::NoRoom { .. } => "free some, or name another folder as `disks` in host.toml",
            Self::InUse { .. } => "end the other program first; `fuser IMAGE` names it",
        }
    }
}

/// Where the image of a disk is, and how it holds the disk's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageFile {
    pub path: PathBuf,
    #[serde(default)]
    pub format: Format,
}

impl ImageFile {
    /// A raw image.
    pub fn raw(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: Format::Raw }
    }
}

/// An image that is this process's alone while it is open.
#[derive(Debug)]
pub struct Image {
    medium: Medium,
    path: PathBuf,
    bytes: u64,
}

impl Image {
    /// Open the image of a disk of so many bytes.
    pub fn open(file: &ImageFile, bytes: u64) -> Result<Self, ImageError> {
        Self::open_as(file, bytes, true)
    }

    /// See that [`Image::open`] would succeed; nothing of it is changed.
    pub fn look(file: &ImageFile, bytes: u64) -> Result<(), ImageError> {
        Self::open_as(file, bytes, false).map(drop)
    }

    fn open_as(ImageFile { path, format }: &ImageFile, bytes: u64, is_written: bool) -> Result<Self, ImageError> {
        let failed = |what| move |source| ImageError::Io { path: path.into(), what, source };
        let kind = std::fs::metadata(path).map_err(failed("read"))?.file_type();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        if kind.is_block_device() {
            // Nobody has mounted it, and nobody will.
            options.custom_flags(libc::O_EXCL);
        } else if !kind.is_file() {
            // Before it is opened: a pipe would be waited for.
            let found = if kind.is_dir() { "a folder" } else { "a pipe, a socket or another kind of device" };
            return Err(ImageError::NoFile { path: path.into(), found });
        }
        let in_use = || ImageError::InUse { path: path.into() };
        let file = options.open(path).map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => in_use(),
            _ => failed("opened")(error),
        })?;
        let lock =
            libc::flock { l_type: F_WRLCK, l_whence: SEEK_SET, l_start: LOCKED_FROM, l_len: LOCKED_BYTES, l_pid: 0 };
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)) {
            Ok(_) => {}
            Err(nix::Error::EAGAIN | nix::Error::EACCES) => return Err(in_use()),
            Err(errno) => return Err(failed("locked")(errno.into())),
        }
        let medium = Medium::open(file, *format, is_written)
            .map_err(|source| ImageError::Format { path: path.into(), source })?;
        let found = medium.bytes().map_err(failed("read"))?;
        if found != bytes {
            return Err(ImageError::Size { path: path.into(), found, expected: bytes });
        }
        Ok(Self { medium, path: path.into(), bytes })
    }

    /// The same; where there is none, make a raw one that is all zeros and takes no room yet. There must be room for
    /// all of it.
    pub fn open_or_make(file: &ImageFile, bytes: u64) -> Result<Self, ImageError> {
        let path = &file.path;
        let failed = |what, source| ImageError::Io { path: path.into(), what, source };
        // A link whose target is gone is somebody's mistake: nothing is made at its other end.
        if path.is_symlink() || path.exists() {
            let image = Self::open(file, bytes)?;
            image.check_room()?;
            return Ok(image);
        }
        if let Some(folder) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| failed("made", error))?;
        }
        // What a guest keeps on its disk is nobody else's business.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let made = made.map_err(|error| failed("made", error))?;
        made.set_len(bytes).map_err(|error| failed("made", error))?;
        let image = Self::open(&ImageFile::raw(path), bytes)?;
        image.check_room().inspect_err(|_| drop(std::fs::remove_file(path)))?;
        Ok(image)
    }

    /// See that [`Image::open_or_make`] would succeed; nothing is made.
    pub fn check(file: &ImageFile, bytes: u64) -> Result<(), ImageError> {
        let path = &file.path;
        if path.is_symlink() || path.exists() {
            return Self::open_as(file, bytes, false)?.check_room();
        }
        let failed = |source| ImageError::Io { path: path.into(), what: "made", source };
        let folder = path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
        let room = statvfs(folder).map_err(|errno| failed(errno.into()))?;
        enough(&room, bytes, path)
    }

    /// See that the file system could take all that has no room yet.
    fn check_room(&self) -> Result<(), ImageError> {
        let failed = |source| ImageError::Io { path: self.path.clone(), what: "read", source };
        let needed = self.medium.may_grow_by(self.bytes).map_err(failed)?;
        let room = fstatvfs(self.medium.file()).map_err(|errno| failed(errno.into()))?;
        enough(&room, needed, &self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.medium.read_at(into, offset)
    }

    /// Wait until all that was written is on the medium.
    pub fn sync(&self) -> io::Result<()> {
        self.medium.sync()
    }

    /// Write what an epoch, or a part of the first copy, has of this disk.
    pub fn apply(&self, write: &Write) -> io::Result<()> {
        if write.offset.checked_add(write.len()).is_none_or(|end| end > self.bytes) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a write goes beyond the end of the disk"));
        }
        match &write.content {
            Content::Data(data) => self.medium.write_at(data, write.offset),
            Content::Zeroes(0) => Ok(()),
            Content::Zeroes(bytes) => self.medium.zero(write.offset, *bytes),
        }
    }

    /// How many blocks it has; the last one may be shorter than the others.
    pub fn blocks(&self) -> u64 {
        self.bytes.div_ceil(BLOCK_BYTES)
    }

    /// The range of bytes of a block.
    fn range(&self, block: u64) -> (u64, usize) {
        let begin = block * BLOCK_BYTES;
        let length = self.bytes.saturating_sub(begin).min(BLOCK_BYTES);
        (begin, usize::try_from(length).unwrap_or(0))
    }

    /// The content of a block, in place of what is in `into`.
    pub fn read_block(&self, block: u64, into: &mut Vec<u8>) -> io::Result<()> {
        let (begin, length) = self.range(block);
        into.resize(length, 0);
        self.read_at(into, begin)
    }

    /// The digests of some blocks, one after the other. What has no room yet is not read.
    pub fn digests(&self, first: u64, count: u64) -> io::Result<Vec<BlockDigest>> {
        let mut content = Vec::new();
        let mut data_from = None;
        let mut digests = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        for block in first..first + count {
            let (begin, length) = self.range(block);
            if data_from.is_none_or(|from| from < begin) {
                data_from = Some(self.medium.data_from(begin, self.bytes)?);
            }
            let is_hole = data_from.is_some_and(|from| from >= begin + length as u64);
            digests.push(if is_hole {
                BlockDigest::of(&ZERO_BLOCK[..length])
            } else {
                self.read_block(block, &mut content)?;
                BlockDigest::of(&content)
            });
        }
        Ok(digests)
    }
}

fn enough(room: &StatVfs, needed: u64, path: &Path) -> Result<(), ImageError> {
    let available = room.f_bavail.saturating_mul(room.f_frsize);
    if needed <= available {
        return Ok(());
    }
    Err(ImageError::NoRoom { path: path.to_owned(), needed, available })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    const LENGTH: u64 = 3 * BLOCK_BYTES + 1024;

    fn image(folder: &tempfile::TempDir) -> Image {
        Image::open_or_make(&ImageFile::raw(folder.path().join("new/disk.raw")), LENGTH).unwrap()
    }

    #[test]
    fn a_new_image_is_zeros_takes_no_room_and_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(&folder);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(image.path()), mode(image.path().parent().unwrap())), (0o600, 0o700));
        let zero = BlockDigest::of(&ZERO_BLOCK);
        let digests = image.digests(0, image.blocks()).unwrap();
        assert_eq!(digests[..3], [zero, zero, zero]);
        assert_eq!(digests[3], BlockDigest::of(&ZERO_BLOCK[..1024]));
        let mut block = Vec::new();
        image.read_block(3, &mut block).unwrap();
        assert_eq!(block, [0; 1024]);
    }

    #[test]
    fn an_image_that_has_no_room_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge.raw");
        let file = ImageFile::raw(&path);
        for refused in [Image::check(&file, 1 << 43).unwrap_err(), Image::open_or_make(&file, 1 << 43).unwrap_err()] {
            assert!(matches!(refused, ImageError::NoRoom { needed, .. } if needed == 1 << 43), "{refused}");
        }
        Image::check(&file, LENGTH).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn what_is_applied_is_read_and_changes_the_digest_of_its_block_alone() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(&folder);
        let before = image.digests(0, 4).unwrap();
        let data = |offset, content: &[u8]| Write { disk: 0, offset, content: Content::Data(content.to_vec()) };
        image.apply(&data(BLOCK_BYTES + 5, b"hello")).unwrap();
        image.apply(&Write { disk: 0, offset: BLOCK_BYTES + 6, content: Content::Zeroes(2) }).unwrap();
        let mut found = [0; 5];
        image.read_at(&mut found, BLOCK_BYTES + 5).unwrap();
        assert_eq!(&found, b"h\0\0lo");
        let after = image.digests(0, 4).unwrap();
        let differing: Vec<usize> = (0..4).filter(|&block| before[block] != after[block]).collect();
        assert_eq!(differing, [1]);
        let beyond = image.apply(&data(LENGTH - 4, b"hello")).unwrap_err();
        assert!(beyond.to_string().contains("beyond the end"), "{beyond}");
        assert_eq!(std::fs::metadata(image.path()).unwrap().len(), LENGTH);
    }

    #[test]
    fn an_image_is_one_members_alone() {
        let folder = tempfile::tempdir().unwrap();
        let first = image(&folder);
        let file = ImageFile::raw(first.path());
        let second = Image::open(&file, LENGTH).unwrap_err();
        assert!(matches!(second, ImageError::InUse { .. }), "{second}");
        drop(first);
        Image::open(&file, LENGTH).unwrap();
    }

    #[test]
    fn what_is_no_image_of_that_size_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = ImageFile::raw(image(&folder).path());
        let other = Image::open_or_make(&file, LENGTH + 512).unwrap_err();
        assert!(matches!(other, ImageError::Size { found: LENGTH, .. }), "{other}");
        for no_image in [folder.path(), Path::new("/dev/null")] {
            assert!(matches!(Image::open(&ImageFile::raw(no_image), LENGTH), Err(ImageError::NoFile { .. })));
        }
        let unformatted = Image::open(&ImageFile { format: Format::Qcow2, ..file }, LENGTH).unwrap_err();
        assert!(matches!(unformatted, ImageError::Format { .. }), "{unformatted}");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("gone"), &link).unwrap();
        assert!(matches!(Image::open_or_make(&ImageFile::raw(link), LENGTH), Err(ImageError::Io { .. })));
        assert!(!folder.path().join("gone").exists(), "nothing is made where a link leads");
    }
}
