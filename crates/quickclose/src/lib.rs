//! The library that is preloaded into SIPp and lets it close a connection without waiting for its peer.
//!
//! SIPp, which has one thread for everything, asks for `SO_LINGER` of a second on each of its connections
//! (`sipp_customize_socket` of its src/socket.cpp): closing one then blocks until the peer has acknowledged the
//! end (socket(7)). A server whose output is held until its state is safe does that a checkpoint later, and of
//! phones with a connection each only some ten a second could be offered, whatever the server bears.
//!
//! This library stands before the C library's `setsockopt` and leaves that one wish out. A connection is closed
//! in the background then, as those of most clients are: nothing that was sent is lost by it.

mod sys;

pub use sys::setsockopt;
