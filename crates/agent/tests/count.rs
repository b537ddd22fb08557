//! The counter and its clients as processes, over the loopback interface.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const AGENT: &str = env!("CARGO_BIN_EXE_stealtime-agent");

/// On a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A counter that dies with its test.
struct Server {
    process: Child,
    tcp: String,
    udp: String,
}

impl Server {
    fn start(tcp: &str, udp: &str) -> Self {
        // The ports of a counter that was killed may take a moment to be free again.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut process = Command::new(AGENT)
                .args(["counter", "--tcp", tcp, "--udp", udp, "--memory", "1MiB", "--dirty", "10/10ms"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if let Ok(listening) = serde_json::from_str::<Value>(&line) {
                let address = |name: &str| listening[name].as_str().unwrap().to_owned();
                return Self { process, tcp: address("tcp"), udp: address("udp") };
            }
            process.wait().unwrap();
            assert!(Instant::now() < deadline, "the counter does not start on {tcp} and {udp}");
        }
    }

    fn on_any_port() -> Self {
        Self::start("127.0.0.1:0", "127.0.0.1:0")
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client that counts until it is told to stop.
struct Client {
    process: Child,
    progress: BufReader<std::process::ChildStderr>,
    stdin: Option<ChildStdin>,
}

impl Client {
    fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(AGENT)
            .args(["count", "--json", "--until-closed", "--wait", "60s"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let progress = BufReader::new(process.stderr.take().unwrap());
        let stdin = process.stdin.take();
        Self { process, progress, stdin }
    }

    /// Reads progress until a line of it is as wanted.
    fn wait_for(&mut self, wanted: impl Fn(&str) -> bool) {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let length = self.progress.read_line(&mut line).unwrap();
            assert!(length > 0, "the client ended: {seen}");
            if wanted(&line) {
                return;
            }
            seen.push_str(&line);
        }
    }

    /// Waits until it has been told a value of at least this over each protocol.
    fn wait_for_value(&mut self, least: u64) {
        self.wait_for(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let values = words.windows(2).filter(|pair| pair[0] == "value");
            values.map(|pair| pair[1].parse::<u64>().unwrap()).min().is_some_and(|value| value >= least)
        });
    }

    /// Ends it by closing its standard input; gives its exit code and document.
    fn finish(mut self) -> (Option<i32>, Value) {
        drop(self.stdin.take());
        let mut progress = String::new();
        self.progress.read_to_string(&mut progress).unwrap();
        let output = self.process.wait_with_output().unwrap();
        let document = serde_json::from_slice(&output.stdout);
        (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {progress}")))
    }
}

fn kinds(document: &Value, protocol: &str) -> Vec<String> {
    let violations = document["violations"].as_array().unwrap().iter();
    let of_protocol = violations.filter(|violation| violation["protocol"] == protocol);
    of_protocol.map(|violation| violation["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_counter_that_lives_on_is_without_violations() {
    let server = Server::on_any_port();
    let arguments = ["--tcp", &server.tcp, "--udp", &server.udp, "--interval", "1ms", "--flows", "2", "--check"];
    let mut client = Client::start(&arguments);
    client.wait_for_value(20);
    let (code, document) = client.finish();
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
    let mut server = Server::on_any_port();
    let mut client = Client::start(&["--tcp", &server.tcp, "--udp", &server.udp, "--interval", "1ms"]);
    client.wait_for_value(20);
    server.kill();
    let again = Server::start(&server.tcp, &server.udp);
    client.wait_for(|line| line.split_whitespace().last().is_some_and(|violations| violations != "0"));
    // The connection's end shows at once; UDP goes on with the counter that knows nothing.
    client.wait_for(|line| line.trim_end().ends_with("violations 3"));
    let (code, document) = client.finish();
    assert_eq!(code, Some(3), "{document:#}");
    assert_eq!(kinds(&document, "tcp"), ["connection_lost"]);
    assert_eq!(kinds(&document, "udp"), ["forgotten", "life_changed"]);
    assert_eq!(document["tcp_lived"], false);
    assert_eq!(document["violations_total"], 3);
    drop(again);
}

#[test]
fn a_counter_that_is_stopped_for_a_while_is_a_silence_and_no_violation() {
    let server = Server::on_any_port();
    let arguments = ["--tcp", &server.tcp, "--udp", &server.udp, "--interval", "1ms", "--silence", "150ms"];
    let mut client = Client::start(&arguments);
    client.wait_for_value(20);
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
    client.wait_for(|line| silences_s(line).iter().all(|&silent_s| silent_s > 0.2));
    signal("-CONT");
    client.wait_for(|line| silences_s(line).iter().all(|&silent_s| silent_s < 0.2));
    let (code, document) = client.finish();
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
    let server = Server::on_any_port();
    let mut client = Client::start(&["--udp", &server.udp, "--interval", "1ms"]);
    client.wait_for_value(5);
    let process = client.process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().unwrap().success());
    let output = {
        let Client { process, mut progress, stdin } = client;
        let mut rest = String::new();
        progress.read_to_string(&mut rest).unwrap();
        let output = process.wait_with_output().unwrap();
        drop(stdin);
        output
    };
    assert_eq!(output.status.code(), Some(0));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["acknowledged"].as_u64().unwrap() >= 5);
    assert_eq!(document["tcp_lived"], Value::Null);
}

#[test]
fn a_counter_answers_questions_and_ignores_what_is_none() {
    let server = Server::on_any_port();
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
