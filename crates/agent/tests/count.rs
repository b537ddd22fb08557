//! The counter and its clients as processes, over the loopback interface.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agent_process;
mod counter_process;

use std::net::UdpSocket;
use std::process::{Command, Stdio};

use agent_process::{AGENT, Agent};
use counter_process::Counter;
use serde_json::Value;

/// A counter with some memory.
fn counter(tcp: &str, udp: &str) -> Counter {
    Counter::start(tcp, udp, &["--memory", "1MiB", "--dirty", "10/10ms"])
}

fn on_any_port() -> Counter {
    counter("127.0.0.1:0", "127.0.0.1:0")
}

/// A client that counts until it is told to stop.
fn client(arguments: &[&str]) -> Agent {
    Agent::start(&["count", "--wait", "60s"], arguments)
}

/// Waits until it has been told a value of at least this over each protocol.
fn await_value(client: &mut Agent, least: u64) {
    client.await_progress(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let values = words.windows(2).filter(|pair| pair[0] == "value");
        values.map(|pair| pair[1].parse::<u64>().unwrap()).min().is_some_and(|value| value >= least)
    });
}

fn kinds(document: &Value, protocol: &str) -> Vec<String> {
    let violations = document["violations"].as_array().unwrap().iter();
    let of_protocol = violations.filter(|violation| violation["protocol"] == protocol);
    of_protocol.map(|violation| violation["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_counter_that_lives_on_is_without_violations() {
    let server = on_any_port();
    let arguments = ["--tcp", &server.tcp, "--udp", &server.udp, "--interval", "1ms", "--flows", "2", "--check"];
    let mut client = client(&arguments);
    await_value(&mut client, 20);
    let (code, document) = client.close();
    assert_eq!(code, Some(0), "{document:#}");
    assert_eq!(document["violations"], serde_json::json!([]));
    assert_eq!(document["tcp_lived"], true);
    let flows = document["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 4);
    for flow in flows {
        assert_eq!(flow["last_value"], flow["acknowledged"], "{flow:#}");
        assert!(flow["last_value"].as_u64() >= Some(1) && flow["round_trip_ns"]["min"].as_u64() > Some(0), "{flow:#}");
    }
    // Requests that were on their way when the client stopped may have been applied.
    let number = |name: &str| document[name].as_u64().unwrap();
    let total = document["check"]["total"].as_u64().unwrap();
    assert!((number("acknowledged")..=number("requests")).contains(&total), "{document:#}");
    assert_eq!(document["check"]["pages"], 256);
    assert!(document["check"]["verified"].as_u64().unwrap() >= 256);
    assert_eq!(document["check"]["mismatches"], 0);
}

#[test]
fn a_counter_that_is_killed_and_started_again_is_found_out() {
    let mut server = on_any_port();
    let mut client = client(&["--tcp", &server.tcp, "--udp", &server.udp, "--interval", "1ms"]);
    await_value(&mut client, 20);
    server.kill();
    let again = counter(&server.tcp, &server.udp);
    client.await_progress(|line| line.split_whitespace().last().is_some_and(|violations| violations != "0"));
    // The connection's end shows at once; UDP goes on with the counter that knows nothing.
    client.await_progress(|line| line.trim_end().ends_with("violations 3"));
    let (code, document) = client.close();
    assert_eq!(code, Some(3), "{document:#}");
    assert_eq!(kinds(&document, "tcp"), ["connection_lost"]);
    assert_eq!(kinds(&document, "udp"), ["forgotten", "life_changed"]);
    assert_eq!(document["tcp_lived"], false);
    assert_eq!(document["violations_total"], 3);
    drop(again);
}

#[test]
fn a_counter_that_is_stopped_for_a_while_is_a_silence_and_no_violation() {
    let server = on_any_port();
    let arguments = ["--tcp", &server.tcp, "--udp", &server.udp, "--interval", "1ms", "--silence", "150ms"];
    let mut client = client(&arguments);
    await_value(&mut client, 20);
    let signal = |name: &str| {
        let process = server.process.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    };
    signal("-STOP");
    // How long each protocol has been silent, as a line of progress tells.
    let silences_s = |line: &str| -> Vec<f64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).filter(|pair| pair[0] == "silent").map(|pair| pair[1].parse().unwrap()).collect()
    };
    client.await_progress(|line| silences_s(line).iter().all(|&silent_s| silent_s > 0.2));
    signal("-CONT");
    client.await_progress(|line| silences_s(line).iter().all(|&silent_s| silent_s < 0.2));
    let (code, document) = client.close();
    assert_eq!(code, Some(0), "{document:#}");
    for flow in document["flows"].as_array().unwrap() {
        let longest = flow["longest_silence_ns"].as_u64().unwrap();
        assert!(longest > 200_000_000, "{flow:#}");
        let kept = flow["silences"].as_array().unwrap();
        let is_ended = |silence: &Value| silence["ended"] == true && silence["length_ns"].as_u64() > Some(200_000_000);
        assert!(kept.iter().any(is_ended), "{flow:#}");
        assert_eq!(document["longest_outage_ns"][flow["protocol"].as_str().unwrap()], longest);
    }
    assert!(document["flows"][1]["resent"].as_u64().unwrap() >= 1, "{document:#}");
}

#[test]
fn an_interrupted_client_still_reports() {
    let server = on_any_port();
    let mut client = client(&["--udp", &server.udp, "--interval", "1ms"]);
    await_value(&mut client, 5);
    let process = client.process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
    let (code, document) = client.end();
    assert_eq!(code, Some(0));
    assert!(document["acknowledged"].as_u64().unwrap() >= 5);
    assert_eq!(document["tcp_lived"], Value::Null);
}

#[test]
fn a_counter_answers_questions_and_ignores_what_is_none() {
    let server = on_any_port();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for noise in [&b""[..], b"hello", &[0; 40], &[255; 2000]] {
        stranger.send_to(noise, &server.udp).unwrap();
    }
    let ask = |question: &str| Command::new(AGENT).args(["ask", &server.tcp, question]).output().unwrap();
    let status: Value = serde_json::from_slice(&ask("status").stdout).unwrap();
    assert_eq!((&status["outcome"], &status["total"]), (&"told".into(), &0.into()), "{status:#}");
    let check: Value = serde_json::from_slice(&ask("check").stdout).unwrap();
    assert!(check["verified"].as_u64().unwrap() >= 256, "{check:#}");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_eq!(check["boot_id"], boot.trim().replace('-', ""));
    for question in ["reboot", "power-off"] {
        let asked = ask(question);
        assert_eq!(asked.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&asked.stderr).contains("refused"), "{asked:?}");
        assert!(asked.stdout.is_empty());
    }
}

#[test]
fn what_cannot_be_counted_is_one_sentence_with_a_hint() {
    // Bound and never read: nobody answers there, and nobody else gets the port.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let refused: [(&[&str], i32, &str); 6] = [
        (&["count", "--udp", &address, "--wait", "100ms"], 1, "no answer over udp"),
        (&["count", "--udp", &address, "--interval", "1s"], 1, "--silence 100ms is not longer"),
        (&["count"], 2, "--tcp"),
        (&["counter"], 2, "--tcp"),
        (&["counter", "--udp", &address], 1, "cannot listen on UDP"),
        (&["counter", "--tcp", "0", "--memory", "5000"], 2, "multiple of a page"),
    ];
    for (arguments, code, said) in refused {
        let output = Command::new(AGENT).args(arguments).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}
