//! Transfers through Linux AIO (`io_submit(2)`), which the C library does not have.

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};

use super::transfer_buffers::TransferBuffers;

/// `IOCB_CMD_PREAD` and `IOCB_CMD_PWRITE` (`linux/aio_abi.h`).
const READ: u16 = 0;
const WRITE: u16 = 1;

/// `struct iocb` of a little-endian machine (`linux/aio_abi.h`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Block {
    data: u64,
    key: u32,
    flags_of_write: u32,
    operation: u16,
    priority: i16,
    file: u32,
    memory: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    notify: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    second_result: i64,
}

/// A context, the file that it transfers from or to, and the memory.
pub struct Aio {
    context: libc::c_ulong,
    file: OwnedFd,
    buffers: ManuallyDrop<TransferBuffers>,
    blocks: Box<[Block]>,
    /// Prepared, not yet handed over.
    pending: Vec<*mut Block>,
    events: Box<[Event]>,
    /// Of `events`, those that were not yet given.
    left: std::ops::Range<usize>,
    writes: bool,
    under_way: usize,
}

impl Aio {
    /// Makes a context for as many transfers at a time as there are buffers.
    pub fn new(
        file: OwnedFd,
        writes: bool,
        buffers: TransferBuffers,
    ) -> Result<Self, (io::Error, OwnedFd, TransferBuffers)> {
        let depth = buffers.count();
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is writable, and zero as the call wants it.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        if result != 0 {
            return Err((io::Error::last_os_error(), file, buffers));
        }
        Ok(Self {
            context,
            file,
            buffers: ManuallyDrop::new(buffers),
            blocks: vec![Block::default(); depth].into(),
            pending: Vec::with_capacity(depth),
            events: vec![Event::default(); depth].into(),
            left: 0..0,
            writes,
            under_way: 0,
        })
    }

    /// Writes a transfer down; [`Self::submit`] hands it over.
    #[inline(always)]
    pub fn prepare(&mut self, number: usize, offset: u64) {
        let memory = self.buffers.start_of(number) as u64;
        self.blocks[number] = Block {
            data: number as u64,
            operation: if self.writes { WRITE } else { READ },
            file: self.file.as_raw_fd().unsigned_abs(),
            memory,
            bytes: self.buffers.piece_bytes() as u64,
            offset: offset.cast_signed(),
            ..Block::default()
        };
        self.pending.push(&raw mut self.blocks[number]);
        self.under_way += 1;
    }

    /// Hands over what was prepared and waits for `least` transfers to end, but no longer than `timeout_ns`.
    pub fn submit(&mut self, least: usize, timeout_ns: u64) -> io::Result<()> {
        while !self.pending.is_empty() {
            // SAFETY: each points to a block of ours that stays where it is, and describes memory and a file that live
            // until the context has gone.
            let taken = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, self.pending.len(), self.pending.as_mut_ptr())
            };
            match usize::try_from(taken) {
                Ok(taken) => drop(self.pending.drain(..taken)),
                Err(_) => match io::Error::last_os_error() {
                    error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => break,
                    error => return Err(error),
                },
            }
        }
        if !self.left.is_empty() {
            return Ok(());
        }
        let time = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (timeout_ns % 1_000_000_000).cast_signed(),
        };
        // SAFETY: `events` is writable and as long as is said.
        let count = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                least.min(self.events.len()),
                self.events.len(),
                self.events.as_mut_ptr(),
                &raw const time,
            )
        };
        match usize::try_from(count) {
            Ok(count) => self.left = 0..count,
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => {}
                error => return Err(error),
            },
        }
        Ok(())
    }

    /// Gives a transfer that has ended: which, and the bytes or the negative error number.
    #[inline(always)]
    pub fn next_ended(&mut self) -> Option<(usize, i32)> {
        let event = self.events[self.left.next()?];
        self.under_way -= 1;
        #[expect(clippy::cast_possible_truncation, reason = "as it was given in `prepare`, and at most 16 MiB")]
        Some((event.data as usize, event.result as i32))
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        if self.under_way > 0 {
            // Destroying the context would wait for a device that may never answer: both stay until the process ends.
            return;
        }
        // SAFETY: the context of `new`, with nothing under way; the memory is not used after this.
        unsafe {
            libc::syscall(libc::SYS_io_destroy, self.context);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}
