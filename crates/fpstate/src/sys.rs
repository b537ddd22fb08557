//! All that is unsafe: the symbol that stands before the C library's, and the system calls.

use std::ffi::{c_long, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lengthened::{CAPACITY, lengthened};

/// The register set that is the whole XSAVE area (include/uapi/linux/elf.h).
const NT_X86_XSTATE: usize = 0x202;

/// The size in bytes of that register set on this host; 0 until it was asked for.
static WHOLE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Stands before the C library's `ptrace`, which has a variable number of arguments: on x86-64 they come the
/// same way.
///
/// # Safety
/// As ptrace(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(
    request: c_uint,
    process: libc::pid_t,
    address: *mut c_void,
    data: *mut c_void,
) -> c_long {
    match request {
        libc::PTRACE_PEEKTEXT | libc::PTRACE_PEEKDATA | libc::PTRACE_PEEKUSER => {
            let mut word: c_long = 0;
            // SAFETY: the caller's arguments, but that the kernel stores the word where the C library would
            // let it.
            let result = unsafe { call_kernel(request, process, address, (&raw mut word).cast()) };
            if result < 0 {
                return result;
            }
            // SAFETY: a pointer to this thread's errno; it tells a word of -1 from an error.
            unsafe { *libc::__errno_location() = 0 };
            word
        }
        libc::PTRACE_SETREGSET if address.addr() == NT_X86_XSTATE => {
            // SAFETY: the caller's arguments; for this request `data` points to an iovec.
            unsafe { set_state(process, data.cast()) }
        }
        // SAFETY: the caller's arguments, unchanged.
        _ => unsafe { call_kernel(request, process, address, data) },
    }
}

/// Set a process's floating-point state from a vector that may be shorter than this host wants.
///
/// # Safety
/// `vector` points to an iovec whose bytes are readable.
unsafe fn set_state(process: libc::pid_t, vector: *mut libc::iovec) -> c_long {
    // SAFETY: as the caller promises.
    let given = unsafe { &*vector };
    let whole = whole_bytes(process);
    let longer = (given.iov_len < whole).then(|| {
        // SAFETY: as the caller promises.
        let state = unsafe { std::slice::from_raw_parts(given.iov_base.cast::<u8>(), given.iov_len) };
        lengthened(state, whole, |bytes| {
            let mut longer = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            // SAFETY: the vector and its bytes live for the call, and the kernel only reads them.
            unsafe { exchange(libc::PTRACE_SETREGSET, process, &raw mut longer) }
        })
    });
    // SAFETY: the caller's vector, unchanged.
    longer.flatten().unwrap_or_else(|| unsafe { exchange(libc::PTRACE_SETREGSET, process, vector) })
}

/// The size of the state on this host, which is the same for all its processes; 0 if a stopped process cannot
/// be asked.
fn whole_bytes(process: libc::pid_t) -> usize {
    let known = WHOLE_BYTES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let asked = lengthened(&[], CAPACITY, |bytes| {
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: the vector and its bytes live for the call; the kernel writes no more than fits, and how
        // much it was.
        let result = unsafe { exchange(libc::PTRACE_GETREGSET, process, &raw mut vector) };
        // One that fills the buffer may be larger.
        if result == 0 && vector.iov_len < CAPACITY { vector.iov_len } else { 0 }
    });
    let whole = asked.unwrap_or(0);
    WHOLE_BYTES.store(whole, Ordering::Relaxed);
    whole
}

/// Read or write the XSAVE area of a process.
///
/// # Safety
/// `vector` points to an iovec as the request wants it.
unsafe fn exchange(request: c_uint, process: libc::pid_t, vector: *mut libc::iovec) -> c_long {
    // SAFETY: as the caller promises; the kind of register set is a number in the place of an address.
    unsafe { call_kernel(request, process, ptr::without_provenance_mut(NT_X86_XSTATE), vector.cast()) }
}

/// # Safety
/// As ptrace(2) without the C library: a word that is peeked at is stored at `data`.
unsafe fn call_kernel(request: c_uint, process: libc::pid_t, address: *mut c_void, data: *mut c_void) -> c_long {
    // SAFETY: the caller's arguments; sets errno as the C library's function does.
    unsafe { libc::syscall(libc::SYS_ptrace, c_long::from(request), c_long::from(process), address, data) }
}
