//! The agent as a process that tells its progress on standard error, and a document at its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::thread;

use serde_json::Value;

pub const AGENT: &str = env!("CARGO_BIN_EXE_stealtime-agent");

pub struct Agent {
    pub process: Child,
    stderr: BufReader<ChildStderr>,
    stdin: Option<ChildStdin>,
}

impl Agent {
    /// Starts one that ends when its standard input is closed.
    pub fn start(command: &[&str], arguments: &[&str]) -> Self {
        let mut process = Command::new(AGENT)
            .args(command)
            .args(["--json", "--until-closed"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        Self { process, stderr, stdin }
    }

    /// Reads progress until a line of it is as wanted; gives that.
    pub fn await_progress(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "it ended: {seen}");
            if is_wanted(&line) {
                return line;
            }
            seen.push_str(&line);
        }
    }

    /// Waits until it ends by itself; gives its exit code and document.
    pub fn end(mut self) -> (Option<i32>, Value) {
        // Both at once: neither pipe has room for all that an end may tell.
        let telling = thread::spawn(move || {
            let mut progress = String::new();
            self.stderr.read_to_string(&mut progress).unwrap();
            progress
        });
        let output = self.process.wait_with_output().unwrap();
        let progress = telling.join().unwrap();
        drop(self.stdin);
        let document = serde_json::from_slice(&output.stdout);
        (output.status.code(), document.unwrap_or_else(|error| panic!("{error}: {progress}")))
    }

    /// Ends it by closing its standard input.
    pub fn close(mut self) -> (Option<i32>, Value) {
        drop(self.stdin.take());
        self.end()
    }
}
