//! Memory for register states that are made longer.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// No processor has a larger state yet; with AMX it is 11,008 bytes.
pub(crate) const CAPACITY: usize = 16 << 10;

/// How many may be in use at once. User-Mode Linux uses one: it has one processor.
const SLOTS: usize = 4;

/// One buffer, aligned as the hardware wants the state itself to be.
#[repr(align(64))]
struct Slot {
    taken: AtomicBool,
    bytes: UnsafeCell<[u8; CAPACITY]>,
}

// SAFETY: `bytes` is only touched by whoever has set `taken`.
unsafe impl Sync for Slot {}

/// Static, as the caller's stack is that of a kernel thread (16 KiB), and a signal handler of the caller may
/// leave the function that it interrupted for another one that comes here: neither a lock nor an allocator is
/// safe.
static POOL: [Slot; SLOTS] =
    [const { Slot { taken: AtomicBool::new(false), bytes: UnsafeCell::new([0; CAPACITY]) } }; SLOTS];

/// Call `use_it` with `state`, lengthened with zeros to `length` bytes. None if it is too long or no buffer
/// is free.
pub(crate) fn lengthened<Answer>(
    state: &[u8],
    length: usize,
    use_it: impl FnOnce(&mut [u8]) -> Answer,
) -> Option<Answer> {
    if length > CAPACITY || state.len() > length {
        return None;
    }
    let free = |slot: &&Slot| !slot.taken.swap(true, Ordering::Acquire);
    let slot = POOL.iter().find(free)?;
    // SAFETY: we have just taken it, and nobody else touches it until it is given back below.
    let bytes = unsafe { &mut (&mut *slot.bytes.get())[..length] };
    bytes[..state.len()].copy_from_slice(state);
    bytes[state.len()..].fill(0);
    let answer = use_it(bytes);
    slot.taken.store(false, Ordering::Release);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_zero_also_after_a_longer_state() {
        lengthened(&[7; 64], 64, |bytes| assert_eq!(bytes, [7; 64])).unwrap();
        lengthened(&[1, 2], 8, |bytes| assert_eq!(bytes, [1, 2, 0, 0, 0, 0, 0, 0])).unwrap();
    }

    #[test]
    fn one_that_is_interrupted_keeps_its_buffer() {
        let outer = lengthened(&[1], 4, |outer| {
            lengthened(&[2], 4, |inner| assert_eq!(inner, [2, 0, 0, 0])).unwrap();
            outer.to_vec()
        });
        assert_eq!(outer.unwrap(), [1, 0, 0, 0]);
    }

    #[test]
    fn too_long_a_state_is_left_alone() {
        assert!(lengthened(&[], CAPACITY + 1, |_| ()).is_none());
    }
}
