//! What unauthenticated peers can take from a host: some connections for a bounded time, and no process.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};

use stealtime_shipping::Identity;

use crate::authority::Authority;
use crate::host_daemon::{self, Daemon, HOST, PATIENCE, hello};

const STRANGERS: usize = 300;

struct Host {
    daemon: Daemon,
    address: SocketAddr,
    ours: Identity,
    peer: Identity,
}

fn host() -> Host {
    let authority = Authority::new("stealtime");
    let (ours, peer) = (authority.host(&[HOST, "127.0.0.1"]), authority.host(&["a"]));
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // The files of the identities stay as long as the test.
    std::mem::forget(authority);
    Host { daemon: Daemon::start(Some((&format!("tcp:{address}"), &ours))), address, ours, peer }
}

/// The processes that this one has started, and those that they have started.
fn descendants(pid: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let all: Vec<u32> =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).collect();
    let mut found = vec![pid];
    while let Some(more) =
        all.iter().find(|one| !found.contains(one) && parent(**one).is_some_and(|of| found.contains(&of)))
    {
        found.push(*more);
    }
    found.split_off(1)
}

/// How many a process has; none if it has ended meanwhile.
fn sockets(pid: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    entries
        .flatten()
        .filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:")))
        .count()
}

#[test]
fn three_hundred_strangers_get_no_process_and_keep_nobody_out() {
    let Host { daemon, address, peer, .. } = host();
    let strangers: Vec<TcpStream> = (0..STRANGERS).map(|_| TcpStream::connect(address).unwrap()).collect();
    // A friend is heard all the same, behind all of them.
    let refusal = daemon.ask(hello(serde_json::json!({})), Some(&peer));
    assert!(refusal.to_string().contains("b does not understand what is to be protected"), "{refusal}");
    let processes = descendants(daemon.pid());
    assert!(processes.len() <= 2, "{} processes for {STRANGERS} strangers", processes.len());
    for process in processes {
        assert!(sockets(process) < 100, "{} sockets", sockets(process));
    }
    drop(strangers);
}

#[test]
fn a_stranger_who_says_nothing_is_left() {
    let Host { daemon: _daemon, address, .. } = host();
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    let end = stranger.read(&mut [0; 64]);
    let is_over = match &end {
        Ok(read) => *read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(is_over, "{end:?}");
}

#[test]
fn a_daemon_that_ends_leaves_the_port_to_the_next_one_and_a_standby_alive() {
    let Host { mut daemon, address, ours, peer } = host();
    // QEMU does not say what machines it has, so that its standby waits.
    let asked = daemon.path("asked");
    let waits = format!("#!/bin/sh\necho $PPID $$ >{0}.new && mv {0}.new {0}\nexec sleep 60\n", asked.display());
    host_daemon::write_program(&daemon.path("qemu"), &waits);
    let asking = std::thread::spawn({
        let (endpoint, hello) = (daemon.endpoint.clone(), hello(daemon.assignment()));
        move || host_daemon::ask(&endpoint, hello, Some(&peer))
    });
    daemon.await_that("QEMU was asked", |_| asked.exists());
    let pids = fs::read_to_string(&asked).unwrap();
    let [standby, qemu]: [u32; 2] =
        pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
    let others: Vec<u32> = descendants(daemon.pid()).into_iter().filter(|pid| ![standby, qemu].contains(pid)).collect();
    daemon.end();
    let next = Daemon::start(Some((&format!("tcp:{address}"), &ours)));
    assert!(next.log().contains("standby for others"));
    assert!(fs::metadata(format!("/proc/{standby}")).is_ok(), "the standby ended with its daemon");
    let still =
        |pid: &&u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|said| said.contains("standby"));
    assert_eq!(others.iter().filter(still).collect::<Vec<_>>(), Vec::<&u32>::new(), "they still receive");
    for left in [standby, qemu] {
        host_daemon::kill(left);
    }
    assert!(asking.join().unwrap().is_err());
}

#[test]
fn sockets_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let mut daemon = Daemon::start(None);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(daemon.path("host.sock")), 0o600);
    daemon.await_that("it receives", |daemon| !descendants(daemon.pid()).is_empty());
}
