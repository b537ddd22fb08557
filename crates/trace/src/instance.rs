//! A set of ring buffers of our own: a folder under `instances/`, which others' tracing does not touch.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;

use crate::error::TraceError;
use crate::mark;
use crate::tracefs::Tracefs;

const INSTANCES: &str = "instances";
const CLOCK: &str = "trace_clock";
const WANTED_CLOCK: &str = "x86-tsc";

/// The longest description of an event, that of `kvm_exit`, has 5 KiB.
const READ_BYTES: usize = 64 << 10;

/// An instance; removed when it goes out of scope.
#[derive(Debug)]
pub struct Instance {
    tracefs: Arc<Tracefs>,
    /// From the root of tracefs on.
    folder: PathBuf,
}

impl Instance {
    /// Makes one that records nothing yet, with the clock `x86-tsc`.
    ///
    /// # Errors
    /// If tracefs refuses, or does not have that clock.
    pub fn create(tracefs: Arc<Tracefs>) -> Result<Self, TraceError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = mark::own(NUMBER.fetch_add(1, Ordering::Relaxed));
        let name = name.map_err(TraceError::file(Path::new("/proc/self")))?;
        let folder = Path::new(INSTANCES).join(name);
        fs::create_dir(tracefs.path(&folder)).map_err(TraceError::file(&folder))?;
        let instance = Self { tracefs, folder };
        instance.write("tracing_on", "0")?;
        let offered = instance.read(CLOCK)?;
        if !offered.split_ascii_whitespace().any(|clock| clock.trim_matches(['[', ']']) == WANTED_CLOCK) {
            return Err(TraceError::Clock { offered: offered.trim().to_owned() });
        }
        instance.write(CLOCK, WANTED_CLOCK)?;
        Ok(instance)
    }

    pub fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }

    pub fn clock(&self) -> &'static str {
        WANTED_CLOCK
    }

    fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.tracefs.path(self.folder.join(file))
    }

    pub fn read(&self, file: impl AsRef<Path>) -> Result<String, TraceError> {
        read_at_once(&self.path(&file)).map_err(TraceError::file(&self.folder.join(file)))
    }

    /// Writes one of its files, in one call as tracefs wants it.
    pub fn write(&self, file: impl AsRef<Path>, text: &str) -> Result<(), TraceError> {
        let mut opened = self.open_to_write(&file)?;
        opened.write_all(text.as_bytes()).map_err(TraceError::file(&self.folder.join(file)))
    }

    pub fn open_to_write(&self, file: impl AsRef<Path>) -> Result<File, TraceError> {
        let opened = OpenOptions::new().write(true).open(self.path(&file));
        opened.map_err(TraceError::file(&self.folder.join(file)))
    }

    /// Opens one of its files so that a reading never waits.
    pub fn open_without_waiting(&self, file: impl AsRef<Path>) -> Result<File, TraceError> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(self.path(&file));
        opened.map_err(TraceError::file(&self.folder.join(file)))
    }

    /// The names in one of its folders, sorted; none if there is no such folder.
    pub fn list(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// Reads a file with few system calls: of `events/header_page` the kernel gives nothing after the first
/// (`show_header()` in `kernel/trace/trace_events.c`), and `fs::read_to_string` begins with a small one.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    let mut piece = vec![0; READ_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            count => text.extend_from_slice(&piece[..count]),
        }
    }
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A failure leaves the mark, and the next start tries again.
        let _ = remove(&self.tracefs, &self.folder);
    }
}

fn remove(tracefs: &Tracefs, folder: &Path) -> io::Result<()> {
    let path = tracefs.path(folder);
    fs::write(path.join("tracing_on"), "0")?;
    fs::remove_dir(path)
}

/// Removes the instances of processes that are gone; gives their names.
///
/// A kernel without tracefs, or one that refuses it, holds no instance of ours.
pub fn remove_leftovers() -> io::Result<Vec<String>> {
    let Ok(tracefs) = Tracefs::open() else { return Ok(Vec::new()) };
    let Ok(entries) = fs::read_dir(tracefs.path(INSTANCES)) else { return Ok(Vec::new()) };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut removed = Vec::new();
    for name in names.filter(|name| mark::is_left_over(name)) {
        match remove(&tracefs, &Path::new(INSTANCES).join(&name)) {
            Ok(()) => removed.push(name),
            // Another start was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}
