//! All that is unsafe: memory that another process writes, ioctls, and what a child does between fork and
//! exec.

mod mapping;
mod pagemap;
mod spawn;
mod staging;
mod userfault;

pub(crate) use mapping::{Mapping, copy_to, extend_from, page_equals};
pub(crate) use pagemap::{PageRegion, is_registered, scan_written};
pub(crate) use spawn::tie_child_to_this_process;
pub(crate) use staging::prefer_huge_pages;
pub(crate) use userfault::write_protect;
