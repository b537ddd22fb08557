//! When in an interval this member stops its guest: members of one host take different moments, so that their
//! guests do not stand, and their pages are not copied and encoded, all at once.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::clock::nanoseconds;

/// More members than this on one host share moments.
const TURNS: u32 = 64;

/// A place among the active members of a host. It is free again when this is dropped, or its process gone.
#[derive(Debug, Default)]
pub struct Turn {
    number: u32,
    /// Locked while the place is taken.
    _lock: Option<File>,
}

impl Turn {
    /// Take the first free place in the folder of a host. Where none can be had, it is the first one,
    /// unlocked: to stand at the same time as others costs time and nothing else.
    pub fn take(host_folder: &Path) -> Self {
        for number in 0..TURNS {
            let path = host_folder.join(format!("turn.{number}"));
            let Ok(file) = OpenOptions::new().create(true).truncate(false).write(true).open(path) else {
                break;
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Self { number, _lock: Some(file) };
            }
        }
        Self::default()
    }

    /// How long after the beginning of an interval this member's moment is: 0, 1/2, 1/4, 3/4, 1/8 of it and
    /// so on (van der Corput's sequence). However many members there are, their moments lie far apart, and
    /// nobody's changes when one comes.
    pub fn offset(&self, interval: Duration) -> Duration {
        let interval_ns = u128::from(nanoseconds(interval));
        // In units of 2^-32 of an interval, so this is less than the interval.
        let offset_ns = (interval_ns * u128::from(self.number.reverse_bits())) >> u32::BITS;
        Duration::from_nanos(u64::try_from(offset_ns).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(80);

    fn offsets_ms<const N: usize>(turns: [&Turn; N]) -> [u128; N] {
        turns.map(|turn| turn.offset(INTERVAL).as_millis())
    }

    #[test]
    fn each_member_has_a_place_of_its_own_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let first = Turn::take(folder.path());
        let second = Turn::take(folder.path());
        let third = Turn::take(folder.path());
        assert_eq!(offsets_ms([&first, &second, &third]), [0, 40, 20]);
        drop(second);
        let again = Turn::take(folder.path());
        let fourth = Turn::take(folder.path());
        assert_eq!(offsets_ms([&again, &fourth]), [40, 60]);
    }

    #[test]
    fn without_a_folder_it_is_the_first_moment() {
        assert_eq!(offsets_ms([&Turn::take(Path::new("/nowhere/at/all"))]), [0]);
    }
}
