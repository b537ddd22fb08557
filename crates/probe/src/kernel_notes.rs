//! Notes that the kernel keeps: beside the files of `/run`, which a container has for itself and which die with it.
//!
//! A note is a key in the user's keyring (`user-keyring(7)`): every process of the same user sees it, whatever mount,
//! PID or time namespace it is in, and it stays when the one who left it is killed, with its namespace, until it is
//! removed or the machine reboots. What it says is its description, which may be read without possessing it.

use std::io;

use linux_keyutils::{Key, KeyError, KeyRing, KeyRingIdentifier};

/// Links that are read at most; a list of more would be cut off.
const LINKS_MOST: usize = 1 << 16;

/// The notes whose description begins in one way.
#[derive(Debug, Clone)]
pub struct Notes {
    prefix: String,
}

impl Notes {
    /// Notes of a kind.
    pub fn of_kind(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Leaves a note.
    ///
    /// # Errors
    /// The kernel keeps no keys, or refuses them: the default of a container may forbid the system call.
    pub fn leave(&self, text: &str) -> io::Result<()> {
        let description = format!("{}{text}", self.prefix);
        keyring().and_then(|ring| ring.add_key(&description, "1")).map(drop).map_err(refused)
    }

    /// All that were left, without the prefix; none where the kernel keeps none.
    pub fn list(&self) -> Vec<String> {
        self.keys().into_iter().map(|(_, text)| text).collect()
    }

    pub fn remove(&self, text: &str) -> io::Result<()> {
        for (key, _) in self.keys().into_iter().filter(|(_, known)| known == text) {
            match keyring().and_then(|ring| ring.unlink_key(key)) {
                // Another was faster.
                Ok(()) | Err(KeyError::KeyDoesNotExist | KeyError::MissingFileOrDirectory) => {}
                Err(error) => return Err(refused(error)),
            }
        }
        Ok(())
    }

    fn keys(&self) -> Vec<(Key, String)> {
        let Ok(links) = keyring().and_then(|ring| ring.get_links(LINKS_MOST)) else { return Vec::new() };
        let described = links.iter().filter_map(|link| {
            let key = link.as_key()?;
            // One that has expired or belongs to somebody else is none of ours.
            let text = key.metadata().ok()?.get_description().strip_prefix(&self.prefix)?.to_owned();
            Some((key, text))
        });
        described.collect()
    }
}

fn keyring() -> Result<KeyRing, KeyError> {
    KeyRing::from_special_id(KeyRingIdentifier::User, true)
}

fn refused(error: KeyError) -> io::Error {
    io::Error::other(format!("the kernel's keyring: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_seen_until_it_is_removed_or_notes_are_refused() {
        let notes = Notes::of_kind(&format!("stealtime-test-{}-notes:", std::process::id()));
        assert!(notes.list().is_empty());
        if let Err(error) = notes.leave("one=950000") {
            eprintln!("skipped: {error}");
            return;
        }
        notes.leave("two=1").unwrap();
        let mut seen = std::thread::scope(|scope| scope.spawn(|| notes.list()).join().unwrap());
        seen.sort();
        assert_eq!(seen, ["one=950000", "two=1"]);
        notes.remove("one=950000").unwrap();
        notes.remove("one=950000").unwrap();
        assert_eq!(notes.list(), ["two=1"]);
        notes.remove("two=1").unwrap();
    }
}
