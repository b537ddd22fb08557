//! The library that is preloaded into SIPp, whose sockets then neither wait nor lose answers.
//!
//! SIPp, which has one thread for everything, asks for `SO_LINGER` of a second on each of its connections
//! (`sipp_customize_socket` of its src/socket.cpp): closing one then blocks until the peer has acknowledged the
//! end (socket(7)). A server whose output is held until its state is safe does that a checkpoint later, and of
//! phones with a connection each only some ten a second could be offered, whatever the server bears. That wish
//! is left out: a connection is closed in the background then, as those of most clients are, and nothing that
//! was sent is lost by it.
//!
//! It binds each connection to its address first, and has the kernel choose a port: one that no connection has, not
//! even one that ended in the last minute (`TIME_WAIT`), so that after some 15,000 connections almost all of SIPp's
//! time went into that search (`inet_csk_get_port`), and no rate could be held. The choice is put off until it
//! connects (`IP_BIND_ADDRESS_NO_PORT`, ip(7)), where only the pair of both ends must be free, and the port of an
//! ended connection may be used again (`tcp_tw_reuse`).
//!
//! What such a server answers comes at once after each checkpoint, and SIPp asks for a buffer that holds it
//! (`-buff_size`). Linux gives a socket `net.core.rmem_max` at most, before Linux 6.16 some 200 KiB of it. A
//! process with `CAP_NET_ADMIN`, as phones in a namespace of ours are, gets what it asks for
//! (`SO_RCVBUFFORCE`, socket(7)); others get what they would.

//!
//! With one lost connection SIPp ends all its calls, those of other connections, too. Where [`LOST_STAY_OPEN`] is set,
//! a connection that is lost becomes one on which nothing comes any more, and its loss is a line of the error output:
//! the calls that had it wait in vain for their answers, and all others go on.

mod sys;

pub use sys::{bind, recvfrom, send, setsockopt};

/// The variable of the environment.
pub const LOST_STAY_OPEN: &str = "STEALTIME_LOST_STAY_OPEN";
