//! `blackout` as a process, with a path between it and the counter that is silent at known times.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agent_process;
mod counter_process;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use agent_process::{AGENT, Agent};
use counter_process::Counter;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// Clocks are compared to some microseconds.
const SLACK_NS: u64 = 20_000;

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(now.tv_sec() * 1_000_000_000 + now.tv_nsec()).unwrap()
}

fn blackout(arguments: &[&str]) -> Output {
    Command::new(AGENT).args(["blackout", "--json", "--quiet"]).args(arguments).output().unwrap()
}

fn document(output: &Output) -> Value {
    let told = serde_json::from_slice(&output.stdout);
    told.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// When the path gave something to the client.
#[derive(Debug, Clone, Copy)]
struct Passed {
    before_ns: u64,
    after_ns: u64,
}

/// When the path was silent, by its own clock.
#[derive(Debug, Clone, Copy)]
struct Silent {
    from_ns: u64,
    to_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Drop,
    Hold,
}

/// A process in the middle: a thread of this test, which is silent so long each 250 ms, in turn.
struct Path {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Vec<Passed>, Vec<Silent>)>,
}

impl Path {
    fn start(to: SocketAddr, manner: Manner, lengths_ms: &'static [u64]) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = front.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = thread::spawn(move || forward(&front, to, manner, lengths_ms, &stopping));
        Self { at, stop, thread }
    }

    fn end(self) -> (Vec<Passed>, Vec<Silent>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn forward(
    front: &UdpSocket,
    to: SocketAddr,
    manner: Manner,
    lengths_ms: &[u64],
    stop: &AtomicBool,
) -> (Vec<Passed>, Vec<Silent>) {
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(to).unwrap();
    front.set_nonblocking(true).unwrap();
    back.set_nonblocking(true).unwrap();
    let (mut passed, mut silences) = (Vec::new(), Vec::new());
    let (mut client, mut bytes) = (None, [0; 512]);
    let mut lengths = lengths_ms.iter();
    let mut next_ns = u64::MAX;
    while !stop.load(Ordering::Relaxed) {
        let from_ns = now_ns();
        if from_ns >= next_ns
            && let Some(length_ms) = lengths.next()
        {
            thread::sleep(Duration::from_millis(*length_ms));
            if manner == Manner::Drop {
                while front.recv(&mut bytes).is_ok() || back.recv(&mut bytes).is_ok() {}
            }
            silences.push(Silent { from_ns, to_ns: now_ns() });
            next_ns = now_ns() + 250 * MS;
        }
        let mut polled = [front.as_fd(), back.as_fd()].map(|socket| PollFd::new(socket, PollFlags::POLLIN));
        let _ = poll(&mut polled, PollTimeout::from(5_u8));
        if let Ok((length, from)) = front.recv_from(&mut bytes) {
            // The first silence is some time after the client has begun.
            if client.replace(from).is_none() {
                next_ns = now_ns() + 250 * MS;
            }
            back.send(&bytes[..length]).unwrap();
        }
        if let (Ok(length), Some(client)) = (back.recv(&mut bytes), client) {
            let before_ns = now_ns();
            // A client that has ended is no error of the path.
            let _ = front.send_to(&bytes[..length], client);
            passed.push(Passed { before_ns, after_ns: now_ns() });
        }
    }
    (passed, silences)
}

/// Whether the path itself had given nothing from the one moment to the other: its own stamps are the truth.
fn is_of_path(from_ns: u64, to_ns: u64, passed: &[Passed]) -> bool {
    let is_at = |one: &Passed, moment_ns: u64| {
        (one.before_ns.saturating_sub(SLACK_NS)..=one.after_ns + SLACK_NS).contains(&moment_ns)
    };
    passed.windows(2).any(|pair| is_at(&pair[0], from_ns) && is_at(&pair[1], to_ns))
}

fn assert_found(manner: Manner, lengths_ms: &'static [u64]) {
    let counter = Counter::start("127.0.0.1:0", "127.0.0.1:0", &[]);
    let path = Path::start(counter.udp.parse().unwrap(), manner, lengths_ms);
    let seconds = format!("{}ms", 700 + lengths_ms.iter().map(|length_ms| length_ms + 260).sum::<u64>());
    let output = blackout(&["--udp", &path.at.to_string(), "-D", &seconds]);
    let (passed, silences) = path.end();
    let found = document(&output);
    let way = &found["ways"][0];
    assert_eq!(silences.len(), lengths_ms.len());
    assert_eq!(way["violations_total"], 0, "{way}");
    assert_eq!(number(&way["stamped_by_process"]), 0, "{way}");
    let blackouts = way["blackouts"].as_array().unwrap();
    let moments = |one: &Value| (number(&one["from_monotonic_ns"]), number(&one["to_monotonic_ns"]));
    for one in blackouts {
        let (from_ns, to_ns) = moments(one);
        assert!(is_of_path(from_ns, to_ns, &passed), "nothing was silent then: {one}");
        assert_eq!(number(&one["at_most_ns"]), to_ns - from_ns);
        assert!(number(&one["at_least_ns"]) <= number(&one["length_ns"]));
    }
    for silent in &silences {
        let contains =
            |from_ns: u64, to_ns: u64| from_ns <= silent.from_ns + SLACK_NS && silent.to_ns <= to_ns + SLACK_NS;
        let hit = blackouts.iter().find(|one| contains(moments(one).0, moments(one).1));
        // On a machine that stood still itself, it must say so.
        let excuse = way["unjudged"].as_array().unwrap().iter().any(|one| {
            let from_ns = number(&one["from_monotonic_ns"]);
            contains(from_ns, from_ns + number(&one["silence_ns"]))
        });
        assert!(hit.is_some() || excuse, "{silent:?} was not found: {way:#}");
        if let Some(hit) = hit {
            let lost = number(&hit["lost"]);
            assert!(if manner == Manner::Hold { lost == 0 } else { lost > 0 }, "{hit}");
        }
    }
}

#[test]
fn silences_that_lose_everything_are_found() {
    assert_found(Manner::Drop, &[20, 100, 20, 400]);
}

#[test]
fn silences_that_delay_everything_are_found() {
    assert_found(Manner::Hold, &[20, 100, 20]);
}

#[test]
fn where_nothing_was_silent_nothing_is_found() {
    assert_found(Manner::Drop, &[]);
}

#[test]
fn a_counter_that_began_anew_has_forgotten_and_its_connection_was_made_anew() {
    let mut counter = Counter::start("127.0.0.1:0", "127.0.0.1:0", &[]);
    let at = counter.tcp.clone();
    let mut watching = Agent::start(&["blackout", "--json-progress"], &["--tcp", &at]);
    let mut wait_for = |is_it: &dyn Fn(&Value) -> bool| {
        watching.await_progress(|line| is_it(&serde_json::from_str::<Value>(line).unwrap()["ways"][0]));
    };
    wait_for(&|way| number(&way["answered"]) > 100);
    counter.kill();
    wait_for(&|way| number(&way["connection_losses"]) == 1);
    let _another = Counter::start(&at, "127.0.0.1:0", &[]);
    wait_for(&|way| number(&way["violations"]) > 0);
    let (code, found) = watching.close();
    assert_eq!(code, Some(3));
    let way = &found["ways"][0];
    let kinds: Vec<&str> =
        way["violations"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"forgotten") && kinds.contains(&"life_changed"), "{kinds:?}");
    assert_eq!(way["connection_lived"], false);
    assert!(way["connection_losses"][0]["again_monotonic_ns"].is_u64(), "{way}");
    let lost_ns = number(&way["connection_losses"][0]["at_monotonic_ns"]);
    let is_in_it =
        |one: &Value| (number(&one["from_monotonic_ns"])..number(&one["to_monotonic_ns"])).contains(&lost_ns);
    assert!(way["blackouts"].as_array().unwrap().iter().any(is_in_it), "{way}");
}

#[test]
fn a_service_is_watched_without_any_help_of_its_own() {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = service.local_addr().unwrap().to_string();
    let output = blackout(&["--connect", &at, "-i", "2ms", "-D", "300ms"]);
    let found = document(&output);
    let way = &found["ways"][0];
    assert_eq!(number(&way["interval_ns"]), 40 * MS);
    assert!(number(&way["answered"]) > 0, "{way}");
    assert_eq!(way["last_value"], Value::Null);
    assert!(found["limits"].to_string().contains("forgotten values cannot be seen"), "{found}");
    let output = blackout(&["--ping", "127.0.0.1", "-D", "300ms"]);
    let told = String::from_utf8_lossy(&output.stderr);
    if told.contains("not permitted") {
        assert!(told.contains("ping_group_range"), "{told}");
        eprintln!("skipped: this user may not ping (net.ipv4.ping_group_range)");
        return;
    }
    let way = &document(&output)["ways"][0];
    assert!(number(&way["answered"]) > 0 && number(&way["stamped_by_process"]) == 0, "{way}");
}

#[test]
fn what_cannot_be_watched_is_told_with_a_hint() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let greeter = TcpListener::bind("127.0.0.1:0").unwrap();
    let greeted = greeter.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut client in greeter.incoming().flatten() {
            let _ = client.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n");
        }
    });
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--tcp", &nobody, "--wait", "100ms"], 1, "no answer over TCP from"),
        (&["--udp", &nobody, "--wait", "100ms"], 1, "no answer over UDP from"),
        (&["--connect", &nobody, "--wait", "100ms"], 1, "Connection refused"),
        (&["--tcp", &greeted], 1, "is no counter"),
        (&["--tcp", &nobody, "--interval", "10us"], 2, "an interval of 10us is shorter than 100us"),
        (&["--tcp", &nobody, "--threshold", "1ms"], 2, "a threshold of 1ms is shorter than 3 intervals of 500us"),
    ];
    for (arguments, code, text) in cases {
        let output = blackout(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(text) && told.contains("hint: "), "{told}");
    }
}
