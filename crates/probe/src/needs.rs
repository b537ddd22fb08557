//! The memory that a trial takes besides its samples. It is known before the trial begins: whoever takes more than
//! there is would not be refused by the kernel but killed, and nothing of the trial would be left.

use std::path::Path;

use stealtime_memory::Room;

use crate::error::TrialError;

/// A thread that does little: its kernel stack of 16 KiB, what the kernel keeps of it, and what it touches of its own.
pub const THREAD_BYTES: u64 = 32 << 10;

/// The stack of a thread of a trial. All of it is made present before the first sample, page by page: in a guest
/// without hardware for that, 2 MiB each (the default) take several milliseconds.
pub const STACK_BYTES: usize = 256 << 10;

/// What a trial has taken at the worst moment of its life, its end included.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Needs {
    parts: Vec<String>,
    pub bytes: u64,
}

impl Needs {
    /// With something more, unless it takes nothing.
    #[must_use]
    pub fn and(mut self, bytes: u64, what: impl FnOnce() -> String) -> Self {
        if bytes > 0 {
            self.parts.push(what());
            self.bytes = self.bytes.saturating_add(bytes);
        }
        self
    }

    /// Refuses what this machine and the memory groups around this process do not have.
    pub fn refuse_more_than_there_is(self) -> Result<(), TrialError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let room = stealtime_memory::room(Path::new("/"));
        self.refuse(room.as_ref())
    }

    fn refuse(self, room: Option<&Room>) -> Result<(), TrialError> {
        let refused = room.map_or(Ok(()), |room| room.refuse_more(self.bytes));
        refused.map_err(|source| TrialError::NoRoom { what: self.parts.join(" and "), bytes: self.bytes, source })
    }
}

/// `1 thread`, `2 threads`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_all_that_it_is_for_and_what_limits_it() {
        let room = Room { bytes: 1000, limit: "/sys/fs/cgroup/job/memory.max".to_owned() };
        let needs = |bytes| Needs::default().and(bytes, || "rows".to_owned()).and(600, || "polluters".to_owned());
        assert!(needs(400).refuse(Some(&room)).is_ok());
        let error = needs(401).refuse(Some(&room)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no memory for rows and polluters (1001 bytes): 1000 bytes may still be used by \
             /sys/fs/cgroup/job/memory.max"
        );
        assert!(error.hint().is_some());
        assert!(needs(u64::MAX).refuse(Some(&room)).is_err(), "no sum overflows");
        assert!(needs(u64::MAX).refuse(None).is_ok(), "where nothing is known nothing is refused");
    }

    #[test]
    fn one_of_a_thing_is_not_several() {
        assert_eq!((counted(1, "thread"), counted(2, "job")), ("1 thread".to_owned(), "2 jobs".to_owned()));
    }
}
