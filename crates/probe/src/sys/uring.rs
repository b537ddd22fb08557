//! Transfers through `io_uring(7)`.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::transfer_buffers::TransferBuffers;

/// A ring, the file that it transfers from or to, and the memory.
///
/// Fields go in this order: the ring before what the kernel may still use for it.
pub struct Uring {
    ring: ManuallyDrop<IoUring>,
    file: ManuallyDrop<OwnedFd>,
    buffers: ManuallyDrop<TransferBuffers>,
    writes: bool,
    /// Whether the kernel knows file and memory already, so that it need not look them up for each transfer.
    is_registered: bool,
    under_way: usize,
}

impl Uring {
    /// Makes a ring for as many transfers at a time as there are buffers.
    ///
    /// # Errors
    /// The kernel has no `io_uring`, forbids it (`kernel.io_uring_disabled`, seccomp), or has one that cannot wait for
    /// a limited time (before 5.11).
    pub fn new(
        file: OwnedFd,
        writes: bool,
        mut buffers: TransferBuffers,
    ) -> Result<Self, (io::Error, OwnedFd, TransferBuffers)> {
        let ring = match ring_of(buffers.count()) {
            Ok(ring) => ring,
            Err(error) => return Err((error, file, buffers)),
        };
        let pieces: Vec<libc::iovec> = (0..buffers.count())
            .map(|number| libc::iovec { iov_base: buffers.start_of(number).cast(), iov_len: buffers.piece_bytes() })
            .collect();
        // SAFETY: the memory lives until after the ring has gone (`Drop`).
        let knows_memory = unsafe { ring.submitter().register_buffers(&pieces) }.is_ok();
        // Both or none: RLIMIT_MEMLOCK of an ordinary user may be too low for the memory.
        let is_registered = knows_memory && ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            file: ManuallyDrop::new(file),
            buffers: ManuallyDrop::new(buffers),
            writes,
            is_registered,
            under_way: 0,
        })
    }

    /// Writes a transfer down; [`Self::submit`] hands it over.
    #[inline(always)]
    pub fn prepare(&mut self, number: usize, offset: u64) {
        let start = self.buffers.start_of(number);
        #[expect(clippy::cast_possible_truncation, reason = "at most 16 MiB, and 1024 pieces")]
        let (length, index) = (self.buffers.piece_bytes() as u32, number as u16);
        let fd = Fd(self.file.as_raw_fd());
        let entry: squeue::Entry = match (self.is_registered, self.writes) {
            (true, false) => opcode::ReadFixed::new(Fixed(0), start, length, index).offset(offset).build(),
            (true, true) => opcode::WriteFixed::new(Fixed(0), start, length, index).offset(offset).build(),
            (false, false) => opcode::Read::new(fd, start, length).offset(offset).build(),
            (false, true) => opcode::Write::new(fd, start, length).offset(offset).build(),
        };
        let entry = entry.user_data(number as u64);
        // SAFETY: file and memory live until after the ring has gone, and piece `number` has no other transfer.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "there are as many entries as pieces of memory");
        self.under_way += 1;
    }

    /// Hands over what was prepared and waits for `least` transfers to end, but no longer than `timeout_ns`.
    pub fn submit(&mut self, least: usize, timeout_ns: u64) -> io::Result<()> {
        let time = Timespec::new().sec(timeout_ns / 1_000_000_000).nsec((timeout_ns % 1_000_000_000) as u32);
        let submitted = if least == 0 {
            self.ring.submitter().submit()
        } else {
            self.ring.submitter().submit_with_args(least, &SubmitArgs::new().timespec(&time))
        };
        match submitted {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Nothing ended in time, or a signal came.
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Gives a transfer that has ended: which, and the bytes or the negative error number.
    #[inline(always)]
    pub fn next_ended(&mut self) -> Option<(usize, i32)> {
        let entry = self.ring.completion().next()?;
        self.under_way -= 1;
        #[expect(clippy::cast_possible_truncation, reason = "as it was given in `prepare`")]
        Some((entry.user_data() as usize, entry.result()))
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // SAFETY: nothing is used after this.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            // The kernel ends transfers of a ring that goes, but may still be at it: the memory of one that never
            // came back stays until the process ends.
            if self.under_way == 0 {
                ManuallyDrop::drop(&mut self.buffers);
            }
            ManuallyDrop::drop(&mut self.file);
        }
    }
}

fn ring_of(depth: usize) -> io::Result<IoUring> {
    let entries = u32::try_from(depth.next_power_of_two()).unwrap_or(u32::MAX);
    // One thread does it all, and looks for what has ended only where it waits (6.1): no task is interrupted by the end
    // of a transfer.
    let alone = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    let ring = alone.or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => IoUring::new(entries),
        _ => Err(error),
    })?;
    if !ring.params().is_feature_ext_arg() {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    Ok(ring)
}
