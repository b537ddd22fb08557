//! The library that is preloaded into QEMU and hands out its userfaultfd.
//!
//! Linux tells which pages a process has written through a userfaultfd in asynchronous write-protect mode and
//! the ioctl `PAGEMAP_SCAN` (Linux 6.7, Documentation/admin-guide/mm/userfaultfd.rst). The scan works from
//! outside, but only the process itself can create its userfaultfd. So that QEMU need not be patched, this
//! library is loaded into it with `LD_PRELOAD`: it watches `mmap` for the file that is the guest's memory,
//! registers that mapping, and sends the descriptor, address and length over a socket that QEMU inherited.
//! All else is left as it was: what fails here is reported over the socket by name, and QEMU's call of `mmap`
//! answers as without us.
//!
//! | environment variable | meaning |
//! |---|---|
//! | [`handover::FILE_VARIABLE`] | device and inode of the file, as `DEVICE:INODE` in decimal |
//! | [`handover::SOCKET_VARIABLE`] | number of the inherited socket (`SOCK_SEQPACKET`) |
//!
//! Both, and this library's own entry in `LD_PRELOAD`, are gone from the environment before QEMU's `main`
//! begins, and the socket is closed on `exec`: children of QEMU see nothing of it.

pub mod handover;
mod session;
mod sys;
