//! What the probe `disk` transfers from or to: opened, looked over, and refused if anything could be lost that nobody
//! gave up, before a byte is written.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use stealtime_wire::{Disk, DiskOperation, DiskTarget, Finding, FindingLevel};

use super::mark;
use crate::error::TrialError;
use crate::sys::{allocate, direct_alignment, free_bytes};

/// Names the marked disk of a machine in whose `/dev` it is not.
const ENVIRONMENT: &str = "STEALTIME_DISK";

/// A disk on an emulated bus is there a second or two after its driver.
const DISKS_COME_UP: Duration = Duration::from_secs(5);

/// Where nothing tells, transfers of this size may go past the kernel's cache.
const SMALLEST_BLOCK_BYTES: u32 = 512;

/// A target that is open for transfers.
#[derive(Debug)]
pub struct Target {
    pub file: File,
    pub path: PathBuf,
    /// Where transfers begin.
    pub first_byte: u64,
    /// How many of them fit without meeting.
    pub blocks: u64,
    /// What a reader must know.
    pub finding: Option<Finding>,
}

/// Opens what a request asks for.
///
/// # Errors
/// [`TrialError::Target`], with nothing written unless that was asked for.
pub fn open(disk: &Disk) -> Result<Target, TrialError> {
    match &disk.target {
        DiskTarget::Scratch { folder, bytes } => scratch(disk, Path::new(folder), *bytes),
        DiskTarget::Given { path, overwrite } => existing(disk, Path::new(path), *overwrite, 0),
        DiskTarget::Marked { path, device } => {
            let path = marked(path.as_deref(), device.as_deref())?;
            existing(disk, &path, true, mark::FIRST_BYTE)
        }
    }
}

fn refused(path: &Path, trouble: impl Into<String>, hint: impl Into<String>) -> TrialError {
    TrialError::Target { target: path.display().to_string(), trouble: trouble.into(), hint: Some(hint.into()) }
}

fn marked(path: Option<&str>, device: Option<&str>) -> Result<PathBuf, TrialError> {
    if let Some(named) = path.map(PathBuf::from).or_else(|| std::env::var_os(ENVIRONMENT).map(PathBuf::from)) {
        return Ok(named);
    }
    let dev = Path::new("/dev");
    let begun = Instant::now();
    loop {
        let all = mark::marked_devices();
        let fits = |called: &str| device.is_none_or(|wanted| wanted == called);
        let found: Vec<_> = all.iter().filter(|(_, called)| fits(called)).map(|(path, _)| path).collect();
        let listed =
            |paths: &[&PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        match found[..] {
            [one] => return Ok(one.clone()),
            // The kernel may still be looking for disks.
            [] if begun.elapsed() < DISKS_COME_UP => thread::sleep(Duration::from_millis(100)),
            [] => {
                let which = device.map(|name| format!(" for the device {name}")).unwrap_or_default();
                let there: Vec<_> =
                    all.iter().map(|(path, called)| format!("{} ({called:?})", path.display())).collect();
                let others = if there.is_empty() { String::new() } else { format!(", only {}", there.join(", ")) };
                let hint = "make one with `stealtime-agent mark-disk FILE`, and give it to the machine as a disk";
                return Err(refused(dev, format!("has no disk with the mark of stealtime{which}{others}"), hint));
            }
            [..] => {
                let hint = format!("name the device that is meant, or set {ENVIRONMENT}");
                return Err(refused(dev, format!("has several marked disks: {}", listed(&found)), hint));
            }
        }
    }
}

fn existing(disk: &Disk, path: &Path, may_overwrite: bool, first_byte: u64) -> Result<Target, TrialError> {
    let writes = disk.operation == DiskOperation::Write;
    let metadata = fs::metadata(path).map_err(|error| not_opened(path, &error, writes))?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        return Err(refused(path, "is a folder", "have a new file made there: --scratch FOLDER"));
    }
    if !kind.is_file() && !kind.is_block_device() {
        return Err(refused(path, "is neither a file nor a block device", "name a disk or a file on one"));
    }
    if writes && !may_overwrite {
        let hint = "if that is wanted, say --overwrite; or have a new file made with --scratch FOLDER";
        return Err(refused(path, "was not given up: writing would destroy what it holds", hint));
    }
    if writes && let Some(device) = loop_device_of(path) {
        let hint = "detach it first (losetup -d), or transfer to the device";
        return Err(refused(path, format!("is in use: it is the disk of {device}"), hint));
    }
    // Before it is opened for writing, which a device that is in use may take.
    if first_byte > 0 {
        let bears = File::open(path).and_then(|mut file| mark::device_of(&mut file));
        if bears.map_err(|error| not_opened(path, &error, false))?.is_none() {
            let hint = "only a disk that was made with `stealtime-agent mark-disk` is taken as a marked one";
            return Err(refused(path, "does not bear the mark of stealtime", hint));
        }
    }
    let file = open_direct(path, writes, writes && kind.is_block_device())?;
    let bytes = if kind.is_file() { metadata.len() } else { size_of_device(&file, path)? };
    let align = if kind.is_file() { direct_alignment(&file) } else { logical_block_bytes(&metadata) };
    let blocks = blocks(disk, path, bytes.saturating_sub(first_byte), align.unwrap_or(SMALLEST_BLOCK_BYTES))?;
    let finding = (kind.is_file() && !writes).then(|| sparse(path, &metadata)).flatten();
    Ok(Target { file, path: path.to_owned(), first_byte, blocks, finding })
}

/// A new file without a name; on file systems that have none, its name is taken away at once.
fn scratch(disk: &Disk, folder: &Path, bytes: u64) -> Result<Target, TrialError> {
    let metadata = fs::metadata(folder).map_err(|error| not_opened(folder, &error, true))?;
    if !metadata.is_dir() {
        return Err(refused(folder, "is no folder", "name a folder for the scratch file, or the file with --target"));
    }
    let free = free_bytes(folder).map_err(|error| not_opened(folder, &error, true))?;
    let full = |free: u64| {
        refused(
            folder,
            format!("has {free} bytes free on its file system, fewer than the {bytes} of the scratch file"),
            "make room, choose another folder, or ask for a smaller file (--size)",
        )
    };
    if free < bytes {
        return Err(full(free));
    }
    let mut file = unnamed(folder).map_err(|error| not_opened(folder, &error, true))?;
    let made = match allocate(&file, bytes) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        made => made,
    };
    let made = made.and_then(|()| mark::fill(&mut file, bytes, disk.seed)).and_then(|()| file.sync_all());
    made.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => full(free_bytes(folder).unwrap_or(0)),
        _ => not_opened(folder, &error, true),
    })?;
    // The same file again, past the cache: what was written through it must not be aligned.
    let again = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    let direct = open_direct(&again, disk.operation == DiskOperation::Write, false).map_err(|error| match error {
        TrialError::Target { trouble, hint, .. } => {
            TrialError::Target { target: folder.display().to_string(), trouble, hint }
        }
        other => other,
    })?;
    let align = direct_alignment(&direct).unwrap_or(SMALLEST_BLOCK_BYTES);
    let blocks = blocks(disk, folder, bytes, align)?;
    Ok(Target { file: direct, path: folder.to_owned(), first_byte: 0, blocks, finding: None })
}

fn unnamed(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        // EISDIR is what a kernel or file system says that does not know the flag.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {
            let path = folder.join(format!(".stealtime-scratch-{}", std::process::id()));
            let file = options.create_new(true).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        opened => opened,
    }
}

/// Opens past the kernel's cache; `alone` refuses a device that is mounted or otherwise in use.
fn open_direct(path: &Path, writes: bool, alone: bool) -> Result<File, TrialError> {
    let flags = libc::O_DIRECT | if alone { libc::O_EXCL } else { 0 };
    let opened = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path);
    opened.map_err(|error| not_opened(path, &error, writes))
}

fn not_opened(path: &Path, error: &io::Error, writes: bool) -> TrialError {
    let way = if writes { "writing" } else { "reading" };
    let (trouble, hint) = match error.raw_os_error() {
        Some(libc::ENOENT) => ("does not exist".to_owned(), "look at the path, or have a file made: --scratch FOLDER"),
        Some(libc::EBUSY) => {
            ("is in use: mounted, swap, or part of another device".to_owned(), "unmount it first, or name another disk")
        }
        Some(libc::EROFS) => ("is read-only".to_owned(), "read it instead, or name a disk that may be written to"),
        Some(libc::EACCES | libc::EPERM) => {
            (format!("may not be opened for {way}: {error}"), "run as root, or be given the right to it")
        }
        Some(libc::EINVAL) => (
            "is on a file system that does not transfer past the kernel's cache (O_DIRECT)".to_owned(),
            "name a file on another file system, or a loop device of the file",
        ),
        Some(libc::ENXIO | libc::ENOMEDIUM) => ("is a device without a disk".to_owned(), "name another disk"),
        _ => (format!("cannot be opened for {way}: {error}"), "name another disk or file"),
    };
    refused(path, trouble, hint)
}

/// The loop device that has a file as its disk.
fn loop_device_of(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let devices = fs::read_dir("/sys/block").ok()?.flatten();
    devices.map(|one| one.file_name().to_string_lossy().into_owned()).find(|name| {
        let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        backing.is_ok_and(|backing| Path::new(backing.trim_end()) == path)
    })
}

fn size_of_device(mut file: &File, path: &Path) -> Result<u64, TrialError> {
    use std::io::{Seek, SeekFrom};
    file.seek(SeekFrom::End(0)).map_err(|error| not_opened(path, &error, false))
}

/// As the kernel tells of the disk, or of the one that a partition is of.
fn logical_block_bytes(metadata: &Metadata) -> Option<u32> {
    let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let read = |folder: &Path| fs::read_to_string(folder.join("queue/logical_block_size")).ok();
    read(&folder).or_else(|| read(&folder.join(".."))).and_then(|text| text.trim().parse().ok())
}

fn blocks(disk: &Disk, path: &Path, bytes: u64, align: u32) -> Result<u64, TrialError> {
    let size = disk.block_bytes;
    if !size.is_multiple_of(align) {
        let hint = format!("use a multiple of {align}, for example {}", align.max(4096));
        return Err(refused(path, format!("has blocks of {align} bytes, and {size} is no multiple of that"), hint));
    }
    let span = disk.span_bytes.unwrap_or(bytes);
    if span > bytes {
        let hint = "ask for less (--span), or name a larger target";
        return Err(refused(path, format!("has {bytes} bytes to use, fewer than the {span} asked for"), hint));
    }
    let blocks = span / u64::from(size);
    if blocks < u64::from(disk.depth) {
        let hint = "use smaller blocks, a lower --depth, or a larger target";
        let trouble = format!("has {span} bytes to use, fewer than {} blocks of {size} bytes", disk.depth);
        return Err(refused(path, trouble, hint));
    }
    // What the table's column can tell apart.
    Ok(blocks.min(u64::from(u32::MAX - 1)))
}

/// What it means that parts of a file are not there.
fn sparse(path: &Path, metadata: &Metadata) -> Option<Finding> {
    let stored = metadata.blocks().saturating_mul(512);
    (stored < metadata.len()).then(|| Finding {
        code: "target_sparse".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "{} has {} bytes of which {stored} are stored: reads of the others never reach a disk",
            path.display(),
            metadata.len()
        ),
        hint: Some("write all of it first".to_owned()),
    })
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
