//! The observer of a trial: the progress that it reports, and the threads that measure.

use std::sync::{Mutex, PoisonError};

use stealtime_wire::message::{MachineThread, ThreadRole};

use crate::{scheduling, sys};

/// The name of the threads of `switch`, by which a recording of the kernel leaves out what they do to each
/// other.
pub const RING_THREAD_NAME: &str = "st-ring";

/// Observes from just before the first sample until just after the last. Called by the measuring thread: what
/// it does must be short, must not wait, and is not part of any sample.
pub trait Observer: Send + Sync {
    /// The first sample is about to be measured.
    fn begin(&self);
    /// The last sample was measured.
    fn end(&self);
    /// The first sample exceeded the threshold that was asked for; others may follow.
    fn exceeded(&self) {}
}

#[derive(Default)]
pub struct Threads {
    members: Mutex<Vec<MachineThread>>,
}

impl Threads {
    /// Enters the calling thread.
    pub fn enter(&self, role: ThreadRole) {
        self.extend([this_thread(role)]);
    }

    /// Enters others, which have described themselves.
    pub fn extend(&self, others: impl IntoIterator<Item = MachineThread>) {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).extend(others);
    }

    /// Of those that measure, as the kernel counts them.
    pub fn of_probe(&self) -> Vec<u32> {
        let threads = self.list().into_iter();
        threads.filter(|thread| thread.role == ThreadRole::Probe).map(|thread| thread.id).collect()
    }

    /// All that were entered, in that order.
    pub fn list(&self) -> Vec<MachineThread> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Describes the calling thread.
pub fn this_thread(role: ThreadRole) -> MachineThread {
    MachineThread { id: scheduling::thread_id(), name: sys::thread_name(), role, thread_pointer: sys::thread_pointer() }
}

/// Gives the calling thread the name of those of a ring.
pub fn take_ring_name() {
    sys::set_thread_name(c"st-ring");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_its_number_name_and_pointer() {
        let (ours, theirs) = std::thread::scope(|scope| {
            let ring = scope.spawn(|| {
                take_ring_name();
                this_thread(ThreadRole::Probe)
            });
            (this_thread(ThreadRole::Agent), ring.join().unwrap())
        });
        assert_eq!(theirs.name, RING_THREAD_NAME);
        assert_ne!((ours.id, ours.thread_pointer), (theirs.id, theirs.thread_pointer));
        let name = std::fs::read_to_string(format!("/proc/self/task/{}/comm", ours.id)).unwrap();
        assert_eq!(ours.name, name.trim_end());
    }
}
