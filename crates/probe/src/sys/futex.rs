//! Sleeping until an absolute time or until a word changes, whichever comes first (`futex(2)`).

use std::ptr;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` is `expected`, at most until `CLOCK_MONOTONIC` shows `until_ns`, where given.
///
/// May return early for no reason: the caller looks at the word and at the clock.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "2^63 ns are 292 years")]
pub fn wait_while(word: &AtomicU32, expected: u32, until_ns: Option<u64>) {
    let until = until_ns.map(|until_ns| libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    });
    let until: *const libc::timespec = until.as_ref().map_or(ptr::null(), ptr::from_ref);
    // Of the forms of FUTEX_WAIT the one with a bit set takes an absolute time; without FUTEX_CLOCK_REALTIME
    // it is of CLOCK_MONOTONIC.
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is a valid, aligned 32-bit word; `until` is null or a timespec that lives until the end
    // of this function; the second address is not used by this operation.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            expected,
            until,
            ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        );
    }
}

/// Wakes all who wait for `word` to change.
pub fn wake_all(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `word` is a valid, aligned 32-bit word, which this operation does not even read.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, libc::c_int::MAX) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;

    use super::*;
    use crate::sys::{KernelClock, kernel_clock_ns};

    #[test]
    fn a_wait_ends_at_its_time_and_not_before() {
        let word = AtomicU32::new(1);
        let until_ns = kernel_clock_ns(KernelClock::Monotonic) + 2_000_000;
        while kernel_clock_ns(KernelClock::Monotonic) < until_ns {
            wait_while(&word, 1, Some(until_ns));
        }
        // Another value: it must not wait at all.
        wait_while(&word, 2, None);
    }

    #[test]
    fn a_change_ends_a_wait_without_an_end() {
        let word = AtomicU32::new(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 1 {
                    wait_while(&word, 1, None);
                }
            });
            word.store(2, Ordering::SeqCst);
            wake_all(&word);
        });
    }
}
