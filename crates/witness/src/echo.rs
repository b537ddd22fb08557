//! `echo`: sends back each message of the probe `net`, with when it came and when it went, by this machine's
//! time-stamp counter.
//!
//! UDP has one thread, each TCP connection another. What is no message of the probe is not answered, so that nobody is
//! sent more than he sent.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use stealtime_console::remarks;
use stealtime_probe::clock::time_stamp_counter;
use stealtime_probe::net::message::{HEAD_BYTES, MOST_BYTES, length_of, set_times};
use stealtime_probe::scheduling;

/// A connection costs a thread.
const MOST_CONNECTIONS: usize = 64;

/// A listener that cannot accept for want of descriptors or memory tries again after this.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// `echo`
#[derive(Debug, Args)]
pub struct Echo {
    /// Where to listen, over UDP and TCP alike; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7007")]
    listen: SocketAddr,
    /// SCHED_FIFO priority of the threads that answer; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=99))]
    priority: u32,
}

/// What it prints once it listens.
#[derive(Serialize)]
struct Listening {
    listening: SocketAddr,
}

/// `stealtime-agent echo`
pub fn run(echo: &Echo) -> Result<ExitCode> {
    let (listener, socket) = bind(echo.listen).with_context(|| format!("echo cannot listen on {}", echo.listen))?;
    let listening = socket.local_addr().context("the address of a socket cannot be read")?;
    let mut output = io::stdout().lock();
    writeln!(output, "{}", serde_json::to_string(&Listening { listening })?)?;
    output.flush()?;
    drop(output);
    let priority = echo.priority;
    let accepting = thread::Builder::new().name("accept".to_owned());
    accepting.spawn(move || accept(&listener, priority)).context("a thread cannot be started")?;
    take_priority(priority)?;
    match answer_datagrams(&socket) {
        Err(error) => Err(error).context("echo cannot go on"),
    }
}

/// The same port of both protocols; where any will do, one that both have.
fn bind(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut tries = if address.port() == 0 { 20 } else { 1 };
    loop {
        tries -= 1;
        let listener = TcpListener::bind(address)?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(socket) => return Ok((listener, socket)),
            Err(error) if error.kind() == ErrorKind::AddrInUse && tries > 0 => {}
            Err(error) => return Err(error),
        }
    }
}

fn take_priority(priority: u32) -> Result<()> {
    if priority > 0 {
        let refused = || format!("SCHED_FIFO {priority} is refused; run as root, or without --priority");
        scheduling::request_fifo(priority).with_context(refused)?;
    }
    Ok(())
}

fn answer_datagrams(socket: &UdpSocket) -> io::Result<Infallible> {
    let mut message = vec![0; MOST_BYTES];
    loop {
        let (length, asker) = match socket.recv_from(&mut message) {
            Ok(received) => received,
            // What the network said of an answer whose asker has gone.
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionRefused) => continue,
            Err(error) => return Err(error),
        };
        let received = time_stamp_counter();
        if length_of(&message[..length]) != Some(length) {
            continue;
        }
        set_times(&mut message[..length], received, time_stamp_counter());
        // An answer that cannot be sent is one that the asker counts as lost.
        let _ = socket.send_to(&message[..length], asker);
    }
}

fn accept(listener: &TcpListener, priority: u32) {
    let connections = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(AFTER_REFUSAL);
            continue;
        };
        if connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let counted = Arc::clone(&connections);
        let started = thread::Builder::new().name("connection".to_owned()).spawn(move || {
            if let Err(error) = take_priority(priority).and_then(|()| answer_stream(stream)) {
                remarks::say(format_args!("a connection has ended: {}", remarks::in_full(&error)));
            }
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn answer_stream(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut message = vec![0; MOST_BYTES];
    loop {
        match stream.read_exact(&mut message[..HEAD_BYTES]) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            read => read?,
        }
        let length = length_of(&message[..HEAD_BYTES]);
        ensure!(length.is_some(), "the asker sent no message of the probe net");
        let length = length.unwrap_or(HEAD_BYTES);
        stream.read_exact(&mut message[HEAD_BYTES..length])?;
        let received = time_stamp_counter();
        set_times(&mut message[..length], received, time_stamp_counter());
        stream.write_all(&message[..length])?;
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use stealtime_probe::net::message::{answer_of, message, set_number};

    use super::*;

    #[test]
    fn a_datagram_comes_back_with_its_times_and_a_stranger_is_not_answered() {
        let (_listener, socket) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        thread::spawn(move || answer_datagrams(&socket));
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(address).unwrap();
        client.send(b"who are you?").unwrap();
        let mut asked = message(100, 9);
        set_number(&mut asked, 3);
        client.send(&asked).unwrap();
        let mut got = [0; 200];
        let length = client.recv(&mut got).unwrap();
        let answer = answer_of(&got[..length]).unwrap();
        assert_eq!((length, answer.number, answer.asker), (100, 3, 9));
        assert!(0 < answer.received && answer.received <= answer.answered);
    }

    #[test]
    fn a_stream_is_answered_message_by_message() {
        let (listener, _socket) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || accept(&listener, 0));
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(&[message(64, 1), message(48, 1)].concat()).unwrap();
        let mut got = [0; 112];
        client.read_exact(&mut got).unwrap();
        assert!(answer_of(&got[..64]).is_some() && answer_of(&got[64..]).is_some());
    }
}
