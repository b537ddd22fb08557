//! All that is unsafe: the symbols that stand before the C library's, the constructor, and the ioctls.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use crate::handover::{FILE_VARIABLE, SOCKET_VARIABLE, Step};
use crate::session;

// `mmap` with an offset in bytes, one errno, one size of a register: all of it is so on 64-bit machines only.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("the preloaded library is for 64-bit machines");

/// Not in the `libc` crate; include/uapi/linux/userfaultfd.h of Linux 6.7.
mod uapi {
    pub const API: u64 = 0xAA;
    /// `UFFD_USER_MODE_ONLY` (Linux 5.11).
    pub const USER_MODE_ONLY: std::ffi::c_int = 1;
    /// Shared memory can be write-protected (Linux 5.19).
    pub const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
    /// Pages that were never touched can be write-protected (Linux 6.4).
    pub const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
    /// A write to a protected page is resolved by the kernel, without a message (Linux 6.7).
    pub const FEATURE_WP_ASYNC: u64 = 1 << 15;
    pub const REGISTER_MODE_WP: u64 = 1 << 1;
    /// `_IOWR(0xAA, 0x3F, struct uffdio_api)`
    pub const IOCTL_API: libc::c_ulong = 0xC018_AA3F;
    /// `_IOWR(0xAA, 0x00, struct uffdio_register)`
    pub const IOCTL_REGISTER: libc::c_ulong = 0xC020_AA00;

    #[repr(C)]
    pub struct Api {
        pub version: u64,
        pub features: u64,
        pub ioctls: u64,
    }

    #[repr(C)]
    pub struct Register {
        pub start: u64,
        pub length: u64,
        pub mode: u64,
        pub ioctls: u64,
    }
}

/// Create a userfaultfd of this process and register a range of its memory for asynchronous write-protection.
pub(crate) fn register(address: u64, length: u64) -> Result<OwnedFd, (Step, Errno)> {
    // Without faults of the kernel any user may create one (vm.unprivileged_userfaultfd is 0 nearly
    // everywhere). Nothing is lost by that: asynchronous protection is resolved before that flag is looked
    // at, for writes by system calls too.
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | uapi::USER_MODE_ONLY;
    // SAFETY: only creates a descriptor; no memory changes its meaning until a range is registered below.
    let created = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    let created = c_int::try_from(created).ok().filter(|number| *number >= 0);
    // SAFETY: the kernel has just given this descriptor to us alone.
    let userfaultfd = created.map(|number| unsafe { OwnedFd::from_raw_fd(number) });
    let userfaultfd = userfaultfd.ok_or_else(|| (Step::Create, last_errno()))?;
    let features = uapi::FEATURE_WP_ASYNC | uapi::FEATURE_WP_UNPOPULATED | uapi::FEATURE_WP_HUGETLBFS_SHMEM;
    let mut api = uapi::Api { version: uapi::API, features, ioctls: 0 };
    control(&userfaultfd, uapi::IOCTL_API, &mut api).map_err(|errno| (Step::Features, errno))?;
    let mut range = uapi::Register { start: address, length, mode: uapi::REGISTER_MODE_WP, ioctls: 0 };
    control(&userfaultfd, uapi::IOCTL_REGISTER, &mut range).map_err(|errno| (Step::Register, errno))?;
    Ok(userfaultfd)
}

fn control<Argument>(descriptor: &OwnedFd, request: libc::c_ulong, argument: &mut Argument) -> Result<(), Errno> {
    // SAFETY: each caller passes the structure that its request is defined with, alive and ours for the call.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    // SAFETY: the C library gives a valid pointer to this thread's errno.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Stands before the C library's `mmap64`, which is what QEMU calls.
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // Straight to the kernel, as the C library does on 64-bit machines: looking its own symbol up would
    // allocate, and an allocation may map. SAFETY: the caller's arguments, unchanged.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, address, length, protection, flags, file, offset) };
    let shared = matches!(flags & libc::MAP_TYPE, libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE);
    if mapped != -1 && shared && file >= 0 && flags & libc::MAP_ANONYMOUS == 0 && protection & libc::PROT_WRITE != 0 {
        // SAFETY: a pointer to this thread's errno, which must look to QEMU as if nothing had been called
        // after mmap.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: the kernel has just mapped this descriptor, and the caller keeps it for the call.
        let file = unsafe { BorrowedFd::borrow_raw(file) };
        if let Some(session) = session::looking_for(file) {
            let (address, length) = (mapped.cast_unsigned(), length as u64);
            session.tell_registered(address, length, register(address, length));
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }
    std::ptr::with_exposed_provenance_mut(usize::try_from(mapped.cast_unsigned()).unwrap_or(usize::MAX))
}

/// Stands before the C library's `mmap`; the same as [`mmap64`] on a 64-bit machine.
///
/// # Safety
/// As mmap(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's arguments, unchanged.
    unsafe { mmap64(address, length, protection, flags, file, offset) }
}

/// Runs when the library is loaded, before QEMU's `main` and while there is one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    let (Some(file), Some(socket)) = (std::env::var_os(FILE_VARIABLE), std::env::var_os(SOCKET_VARIABLE)) else {
        return;
    };
    let preload = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let kept = own_file_name().map(|name| session::without_library(&preload, &name));
    // SAFETY: no other thread exists yet that could read the environment.
    unsafe {
        std::env::remove_var(FILE_VARIABLE);
        std::env::remove_var(SOCKET_VARIABLE);
        match kept {
            Some(kept) if kept.is_empty() => std::env::remove_var("LD_PRELOAD"),
            Some(kept) => std::env::set_var("LD_PRELOAD", kept),
            None => {}
        }
    }
    let Some(socket) = socket.to_str().and_then(|number| number.parse::<c_int>().ok()) else { return };
    // SAFETY: only asks and sets a flag of a descriptor; a number that is none of ours gives an error.
    if socket < 0 || unsafe { libc::fcntl(socket, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return;
    }
    // SAFETY: it is open, and whoever started this process named it to be ours.
    session::begin(&file, unsafe { OwnedFd::from_raw_fd(socket) });
}

/// The name of the file that this code was loaded from.
fn own_file_name() -> Option<std::ffi::OsString> {
    // SAFETY: all-zero is a valid value of a structure of pointers and is overwritten on success.
    let mut information: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is one of ours; the structure is alive for the call.
    let found = unsafe { libc::dladdr((on_load as extern "C" fn()) as *const c_void, &raw mut information) };
    if found == 0 || information.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr found the object, so this is its name, a string that lives as long as the object.
    let path = unsafe { CStr::from_ptr(information.dli_fname) };
    Path::new(OsStr::from_bytes(path.to_bytes())).file_name().map(OsStr::to_os_string)
}
