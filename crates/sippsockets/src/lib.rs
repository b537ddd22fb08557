//! The library that is preloaded into SIPp, so that its sockets neither wait for their peer nor lose its answers.
//!
//! SIPp, which has one thread for everything, asks for `SO_LINGER` of a second on each of its connections
//! (`sipp_customize_socket` of its src/socket.cpp): closing one then blocks until the peer has acknowledged the
//! end (socket(7)). A server whose output is held until its state is safe does that a checkpoint later, and of
//! phones with a connection each only some ten a second could be offered, whatever the server bears. That wish
//! is left out: a connection is closed in the background then, as those of most clients are, and nothing that
//! was sent is lost by it.
//!
//! What such a server answers comes at once after each checkpoint, and SIPp asks for a buffer that holds it
//! (`-buff_size`). Linux gives a socket `net.core.rmem_max` at most, before Linux 6.16 some 200 KiB of it. A
//! process with `CAP_NET_ADMIN`, as phones in a namespace of ours are, gets what it asks for
//! (`SO_RCVBUFFORCE`, socket(7)); others get what they would.

mod sys;

pub use sys::setsockopt;
