//! A connection that is lost, with and without the wish that it stays open. Alone in its process, whose environment it
//! changes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::env;
use std::ffi::c_int;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::ptr;

use stealtime_sippsockets::{LOST_STAY_OPEN, recvfrom, send};

fn heard(socket: c_int) -> Result<usize, Option<i32>> {
    let mut buffer = [0_u8; 16];
    // SAFETY: the buffer lives for the call.
    told(unsafe { recvfrom(socket, buffer.as_mut_ptr().cast(), buffer.len(), 0, ptr::null_mut(), ptr::null_mut()) })
}

fn said(socket: c_int) -> Result<usize, Option<i32>> {
    // SAFETY: the bytes live for the call.
    told(unsafe { send(socket, b"BYE".as_ptr().cast(), 3, libc::MSG_NOSIGNAL) })
}

fn told(result: isize) -> Result<usize, Option<i32>> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error().raw_os_error())
}

fn pair(server: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    (client, server.accept().unwrap().0)
}

#[test]
fn calls_of_other_connections_hear_nothing_of_a_lost_one() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (client, peer) = pair(&server);
    drop(peer);
    assert_eq!(heard(client.as_raw_fd()), Ok(0), "without the wish its end is told");

    // SAFETY: this is the only thread that has to do with the environment.
    unsafe { env::set_var(LOST_STAY_OPEN, "1") };
    let (client, peer) = pair(&server);
    let (other, mut other_peer) = pair(&server);
    drop(peer);
    for _ in 0..3 {
        assert_eq!(heard(client.as_raw_fd()), Ok(1));
        assert_eq!(said(client.as_raw_fd()), Ok(3));
    }
    assert_eq!(said(other.as_raw_fd()), Ok(3));
    let mut bytes = [0_u8; 3];
    other_peer.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"BYE");
    other_peer.write_all(b"200").unwrap();
    assert_eq!(heard(other.as_raw_fd()), Ok(3));

    // One that is lost while it sends: the first bytes bring the reset, the next ones find it.
    let (client, peer) = pair(&server);
    drop(peer);
    let results: Vec<_> = (0..50).map(|_| said(client.as_raw_fd())).collect();
    assert!(results.iter().all(|one| *one == Ok(3)), "{results:?}");
    assert_eq!(heard(client.as_raw_fd()), Ok(1));
}
