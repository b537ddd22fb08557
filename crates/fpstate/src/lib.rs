//! The library that is preloaded into User-Mode Linux and gives its host the whole floating-point state.
//!
//! User-Mode Linux puts the registers of a guest's process into the host's by `PTRACE_SETREGSET` with
//! `NT_X86_XSTATE`, in a buffer whose size was fixed when it was built: 2,696 bytes in Linux 6.1, enough for
//! AVX-512 and protection keys. A host accepts its own whole size only (`xstateregs_set` of Linux
//! arch/x86/kernel/fpu/regset.c), and where the processor has AMX that is 11,008 bytes: the guest's first
//! program ends with "ptrace set fp regs failed, errno = 14".
//!
//! This library stands before the C library's `ptrace` and lengthens what is too short with zeros. That is
//! exact: nothing a guest can run uses a state beyond those bytes, as a process must ask the *host's* kernel
//! for AMX (`arch_prctl`), and the guest's system calls do not get there. Every other request goes to the
//! kernel as it is.

mod lengthened;
mod sys;

pub use sys::ptrace;
