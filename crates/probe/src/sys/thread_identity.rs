//! By what others know a thread: its name, and the base of its FS segment.

use std::ffi::CStr;

/// `TASK_COMM_LEN` (include/linux/sched.h), with the zero at the end.
const NAME_BYTES: usize = 16;

/// The base of the calling thread's FS segment, which is where its control block lies (System V ABI for
/// x86-64, thread-local storage).
#[expect(clippy::useless_conversion, reason = "pthread_t is a pointer with other C libraries")]
pub fn thread_pointer() -> u64 {
    // SAFETY: no arguments; always succeeds. The C libraries of Linux give the control block's address.
    unsafe { libc::pthread_self() }.into()
}

/// The calling thread's name in the kernel.
pub fn thread_name() -> String {
    let mut name = [0_u8; NAME_BYTES];
    // SAFETY: PR_GET_NAME writes at most 16 bytes, which `name` has; it cannot fail.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

/// Names the calling thread; the kernel keeps the first 15 bytes.
pub fn set_thread_name(name: &CStr) {
    // SAFETY: `name` ends with a zero, up to which PR_SET_NAME reads; it cannot fail.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_pointer_is_what_the_processor_has() {
        let base: u64;
        // SAFETY: the first word of the control block holds its own address and can always be read.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) base, options(nostack, readonly, preserves_flags));
        };
        assert_eq!(thread_pointer(), base);
    }
}
