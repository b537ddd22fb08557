//! The disks of a protected guest.
//!
//! QEMU has no image of its own: each disk is an NBD export of this process on a socket that QEMU inherits
//! ([`Disk`]). So this process sees each write before QEMU hears that it is done, and QEMU needs no right to
//! any file. The image always has everything that was written ([`Image`]). Beside that, all writes since the
//! last cut are kept in their order ([`Recorder`]): they are what an epoch ships of the disks.
//!
//! When QEMU has stopped its guest, it has waited for each of its requests (`bdrv_drain_all`), so that a cut
//! at that moment has all writes before it and none after it.
//!
//! A standby writes an epoch into its own image once that is committed ([`Image::apply`]). How a standby comes to have
//! the same image at all: blocks are compared by their digests, and those that differ are copied while the guest runs;
//! what it writes meanwhile is noted by block, and at the end kept as writes, which make up for whatever was copied
//! too early or too late.
//!
//! What is acknowledged of the guest's own wish to have something on the medium depends on [`Flush`]; a standby keeps
//! a [`Journal`] where it is [`Flush::Stable`].
//!
//! [`Currency`] notes beside each image up to which term it is current: an image that was left behind is not
//! booted by mistake.

mod companion;
mod copying;
mod currency;
#[cfg(test)]
mod epochs;
mod image;
mod journal;
mod medium;
mod nbd;
mod recorder;
mod server;
mod write;

pub use copying::{BLOCK_BYTES, BlockDigest, Blocks, WINDOW_BLOCKS};
pub use currency::{Currency, CurrencyError};
pub use image::{Image, ImageError, ImageFile};
pub use journal::Journal;
pub use medium::Format;
pub use recorder::{Flush, Recorder};
pub use server::{Disk, ServeError, medium_fault};
pub use write::{Content, Write};
