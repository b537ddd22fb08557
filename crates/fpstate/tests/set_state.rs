//! A stopped process whose floating-point state is read and set: what User-Mode Linux does at each turn of a
//! guest.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ffi::{c_long, c_uint, c_void};
use std::io;
use std::ptr;

use stealtime_fpstate::ptrace;

const NT_X86_XSTATE: usize = 0x202;

/// The legacy area and the XSAVE header: x87 and SSE. Every larger host refuses as little.
const SHORT_BYTES: usize = 576;

/// Where XMM0 is in the legacy area (Intel SDM volume 1, table 13-1).
const XMM0: usize = 160;

/// A child that is stopped under our trace, and ended when it is dropped.
struct Stopped(libc::pid_t);

impl Stopped {
    fn new() -> Self {
        // SAFETY: the child only makes system calls that are safe after a fork of many threads.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: as above; a child that nobody traces would just go on and exit.
            unsafe {
                libc::syscall(libc::SYS_ptrace, c_long::from(libc::PTRACE_TRACEME), 0, 0, 0);
                libc::raise(libc::SIGSTOP);
                libc::_exit(0);
            }
        }
        assert!(pid > 0);
        let mut status = 0;
        // SAFETY: a child of ours, and a place for its status.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFSTOPPED(status));
        Self(pid)
    }

    fn state(&self) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64 << 10];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        assert_eq!(self.exchange(libc::PTRACE_GETREGSET, &mut vector), 0);
        bytes.truncate(vector.iov_len);
        bytes
    }

    fn exchange(&self, request: c_uint, vector: &mut libc::iovec) -> c_long {
        let kind = ptr::without_provenance_mut::<c_void>(NT_X86_XSTATE);
        // SAFETY: the vector and its bytes live for the call.
        unsafe { ptrace(request, self.0, kind, ptr::from_mut(vector).cast()) }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: a child of ours that was not waited for yet.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}

#[test]
fn a_state_that_the_kernel_finds_too_short_is_set() {
    let stopped = Stopped::new();
    let mut wanted = stopped.state();
    assert!(wanted.len() > SHORT_BYTES, "this processor has nothing beyond SSE: {} bytes", wanted.len());
    wanted[XMM0..XMM0 + 16].copy_from_slice(b"stealtime's word");
    // Header: the states that are in use, here x87 and SSE.
    wanted[512] |= 3;
    let mut short = libc::iovec { iov_base: wanted.as_mut_ptr().cast(), iov_len: SHORT_BYTES };

    // SAFETY: the vector and its bytes live for the call.
    let plain = unsafe {
        libc::syscall(libc::SYS_ptrace, c_long::from(libc::PTRACE_SETREGSET), stopped.0, NT_X86_XSTATE, &raw mut short)
    };
    let refusal = io::Error::last_os_error();
    assert_eq!((plain, refusal.raw_os_error()), (-1, Some(libc::EFAULT)), "the kernel takes it: {refusal}");

    assert_eq!(stopped.exchange(libc::PTRACE_SETREGSET, &mut short), 0, "{}", io::Error::last_os_error());
    let now = stopped.state();
    assert_eq!(&now[XMM0..XMM0 + 16], b"stealtime's word");
    assert_eq!(now.len(), wanted.len());
    assert!(now[SHORT_BYTES..].iter().all(|byte| *byte == 0), "what was not given is in use");
}

#[test]
fn a_whole_state_comes_back_as_it_was() {
    let stopped = Stopped::new();
    let mut state = stopped.state();
    state[XMM0..XMM0 + 16].copy_from_slice(&[9; 16]);
    state[512] |= 3;
    let mut whole = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    assert_eq!(stopped.exchange(libc::PTRACE_SETREGSET, &mut whole), 0, "{}", io::Error::last_os_error());
    assert_eq!(stopped.state(), state);
}

#[test]
fn a_word_is_peeked_at_as_with_the_c_library() {
    static WORD: c_long = -1;
    let stopped = Stopped::new();
    let peek = |address: *const c_long| {
        // SAFETY: reads the child's memory, or fails.
        unsafe { ptrace(libc::PTRACE_PEEKDATA, stopped.0, address.cast_mut().cast(), ptr::null_mut()) }
    };
    assert_eq!(peek(&raw const WORD), -1);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(0), "-1 is the word here, no error");
    assert_eq!(peek(ptr::null()), -1);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
}
