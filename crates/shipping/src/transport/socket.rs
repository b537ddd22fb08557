//! How the kernel is to treat the sockets of a link.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// What the kernel may hold of bytes that a heartbeat would have to wait behind: 10 ms at 200 Mbit/s. The
/// kernel doubles the figure for its own bookkeeping (socket(7)).
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Bytes that wait in the kernel and are not on the line yet; writing goes on when there are fewer. Above
/// what is in flight this needs no room: the sender's task follows at once (`TCP_NOTSENT_LOWAT`, tcp(7)).
const NOT_SENT_BYTES: u32 = 64 << 10;

/// Heartbeats notice a dead peer long before this; it ends connections of members that are stopped.
const DEAD_AFTER: Duration = Duration::from_secs(20);

/// Bounds what waits in the kernel, for any socket.
pub fn bound_buffers(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)
}

/// Sends small messages at once, bounds what waits, and notices dead peers.
pub fn prepare_tcp(socket: &SockRef<'_>) -> io::Result<()> {
    bound_buffers(socket)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(NOT_SENT_BYTES)?;
    socket.set_tcp_user_timeout(Some(DEAD_AFTER))?;
    let keepalive = TcpKeepalive::new().with_time(DEAD_AFTER / 4).with_interval(DEAD_AFTER / 8).with_retries(6);
    socket.set_tcp_keepalive(&keepalive)
}
