//! A register in a folder of one machine: each version is a file, made by link(2).
//!
//! `link` gives a name to a file that is complete, and fails if the name exists: a compare-and-swap without a
//! lock. A process that is stopped in the middle, as ours is in some tests and by `kill -STOP`, blocks
//! nobody; with flock(2) the standby would wait for a member that holds the lock and does not run. Until then
//! the file has a random name and was made by nobody else (`O_EXCL`): a process id would not do, since
//! members in different PID namespaces may share one.
//!
//! Files are named `VM.NUMBER.json`. Old ones are removed lowest number first, and some are kept, so that a
//! name is never free again while a version below it exists: that is what makes both checks below sound.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::{Register, RegisterError, SwapOutcome};
use crate::{Record, Version, Versioned, check_vm_name};

/// How many versions below the newest are kept: a swap would have to sleep through all of them to be
/// confused.
const KEPT_VERSIONS: u64 = 16;

/// An unfinished file this old is of a process that was killed. One that was only stopped fails to link it,
/// and swaps anew.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// A register in a folder on a file system that both members see.
#[derive(Debug, Clone)]
pub struct FileRegister {
    folder: PathBuf,
}

impl FileRegister {
    /// Use `folder`, and make it if it does not exist.
    pub fn open(folder: &Path) -> Result<Self, RegisterError> {
        // To make one that is there waits for a file system that is frozen, and to look at it does not.
        if !folder.is_dir() {
            fs::create_dir_all(folder).map_err(|error| {
                RegisterError::Setup(format!("the folder {} cannot be made: {error}", folder.display()))
            })?;
        }
        Ok(Self::at(folder))
    }

    /// Use `folder`, which is there. Touches no file, so that it takes no time where a file system hangs.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn path(&self, vm: &str, number: u64) -> PathBuf {
        self.folder.join(format!("{vm}.{number:020}.json"))
    }

    fn failed(&self, error: &io::Error) -> RegisterError {
        RegisterError::Unreachable { register: self.describe(), reason: error.to_string() }
    }

    /// The numbers of the versions that exist.
    fn numbers(&self, vm: &str) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let number: Option<u64> = name
                .to_str()
                .and_then(|name| name.strip_prefix(vm)?.strip_prefix('.')?.strip_suffix(".json"))
                .and_then(|number| number.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The newest version and its content.
    fn newest(&self, vm: &str) -> io::Result<Option<(u64, Vec<u8>)>> {
        // A listing is no snapshot. But if the version after one does not exist, and that one exists
        // thereafter, then at the first of these moments it was the newest.
        loop {
            let Some(mut number) = self.numbers(vm)?.pop() else { return Ok(None) };
            while self.path(vm, number + 1).try_exists()? {
                number += 1;
            }
            match fs::read(self.path(vm, number)) {
                Ok(content) => return Ok(Some((number, content))),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Make version `number`; false if it exists, or existed.
    fn publish(&self, vm: &str, number: u64, record: &Record) -> io::Result<bool> {
        let mut content = serde_json::to_vec(record)?;
        content.push(b'\n');
        let path = self.path(vm, number);
        let unfinished = self.write_durably(vm, &content)?;
        match fs::hard_link(unfinished.path(), &path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        unfinished.close()?;
        if fs::read(&path)? != content {
            return Err(io::Error::other(format!("{} does not hold what was written", path.display())));
        }
        // The name was free. It may have been free again, after many versions: then the one below is gone.
        let first = match number.checked_sub(1).filter(|below| *below > 0) {
            Some(below) => self.path(vm, below).try_exists()?,
            None => self.numbers(vm)?.last() <= Some(&KEPT_VERSIONS),
        };
        if !first {
            fs::remove_file(path)?;
            return Ok(false);
        }
        File::open(&self.folder)?.sync_all()?;
        Ok(true)
    }

    fn remove_old(&self, vm: &str, newest: u64) -> io::Result<()> {
        for number in self.numbers(vm)?.into_iter().take_while(|number| number + KEPT_VERSIONS < newest) {
            match fs::remove_file(self.path(vm, number)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let is_unfinished = entry.file_name().to_str().is_some_and(|name| name.starts_with(&unfinished_prefix(vm)));
            let age = || Ok::<_, io::Error>(entry.metadata()?.modified()?.elapsed().unwrap_or_default());
            if is_unfinished && age()? > ABANDONED_AFTER {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// A complete file under a name that nobody reads.
    fn write_durably(&self, vm: &str, content: &[u8]) -> io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().prefix(&unfinished_prefix(vm)).tempfile_in(&self.folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        Ok(file)
    }
}

fn unfinished_prefix(vm: &str) -> String {
    format!(".{vm}.")
}

impl Register for FileRegister {
    fn read(&mut self, vm: &str) -> Result<Option<Versioned>, RegisterError> {
        check_vm_name(vm).map_err(|error| RegisterError::Setup(error.to_string()))?;
        let Some((number, content)) = self.newest(vm).map_err(|error| self.failed(&error))? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&content).map_err(|error| RegisterError::Corrupt {
            register: self.describe(),
            vm: vm.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Some(Versioned { version: Version(number), record }))
    }

    fn swap(&mut self, vm: &str, expected: Option<Version>, wanted: &Record) -> Result<SwapOutcome, RegisterError> {
        let current = self.read(vm)?;
        if current.as_ref().map(|current| current.version) != expected {
            return Ok(SwapOutcome::Lost(current));
        }
        let number = expected.map_or(0, |version| version.0) + 1;
        if !self.publish(vm, number, wanted).map_err(|error| self.failed(&error))? {
            return Ok(SwapOutcome::Lost(self.read(vm)?));
        }
        // That old versions stay is no reason to say that the swap failed.
        let _ = self.remove_old(vm, number);
        Ok(SwapOutcome::Won(Version(number)))
    }

    fn another(&self) -> Option<Box<dyn Register>> {
        Some(Box::new(Self::at(&self.folder)))
    }

    fn describe(&self) -> String {
        format!("in the folder {}", self.folder.display())
    }
}
