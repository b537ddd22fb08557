//! `rtp talk` as processes: each end of a path with known faults, which are others in each direction.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agent_process;
mod voice_path;

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::Value;
use stealtime_media::Mark;
use voice_path::{Fate, Listener, Path, assert_delays_lie_between, assert_valid_or_late, now_ns, number, of_stream};

/// One end, which listens and is about to speak.
fn talker(to: &str, from: &str, arguments: &[&str]) -> Listener {
    Listener::start(&["talk", to, "--from", from], arguments)
}

/// An address of this machine where no port is taken: all from 127.0.0.1 on are its own.
fn own_address() -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.98.{high}.{low}")
}

fn counts(heard: &Value) -> Vec<u64> {
    ["sent", "received", "lost", "duplicated", "reordered"].map(|name| number(&heard[name])).to_vec()
}

fn faults_there(mark: &Mark) -> Fate {
    match (mark.stream, mark.index) {
        (0, index) if index % 100 == 99 => Fate::Drop,
        (1, index) if index % 70 == 69 => Fate::Double,
        (2, _) => Fate::Hold(Duration::from_millis(20)),
        _ => Fate::Pass,
    }
}

fn faults_back(mark: &Mark) -> Fate {
    match (mark.stream, mark.index) {
        (1, index) if index % 50 == 10 => Fate::Swap,
        (3, 100..112) => Fate::Drop,
        _ => Fate::Pass,
    }
}

#[test]
fn each_direction_has_its_own_faults() {
    let [hither, thither] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let start = |to: &UdpSocket| {
        let to = to.local_addr().unwrap().to_string();
        let streams = ["--ports", "one", "-n", "4", "-D", "4s", "--first-sequence", "65500"];
        talker(&to, "127.0.0.1:0", &streams)
    };
    let (caller, phone) = (start(&hither), start(&thither));
    let there = Path::start(hither.try_clone().unwrap(), thither.try_clone().unwrap(), phone.at, faults_there);
    let back = Path::start(thither, hither, caller.at, faults_back);
    let ends = [caller, phone].map(|one| one.agent.end());
    let (went, came) = (there.end(), back.end());
    for (code, found) in &ends {
        assert_valid_or_late(*code, found);
    }
    let [caller, phone] = ends.map(|(_, found)| found);
    for one in [&caller, &phone] {
        assert_eq!(["sent", "streams", "refused"].map(|name| number(&one["spoken"][name])), [800, 4, 0]);
        assert_eq!(one["heard"]["ended"], "complete");
        assert_eq!(number(&one["heard"]["stamps"]["by_process"]), 0, "{:#}", one["heard"]["stamps"]);
    }
    let of = |one: &Value| one["heard"]["streams"].as_array().unwrap().iter().map(counts).collect::<Vec<_>>();
    assert_eq!(of(&phone), [[200, 198, 2, 0, 0], [200, 200, 0, 2, 0], [200, 200, 0, 0, 0], [200, 200, 0, 0, 0]]);
    assert_eq!(of(&caller), [[200, 200, 0, 0, 0], [200, 200, 0, 0, 4], [200, 200, 0, 0, 0], [200, 188, 12, 0, 0]]);
    let delays = |one: &Value, stream: usize| one["heard"]["streams"][stream]["delay_ns"].clone();
    // What the one direction holds is no delay of the other.
    assert_delays_lie_between(&delays(&phone, 2), &of_stream(&went, 2));
    assert_delays_lie_between(&delays(&caller, 2), &of_stream(&came, 2));
    assert!(number(&delays(&phone, 2)["min"]) >= 19_990_000, "{}", delays(&phone, 2));
}

#[test]
fn one_port_is_for_both_directions_of_a_stream() {
    let address = own_address();
    let (callers, phones) = (format!("{address}:41000"), format!("{address}:42000"));
    let began_ns = now_ns();
    let [caller, phone] = [(&phones, &callers), (&callers, &phones)]
        .map(|(to, from)| talker(to, from, &["-n", "20", "-D", "200ms", "--lead", "300ms"]));
    for (talker, other) in [(caller, 42000), (phone, 41000)] {
        let (code, found) = talker.agent.end();
        assert_valid_or_late(code, &found);
        assert_eq!(counts(&found["heard"]["total"]), [200, 200, 0, 0, 0]);
        let started_ns = number(&found["heard"]["started_monotonic_ns"]);
        assert!((began_ns..now_ns()).contains(&started_ns), "{started_ns}");
        for (stream, heard) in (0..).zip(found["heard"]["streams"].as_array().unwrap()) {
            assert_eq!((number(&heard["stream"]), heard["source_changes"].as_u64()), (stream, Some(0)));
            assert_eq!(heard["source"], format!("{address}:{}", other + 2 * stream));
        }
    }
}

#[test]
fn who_hangs_up_early_tells_what_was_said_and_the_other_goes_on() {
    let address = own_address();
    let (callers, phones) = (format!("{address}:43000"), format!("{address}:44000"));
    let mut caller = talker(&phones, &callers, &["-D", "60s"]);
    let phone = talker(&callers, &phones, &["-D", "3s"]);
    caller.agent.await_progress(|line| line.contains("packets") && !line.contains("packets         0"));
    let ((caller_code, caller), (phone_code, phone)) = (caller.agent.close(), phone.agent.end());
    assert_valid_or_late(caller_code, &caller);
    assert_valid_or_late(phone_code, &phone);
    assert_eq!((&caller["heard"]["ended"], &phone["heard"]["ended"]), (&"stopped".into(), &"complete".into()));
    let said = number(&caller["spoken"]["sent"]);
    assert!(said < 3000, "{said}");
    assert_eq!(counts(&phone["heard"]["total"]), [said, said, 0, 0, 0]);
    assert_eq!(["sent", "refused"].map(|name| number(&phone["spoken"][name])), [150, 0]);
}

#[test]
fn where_nobody_answers_all_is_said_and_nothing_heard() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = nobody.local_addr().unwrap().to_string();
    let (code, found) = talker(&to, "127.0.0.1:0", &["-D", "100ms", "--wait", "1ms", "--lead", "1ms"]).agent.end();
    assert_eq!((code, &found["valid"], &found["heard"]["ended"]), (Some(4), &Value::Bool(false), &"nothing".into()));
    assert_eq!(number(&found["spoken"]["sent"]), 5);
}
