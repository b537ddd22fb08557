//! A counter that dies with its test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent_process::AGENT;

/// On a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Counter {
    pub process: Child,
    pub tcp: String,
    pub udp: String,
}

impl Counter {
    pub fn start(tcp: &str, udp: &str, options: &[&str]) -> Self {
        // The ports of a counter that was killed may take a moment to be free again.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut process = Command::new(AGENT)
                .args(["counter", "--tcp", tcp, "--udp", udp])
                .args(options)
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

    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
