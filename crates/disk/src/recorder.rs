//! What was written of a machine's disks since the last cut, and what makes writers wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::copying::Blocks;
use crate::write::Write;

/// Writes of one epoch wait above this: until the next cut, which takes them along.
const ROOM_BYTES: u64 = 64 << 20;

/// When a guest hears that what it has written is on the medium.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Flush {
    /// Once it is there, or where it asks while it is being stopped for an epoch: once this process has it. What it
    /// says of it leaves only when its standby has it, too, in memory.
    #[default]
    Memory,
    /// Once it is there, always; and an epoch is acknowledged once it is on the standby's medium.
    Stable,
}

/// What is kept of writes.
#[derive(Debug)]
enum Keeping {
    /// Nobody is to have them.
    Nothing,
    /// Only which blocks they change: those are read from the images later.
    Blocks(Blocks),
    /// All of them, in their order, and what they take in memory.
    Writes { writes: Vec<Write>, bytes: u64 },
}

#[derive(Debug)]
struct State {
    flush: Flush,
    keeping: Keeping,
    /// The guest is being stopped: QEMU waits for each request that is under way.
    is_cutting: bool,
    /// Nobody waits any more.
    is_over: bool,
    /// Why a disk of this machine takes no writes now.
    fault: Option<String>,
    /// By disk: why what was written does not come to its medium.
    medium_faults: BTreeMap<u8, String>,
}

/// Sees each write of a machine's disks. Clones are one recorder.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<(Mutex<State>, Condvar)>);

impl Default for Recorder {
    fn default() -> Self {
        let state = State {
            flush: Flush::default(),
            keeping: Keeping::Nothing,
            is_cutting: false,
            is_over: false,
            fault: None,
            medium_faults: BTreeMap::new(),
        };
        Self(Arc::new((Mutex::new(state), Condvar::new())))
    }
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whatever a thread that panicked was at, nothing of it is half done.
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.0.1.notify_all();
    }

    /// From now on, note which blocks are written.
    pub fn note_blocks(&self) {
        self.change(|state| state.keeping = Keeping::Blocks(Blocks::default()));
    }

    /// Give the blocks that were written since they are noted, or since this was last asked.
    pub fn take_blocks(&self) -> Blocks {
        match &mut self.lock().keeping {
            Keeping::Blocks(blocks) => std::mem::take(blocks),
            Keeping::Nothing | Keeping::Writes { .. } => Blocks::default(),
        }
    }

    /// Give the blocks that were noted so far, and keep writes from now on: no write is in neither.
    pub fn keep_writes(&self) -> Blocks {
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.keeping, Keeping::Writes { writes: Vec::new(), bytes: 0 });
        if let Keeping::Blocks(blocks) = before { blocks } else { Blocks::default() }
    }

    /// Nobody is to have any writes.
    pub fn keep_nothing(&self) {
        self.change(|state| state.keeping = Keeping::Nothing);
    }

    /// Whether somebody is to have what is written, who may go on with the machine if this host cannot.
    pub fn keeps_writes(&self) -> bool {
        matches!(self.lock().keeping, Keeping::Writes { .. })
    }

    /// The guest is about to be stopped (true), or runs again. Meanwhile nothing may wait: QEMU would not stop.
    pub fn cutting(&self, is_cutting: bool) {
        self.change(|state| state.is_cutting = is_cutting);
    }

    pub fn set_flush(&self, flush: Flush) {
        self.change(|state| state.flush = flush);
    }

    /// Whether a wish to have something on the medium is answered before it is there.
    pub(crate) fn answers_early(&self) -> bool {
        let state = self.lock();
        state.is_cutting && state.flush == Flush::Memory
    }

    /// Give all writes since the last cut. The guest must stand.
    pub fn cut(&self) -> Vec<Write> {
        let mut cut = Vec::new();
        self.change(|state| {
            if let Keeping::Writes { writes, bytes } = &mut state.keeping {
                *bytes = 0;
                cut = std::mem::take(writes);
            }
        });
        cut
    }

    /// No request is served any more.
    pub fn end(&self) {
        self.change(|state| state.is_over = true);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Wait while there is no room for more writes.
    pub(crate) fn await_room(&self) {
        let is_full = |state: &mut State| {
            let has_room = !matches!(state.keeping, Keeping::Writes { bytes, .. } if bytes >= ROOM_BYTES);
            !(has_room || state.is_cutting || state.is_over)
        };
        drop(self.0.1.wait_while(self.lock(), is_full));
    }

    /// A write is in its image.
    pub(crate) fn written(&self, write: impl FnOnce() -> Write, disk: u8, offset: u64, length: u64) {
        match &mut self.lock().keeping {
            Keeping::Nothing => {}
            Keeping::Blocks(blocks) => blocks.add(disk, offset, length),
            Keeping::Writes { writes, bytes } => {
                let write = write();
                *bytes += write.memory_bytes();
                writes.push(write);
            }
        }
    }

    /// Why a disk takes no writes now, or what was written does not come to its medium, if that is so.
    pub fn fault(&self) -> Option<String> {
        let state = self.lock();
        state.fault.clone().or_else(|| state.medium_faults.values().next().cloned())
    }

    /// What was written of a disk does not come to its medium, or does again.
    pub fn set_medium_fault(&self, disk: u8, fault: Option<String>) {
        let faults = &mut self.lock().medium_faults;
        match fault {
            Some(fault) => drop(faults.insert(disk, fault)),
            None => drop(faults.remove(&disk)),
        }
    }

    pub(crate) fn set_fault(&self, fault: Option<String>) {
        self.lock().fault = fault;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::write::Content;

    fn write(recorder: &Recorder, offset: u64, length: usize) {
        let content = Content::Data(vec![7; length]);
        recorder.written(|| Write { disk: 2, offset, content }, 2, offset, length as u64);
    }

    fn offsets(writes: &[Write]) -> Vec<u64> {
        writes.iter().map(|write| write.offset).collect()
    }

    #[test]
    fn a_cut_has_what_was_written_since_the_last_in_its_order() {
        let recorder = Recorder::default();
        write(&recorder, 1, 1);
        assert!(recorder.cut().is_empty(), "nobody asked for it");
        recorder.note_blocks();
        write(&recorder, 70_000, 1);
        assert_eq!(recorder.take_blocks().iter().collect::<Vec<_>>(), [(2, 1)]);
        write(&recorder, 5, 1);
        assert_eq!(recorder.keep_writes().iter().collect::<Vec<_>>(), [(2, 0)], "what was not taken yet");
        write(&recorder, 9, 1);
        write(&recorder, 3, 1);
        write(&recorder, 9, 1);
        assert_eq!(offsets(&recorder.cut()), [9, 3, 9]);
        assert!(recorder.cut().is_empty());
        recorder.keep_nothing();
        write(&recorder, 4, 1);
        assert!(recorder.cut().is_empty() && recorder.take_blocks().is_empty());
    }

    type End = fn(&Recorder);

    #[test]
    fn writers_wait_for_room_and_never_while_the_guest_is_stopped() {
        let full = || {
            let recorder = Recorder::default();
            recorder.keep_writes();
            write(&recorder, 0, usize::try_from(ROOM_BYTES).unwrap());
            recorder
        };
        let ends: [End; 4] =
            [|recorder| drop(recorder.cut()), |recorder| recorder.cutting(true), Recorder::keep_nothing, Recorder::end];
        for end in ends {
            let recorder = full();
            let (tell, told) = mpsc::channel();
            let waiting = recorder.clone();
            thread::spawn(move || {
                waiting.await_room();
                tell.send(()).unwrap();
            });
            assert_eq!(told.recv_timeout(Duration::from_millis(50)), Err(mpsc::RecvTimeoutError::Timeout));
            end(&recorder);
            told.recv_timeout(Duration::from_secs(10)).unwrap();
        }
    }
}
