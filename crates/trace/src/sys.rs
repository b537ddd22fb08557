//! The system call `bpf(2)`, as far as a program at a raw tracepoint needs it; the only unsafe code of this crate.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// `BPF_PROG_LOAD` and `BPF_RAW_TRACEPOINT_OPEN` (`include/uapi/linux/bpf.h`, the latter since Linux 4.17).
const LOAD: libc::c_int = 5;
const OPEN_RAW_TRACEPOINT: libc::c_int = 17;

/// `BPF_PROG_TYPE_RAW_TRACEPOINT`.
const RAW_TRACEPOINT: u32 = 17;

/// The kernel lets programs print whose licence its own goes with.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// An instruction of BPF (RFC 9669, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    opcode: u8,
    /// The destination in the lower half, the source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    /// The register that points behind the stack.
    pub const STACK: u8 = 10;
    /// Returns register 0.
    pub const EXIT: Self = Self { opcode: 0x95, registers: 0, offset: 0, immediate: 0 };

    pub const fn set(register: u8, immediate: i32) -> Self {
        Self { opcode: 0xb7, registers: register, offset: 0, immediate }
    }

    /// Copies a register.
    pub const fn copy(to: u8, from: u8) -> Self {
        Self { opcode: 0xbf, registers: from << 4 | to, offset: 0, immediate: 0 }
    }

    pub const fn add(register: u8, immediate: i32) -> Self {
        Self { opcode: 0x07, registers: register, offset: 0, immediate }
    }

    /// Stores 32 bits where a register points to.
    pub const fn store_word(register: u8, offset: i16, immediate: i32) -> Self {
        Self { opcode: 0x62, registers: register, offset, immediate }
    }

    /// Calls a function of the kernel with registers 1 to 5.
    pub const fn call(function: i32) -> Self {
        Self { opcode: 0x85, registers: 0, offset: 0, immediate: function }
    }
}

/// What `BPF_PROG_LOAD` takes, its first fields; the kernel takes those that are left out as 0.
#[repr(C)]
struct LoadAttributes {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

/// What `BPF_RAW_TRACEPOINT_OPEN` takes, likewise.
#[repr(C)]
struct TracepointAttributes {
    name: u64,
    program: i32,
    unused: u32,
}

/// Has the kernel verify and load a program for raw tracepoints.
///
/// # Errors
/// What the kernel says: `EPERM` without the right to, `EINVAL` if the program is wrong.
pub fn load_tracepoint_program(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let attributes = LoadAttributes {
        program_type: RAW_TRACEPOINT,
        instruction_count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: instructions.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
    };
    bpf(LOAD, &attributes)
}

/// Attaches a loaded program until what this gives is closed.
///
/// # Errors
/// What the kernel says: `ENOENT` if it has no such tracepoint.
pub fn attach_to_tracepoint(program: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let attributes = TracepointAttributes { name: name.as_ptr() as u64, program: program.as_raw_fd(), unused: 0 };
    bpf(OPEN_RAW_TRACEPOINT, &attributes)
}

/// `attributes` are plain integers; what they point to outlives the call, which keeps nothing of it.
fn bpf<Attributes>(command: libc::c_int, attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<Attributes>()` bytes at `attributes`, which are there, and what the pointers
    // in it point to, which the callers above hold in variables of their own until this returns.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<Attributes>()) };
    let descriptor = RawFd::try_from(result).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both commands give a new descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
