//! Up to which term an image is current: the note beside it.
//!
//! A term is a holder and its standby, and a register hands them out. An image is current in a term if its host held
//! the machine then, or was the standby that was named.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::companion::beside;

/// Drawn by the kernel at its start.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Why a machine is not started from an image.
#[derive(Debug, thiserror::Error)]
pub enum CurrencyError {
    #[error("the disk image {image} was being copied to this host when that ended: it is of no single moment")]
    HalfCopied { image: PathBuf },
    #[error(
        "the disk image {image} is of term {found}, and the machine has run elsewhere since, up to term {newest}: what \
         it wrote there would be lost"
    )]
    LeftBehind { image: PathBuf, found: u64, newest: u64 },
    #[error(
        "the disk image {image} stood by when this host was switched off: what was written last may be on it only in part"
    )]
    Unsynchronised { image: PathBuf },
    #[error("the note {note} cannot be used: {source}")]
    Io { note: PathBuf, source: io::Error },
}

impl CurrencyError {
    /// What the user may do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::HalfCopied { .. } => {
                "start the machine on the host where it ran last, or put the image back from a backup and remove its .term file"
            }
            Self::LeftBehind { .. } => "start it on the host where it ran last; --force starts it from this image",
            Self::Unsynchronised { .. } => {
                "start the machine on the host where it ran last; --force starts it from this image"
            }
            Self::Io { .. } => "see that it is yours, or remove it if you know that the image is current",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// None while it is copied.
    term: Option<u64>,
    /// Of a standby's image, whose writes come to the medium in any order: the boot of the host in which they were
    /// made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot: Option<String>,
}

/// The note beside an image.
#[derive(Debug, Clone)]
pub struct Currency {
    image: PathBuf,
    note: PathBuf,
}

impl Currency {
    /// Of the image at this path.
    pub fn of(image: &Path) -> Self {
        Self { image: image.to_owned(), note: beside(image, ".term") }
    }

    /// The image is being copied to: until it is complete, nothing may start from it.
    pub fn begin_copy(&self) -> Result<(), CurrencyError> {
        self.put(&Note { term: None, boot: None })
    }

    /// The image is current in this term, and is as good after a power cut as any disk of this guest is.
    pub fn hold(&self, term: u64) -> Result<(), CurrencyError> {
        self.put(&Note { term: Some(term), boot: None })
    }

    /// The image is current in this term, until this host is switched off.
    pub fn stand_by(&self, term: u64) -> Result<(), CurrencyError> {
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        self.put(&Note { term: Some(term), boot: Some(boot) })
    }

    /// See that a machine may start from it which somebody had last in the term `newest`. An image without a note has
    /// never been protected from here: its user says that it is the machine's. `force`: he says so of one that was
    /// left behind, too.
    pub fn check(&self, newest: u64, force: bool) -> Result<(), CurrencyError> {
        let image = || self.image.clone();
        match self.read()? {
            Some(Note { term: None, .. }) => Err(CurrencyError::HalfCopied { image: image() }),
            Some(Note { boot: Some(boot), .. }) if !force && !is_this_boot(&boot) => {
                Err(CurrencyError::Unsynchronised { image: image() })
            }
            Some(Note { term: Some(found), .. }) if found < newest && !force => {
                Err(CurrencyError::LeftBehind { image: image(), found, newest })
            }
            None | Some(_) => Ok(()),
        }
    }

    fn read(&self) -> Result<Option<Note>, CurrencyError> {
        let failed = |source| CurrencyError::Io { note: self.note.clone(), source };
        match fs::read(&self.note) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Whatever happens meanwhile, the note is the old or the new one.
    fn put(&self, note: &Note) -> Result<(), CurrencyError> {
        let failed = |source| CurrencyError::Io { note: self.note.clone(), source };
        let written = || -> io::Result<()> {
            let mut temporary = self.note.clone().into_os_string();
            temporary.push(".new");
            let temporary = PathBuf::from(temporary);
            let mut file = fs::File::create(&temporary)?;
            file.write_all(&serde_json::to_vec(note)?)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.note)?;
            // Else the name might be the old one's after a power cut.
            fs::File::open(self.note.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        written().map_err(failed)
    }
}

fn is_this_boot(boot: &str) -> bool {
    fs::read_to_string(BOOT_ID).is_ok_and(|ours| ours.trim() == boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn currency() -> (tempfile::TempDir, Currency) {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk.raw");
        fs::write(&image, "").unwrap();
        let currency = Currency::of(&image);
        (folder, currency)
    }

    #[test]
    fn an_image_without_a_note_is_its_users_word() {
        let (_folder, currency) = currency();
        currency.check(1, false).unwrap();
        currency.check(900, false).unwrap();
    }

    #[test]
    fn an_image_starts_again_and_not_after_the_machine_ran_elsewhere() {
        let (_folder, currency) = currency();
        currency.hold(7).unwrap();
        for newest in 0..=7 {
            currency.check(newest, false).unwrap();
        }
        let refused = currency.check(8, false).unwrap_err();
        assert!(matches!(refused, CurrencyError::LeftBehind { found: 7, newest: 8, .. }), "{refused}");
        currency.check(8, true).unwrap();
    }

    #[test]
    fn an_image_that_was_being_copied_to_is_never_started_from() {
        let (folder, currency) = currency();
        currency.hold(7).unwrap();
        currency.begin_copy().unwrap();
        for force in [false, true] {
            assert!(matches!(currency.check(7, force), Err(CurrencyError::HalfCopied { .. })));
        }
        currency.hold(8).unwrap();
        currency.check(8, false).unwrap();
        // A link is what it leads to.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("disk.raw"), &link).unwrap();
        assert!(matches!(Currency::of(&link).check(90, false), Err(CurrencyError::LeftBehind { .. })));
    }

    #[test]
    fn an_image_that_stood_by_is_started_from_until_its_host_was_switched_off() {
        let (folder, currency) = currency();
        currency.stand_by(7).unwrap();
        currency.check(7, false).unwrap();
        assert!(matches!(currency.check(8, false), Err(CurrencyError::LeftBehind { .. })));
        fs::write(folder.path().join("disk.raw.term"), r#"{"term":7,"boot":"another"}"#).unwrap();
        assert!(matches!(currency.check(7, false), Err(CurrencyError::Unsynchronised { .. })));
        currency.check(7, true).unwrap();
        currency.hold(8).unwrap();
        currency.check(8, false).unwrap();
    }

    #[test]
    fn a_note_that_is_none_is_told() {
        let (folder, currency) = currency();
        fs::write(folder.path().join("disk.raw.term"), "7").unwrap();
        assert!(matches!(currency.check(1, true), Err(CurrencyError::Io { .. })));
    }
}
