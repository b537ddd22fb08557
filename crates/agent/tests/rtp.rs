//! `rtp send` and `rtp receive` as processes, with a path between them that has known faults.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agent_process;
mod voice_path;

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use agent_process::AGENT;
use serde_json::Value;
use stealtime_media::{Kind, Mark};
use voice_path::{Fate, Listener, Path, assert_delays_lie_between, assert_valid_or_late, now_ns, number, of_stream};

fn receiver(at: &str, arguments: &[&str]) -> Listener {
    Listener::start(&["receive", at], arguments)
}

fn send(to: SocketAddr, arguments: &[&str]) -> Output {
    Command::new(AGENT)
        .args(["rtp", "send", &to.to_string(), "--json", "--quiet"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn document(output: &Output) -> Value {
    let told = serde_json::from_slice(&output.stdout);
    told.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// 200 packets of each stream.
fn faults(mark: &Mark) -> Fate {
    match (mark.stream, mark.index) {
        (1, index) if index % 100 == 99 => Fate::Drop,
        (2, index) if index % 70 == 69 => Fate::Double,
        (3, index) if index % 50 == 10 => Fate::Swap,
        (4, _) => Fate::Hold(Duration::from_millis(20)),
        // 12 packets of 20 ms and what is around them: a silence of some 250 ms.
        (5, 100..112) | (6, _) => Fate::Drop,
        _ => Fate::Pass,
    }
}

#[test]
fn each_fault_of_a_path_is_found_as_what_it_is() {
    let receiver = receiver("127.0.0.1:0", &["--ports", "one"]);
    let hears = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (at, says) = (hears.local_addr().unwrap(), hears.try_clone().unwrap());
    let path = Path::start(hears, says, receiver.at, faults);
    let strangers = UdpSocket::bind("127.0.0.1:0").unwrap();
    let others: [&[u8]; 3] = [b"no RTP at all", &[0x80; 172], &[0x80, 200, 0, 1, 0, 0, 0, 0]];
    for stranger in others {
        strangers.send_to(stranger, receiver.at).unwrap();
    }
    let sent = send(at, &["--ports", "one", "-n", "7", "-D", "4s", "--first-sequence", "65500"]);
    assert_eq!(document(&sent)["sent"], 1400);
    // Stream 6 tells its end and nothing else.
    let (code, found) = receiver.agent.end();
    let passed = path.end();
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!(found["ended"], "complete");

    let counts = |stream: &Value| {
        ["sent", "received", "lost", "duplicated", "reordered"].map(|name| number(&stream[name])).to_vec()
    };
    let streams = found["streams"].as_array().unwrap();
    assert_eq!(counts(&streams[0]), [200, 200, 0, 0, 0]);
    // One of the two was the very last packet.
    assert_eq!(counts(&streams[1]), [200, 198, 2, 0, 0]);
    assert_eq!(counts(&streams[2]), [200, 200, 0, 2, 0]);
    assert_eq!(counts(&streams[3]), [200, 200, 0, 0, 4]);
    assert_eq!(counts(&streams[4]), [200, 200, 0, 0, 0]);
    assert_eq!(counts(&streams[5]), [200, 188, 12, 0, 0]);
    assert!(number(&streams[5]["unplayed"]["longest_packets"]) >= 12, "late ones may have joined them");
    assert_eq!(counts(&streams[6]), [200, 0, 200, 0, 0]);
    assert_eq!(counts(&found["total"]), [1400, 1186, 214, 2, 4]);
    let stranger = |kind: &str| number(&found["strangers"][kind]);
    assert_eq!(["not_rtp", "other_rtp", "rtcp", "corrupted"].map(stranger), [1, 1, 1, 0]);
    assert!(streams.iter().all(|stream| stream["renumbered"] == 0), "the sequence began anew");

    // What the receiver says of time lies between the stamps around the path's own sending: the kernel stamps a
    // packet of the loopback interface within the call that sends it.
    assert_eq!(number(&found["stamps"]["by_process"]), 0, "{:#}", found["stamps"]);
    let of_stream = |stream: u32| of_stream(&passed, stream);
    assert_delays_lie_between(&streams[4]["delay_ns"], &of_stream(4));
    assert_eq!(streams[4]["delay_is"], "one_way");
    assert!(number(&streams[4]["delay_ns"]["min"]) >= 19_990_000, "{}", streams[4]["delay_ns"]);
    let silence = &streams[5]["longest_silence"];
    let around = of_stream(5);
    let (before, after) = around
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .find(|(before, after)| after.mark.index - before.mark.index == 13)
        .unwrap();
    let (length, start) = (number(&silence["length_ns"]), number(&silence["start_monotonic_ns"]));
    assert!(length + 10_000 >= after.before_ns - before.after_ns, "{silence}");
    assert!(length <= after.after_ns - before.before_ns + 10_000, "{silence}");
    assert!((before.before_ns - 10_000..=before.after_ns + 10_000).contains(&start), "{silence}");
}

#[test]
fn what_a_reflector_sends_back_is_a_round_trip() {
    let receiver = receiver("127.0.0.1:0", &["--reflect"]);
    let began_ns = now_ns();
    let sent = send(receiver.at, &["-D", "300ms", "--reflected"]);
    let elapsed_ns = now_ns() - began_ns;
    let (code, reflected) = receiver.agent.end();
    assert_eq!(code, Some(0), "{reflected:#}");
    let found = document(&sent);
    let back = &found["came_back"];
    assert_eq!(back["total"]["delay_is"], "round_trip", "{found:#}");
    let counts = ["sent", "received", "lost"].map(|name| number(&back["total"][name]));
    assert_eq!(counts, [15, 15, 0]);
    assert_eq!(number(&found["sent"]), 15);
    // Without the reflector's time, which is another clock's, no packet can have taken longer than all of it.
    assert!((1..elapsed_ns).contains(&number(&back["total"]["delay_ns"]["max"])), "{}", back["total"]);
    assert!(number(&reflected["reflected"]) >= 16, "voice and closing reports: {reflected:#}");
}

#[test]
fn many_streams_have_a_port_each() {
    // All addresses from 127.0.0.1 on are this machine's: on one of its own no port is taken.
    let [.., high, low] = std::process::id().to_be_bytes();
    let receiver = receiver(&format!("127.99.{high}.{low}:40000"), &["-n", "50"]);
    let sent = send(receiver.at, &["-n", "50", "-D", "200ms"]);
    assert_valid_or_late(sent.status.code(), &document(&sent));
    let (code, found) = receiver.agent.end();
    assert_eq!(code, Some(0), "{found:#}");
    let streams = found["streams"].as_array().unwrap();
    let sources: std::collections::BTreeSet<&str> =
        streams.iter().map(|stream| stream["source"].as_str().unwrap()).collect();
    assert_eq!((streams.len(), sources.len()), (50, 50));
    assert_eq!(["sent", "received", "lost"].map(|name| number(&found["total"][name])), [500, 500, 0]);
}

#[test]
fn a_receiver_that_is_ended_early_tells_what_it_has() {
    let mut receiver = receiver("127.0.0.1:0", &["--max-loss", "0"]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let header = stealtime_media::Header { ssrc: 1, sequence: 0, timestamp: 0, marker: false };
    // Packet 0 is missing, and another clock is stated.
    let mark = Mark {
        kind: Kind::Voice,
        sender: 1,
        stream: 0,
        streams: 1,
        clock: 1,
        index: 1,
        due_ns: 0,
        sent_ns: 0,
        turn: None,
    };
    sender.send_to(&stealtime_media::write(&header, &mark), receiver.at).unwrap();
    // It might end before it has looked: its first line of progress shows that it has.
    let has_one = |words: Vec<&str>| words.windows(2).any(|pair| pair == ["packets", "1"]);
    receiver.agent.await_progress(|line| has_one(line.split_whitespace().collect()));
    let (code, found) = receiver.agent.close();
    assert_eq!(code, Some(3), "{found:#}");
    assert_eq!(found["ended"], "stopped");
    assert_eq!(["sent", "received", "lost"].map(|name| number(&found["total"][name])), [2, 1, 1]);
    assert_eq!(found["total"]["delay_is"], "variation");
    let limits = found["limits"].to_string();
    assert!(limits.contains("no closing report") && limits.contains("another one"), "{limits}");
}

#[test]
fn a_threshold_that_would_judge_nothing_is_refused() {
    for threshold in [["--max-loss", "0"], ["--max-silence", "1s"], ["--min-mos", "4"]] {
        let output = send("127.0.0.1:65000".parse().unwrap(), &threshold);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("give --reflected as well"), "{told}");
    }
}

#[test]
fn what_cannot_be_is_told_with_a_hint() {
    let nothing = receiver("127.0.0.1:0", &["--wait", "1ms"]);
    let (code, found) = nothing.agent.end();
    assert_eq!((code, &found["valid"], &found["ended"]), (Some(4), &Value::Bool(false), &"nothing".into()));
    let run = |arguments: &[&str]| Command::new(AGENT).arg("rtp").args(arguments).output().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let holder = UdpSocket::bind(taken).unwrap();
    for arguments in [
        &["receive", &taken.to_string()][..],
        &["send", "127.0.0.1:65000", "-n", "1000"],
        &["send", "--destinations", "/nonexistent"],
    ] {
        let output = run(arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.starts_with("error: ") && told.contains("\nhint: "), "{told}");
    }
    drop(holder);
}
