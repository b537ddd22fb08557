//! A page of the guest.

/// Its length.
pub const PAGE_BYTES: usize = 4096;

/// Its content.
pub type Page = [u8; PAGE_BYTES];

pub const ZERO_PAGE: Page = [0; PAGE_BYTES];
