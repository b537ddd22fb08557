//! What holds the bytes of a disk: a raw file, a block device, or an image of QEMU's own format.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, Mapping};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::copying::{BLOCK_BYTES, ZERO_BLOCK};

/// What stat(2) counts in.
const STAT_BLOCK_BYTES: u64 = 512;

/// How a file holds the bytes of a disk. It is always said: a guest writes what it likes to the beginning of its disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// As it is, in a file or a block device.
    #[default]
    Raw,
    /// QEMU's format: one file, without a backing file, a file for data or snapshots.
    Qcow2,
}

impl Format {
    pub const ALL: [Self; 2] = [Self::Raw, Self::Qcow2];

    /// As `qemu-img` calls it, and as files end.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

type Qcow2Image = FormatAccess<imago::file::File>;

#[derive(Debug)]
pub(crate) enum Medium {
    Raw(File),
    /// Who discards needs it for itself: others may be about to use what becomes free.
    Qcow2 {
        image: RwLock<Qcow2Image>,
        file: File,
    },
}

impl Medium {
    /// `is_written`: else nothing is changed, and its header stays as it is.
    pub fn open(file: File, format: Format, is_written: bool) -> io::Result<Self> {
        match format {
            Format::Raw => Ok(Self::Raw(file)),
            Format::Qcow2 => {
                // No other file is opened, whatever the image names.
                let storage = imago::file::File::try_from(file.try_clone()?)?;
                let image =
                    Qcow2::<_, Qcow2Image>::builder(storage).write(is_written).open(DenyImplicitOpenGate::default())?;
                Ok(Self::Qcow2 { image: RwLock::new(FormatAccess::new(image)), file })
            }
        }
    }

    /// The length of the disk.
    pub fn bytes(&self) -> io::Result<u64> {
        match self {
            // The length of a device is in none of its metadata.
            Self::Raw(file) => Ok(seek(file, SeekFrom::End(0))?),
            Self::Qcow2 { image, .. } => Ok(shared(image).size()),
        }
    }

    /// How many bytes its file may still grow by.
    pub fn may_grow_by(&self, bytes: u64) -> io::Result<u64> {
        let (Self::Raw(file) | Self::Qcow2 { file, .. }) = self;
        let metadata = file.metadata()?;
        if metadata.file_type().is_block_device() {
            return Ok(0);
        }
        Ok(bytes.saturating_sub(metadata.blocks() * STAT_BLOCK_BYTES))
    }

    pub fn file(&self) -> &File {
        let (Self::Raw(file) | Self::Qcow2 { file, .. }) = self;
        file
    }

    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Raw(file) => file.read_exact_at(into, offset),
            Self::Qcow2 { image, .. } => shared(image).read(into, offset),
        }
    }

    /// Afterwards the file has all of it, whatever becomes of this process.
    pub fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::Raw(file) => file.write_all_at(data, offset),
            Self::Qcow2 { image, .. } => {
                let image = shared(image);
                image.write(data, offset)?;
                image.flush()
            }
        }
    }

    /// Have zeros in a range, which takes no room then where that is possible.
    pub fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match self {
            Self::Raw(file) => {
                match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes) {
                    Ok(()) => Ok(()),
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(offset, bytes),
                    Err(errno) => Err(errno.into()),
                }
            }
            Self::Qcow2 { image, .. } => {
                let mut image = alone(image);
                image.discard_to_zero(offset, bytes)?;
                image.flush()
            }
        }
    }

    fn write_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let part = &ZERO_BLOCK[..usize::try_from((end - at).min(BLOCK_BYTES)).unwrap_or(ZERO_BLOCK.len())];
            self.write_at(part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Wait until all that was written is on the medium.
    pub fn sync(&self) -> io::Result<()> {
        self.file().sync_data()
    }

    /// Where the first byte is from `offset` on that may be another than zero; the disk's length if there is none.
    pub fn data_from(&self, offset: u64, bytes: u64) -> io::Result<u64> {
        match self {
            Self::Raw(file) => match seek(file, SeekFrom::Data(offset)) {
                Ok(from) => Ok(from),
                Err(Errno::NXIO) => Ok(bytes),
                // Then it is all read.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(offset),
                Err(errno) => Err(errno.into()),
            },
            Self::Qcow2 { image, .. } => {
                let image = shared(image);
                let mut at = offset;
                while at < bytes {
                    match image.get_mapping(at, bytes - at)? {
                        (Mapping::Zero { .. }, length) if length > 0 => at += length,
                        _ => return Ok(at),
                    }
                }
                Ok(bytes)
            }
        }
    }
}

// A thread that panicked has left the image as any end of the process would.

fn shared(image: &RwLock<Qcow2Image>) -> RwLockReadGuard<'_, Qcow2Image> {
    image.read().unwrap_or_else(PoisonError::into_inner)
}

fn alone(image: &RwLock<Qcow2Image>) -> RwLockWriteGuard<'_, Qcow2Image> {
    image.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::path::Path;

    use imago::{FormatCreateBuilder, PermissiveImplicitOpenGate};
    use proptest::prelude::*;

    use super::*;

    const LENGTH: u64 = 200 << 10;

    fn file(path: &Path) -> File {
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    /// An image of small clusters, so that a test soon needs more than one table of them.
    fn make_qcow2(path: &Path) {
        File::create(path).unwrap();
        let storage = imago::file::File::try_from(file(path)).unwrap();
        Qcow2::<_, Qcow2Image>::create_builder(storage).size(LENGTH).cluster_size(512).create().unwrap();
    }

    fn content(medium: &Medium) -> Vec<u8> {
        let mut content = vec![0xff; usize::try_from(LENGTH).unwrap()];
        medium.read_at(&mut content, 0).unwrap();
        content
    }

    #[derive(Debug, Clone)]
    enum Change {
        Write(u8),
        Zero,
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// Also of an image that nobody has closed: who is killed has written all the same.
        #[test]
        fn each_change_is_in_the_file_at_once(
            changes in proptest::collection::vec(
                (prop_oneof![(1..=255_u8).prop_map(Change::Write), Just(Change::Zero)], 0..LENGTH, 1..9000_u64), 1..30,
            )
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("disk.qcow2");
            make_qcow2(&path);
            let medium = Medium::open(file(&path), Format::Qcow2, true).unwrap();
            let mut model = vec![0; usize::try_from(LENGTH).unwrap()];
            for (change, offset, length) in changes {
                let length = length.min(LENGTH - offset);
                let at = usize::try_from(offset).unwrap();
                let range = at..at + usize::try_from(length).unwrap();
                match change {
                    Change::Write(byte) => {
                        model[range.clone()].fill(byte);
                        medium.write_at(&model[range], offset).unwrap();
                    }
                    Change::Zero => {
                        model[range].fill(0);
                        medium.zero(offset, length).unwrap();
                    }
                }
                let beside = Medium::open(file(&path), Format::Qcow2, true).unwrap();
                prop_assert!(content(&beside) == model, "another reader sees something else");
                let data = medium.data_from(offset, LENGTH).unwrap();
                let skipped = &model[at..usize::try_from(data).unwrap()];
                prop_assert!(skipped.iter().all(|byte| *byte == 0), "data are taken for a hole");
            }
            prop_assert!(content(&medium) == model);
        }
    }

    #[test]
    fn what_is_not_in_an_image_itself_is_not_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let [backing, path] = ["backing.qcow2", "disk.qcow2"].map(|name| folder.path().join(name));
        make_qcow2(&backing);
        File::create(&path).unwrap();
        let storage = imago::file::File::try_from(file(&path)).unwrap();
        let builder = Qcow2::<_, Qcow2Image>::create_builder(storage).size(LENGTH);
        builder.backing(backing.display().to_string(), "qcow2".to_owned()).create().unwrap();
        assert!(
            Qcow2::<imago::file::File, Qcow2Image>::builder_path(&path)
                .open(PermissiveImplicitOpenGate::default())
                .is_ok()
        );
        Medium::open(file(&path), Format::Qcow2, true).unwrap_err();
    }

    #[test]
    fn what_is_discarded_takes_no_room_in_its_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.qcow2");
        make_qcow2(&path);
        let medium = Medium::open(file(&path), Format::Qcow2, true).unwrap();
        let grown = |times: u64| {
            for _ in 0..times {
                medium.write_at(&vec![7; 100 << 10], 0).unwrap();
                medium.zero(0, 100 << 10).unwrap();
            }
            file(&path).metadata().unwrap().len()
        };
        let once = grown(1);
        assert!(grown(10) < once + (50 << 10), "what became free is used again");
        assert_eq!((medium.data_from(0, LENGTH).unwrap(), medium.bytes().unwrap()), (LENGTH, LENGTH));
    }
}
