//! A page of the guest.

pub const PAGE_BYTES: usize = 4096;

pub type Page = [u8; PAGE_BYTES];

pub const ZERO_PAGE: Page = [0; PAGE_BYTES];
