//! What cannot be written at the end of a measurement takes nothing with it that was there before.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const TICK: [&str; 5] = ["tick", "--priority", "0", "-D", "50ms"];

fn agent(arguments: &[&str], output: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stealtime-agent"));
    command.args(arguments).stdout(output).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn figures_are_shown_before_rows_that_cannot_be_written() {
    let commands: [(&[&str], &str); 4] = [
        (&TICK, "--samples"),
        (&["contend", "--tasks", "2", "--iterations", "2"], "--rows"),
        (&["load", "--duration", "50ms"], "--rows"),
        (&["rtload", "1ms/10ms", "-D", "50ms"], "--rows"),
    ];
    for (arguments, option) in commands {
        let output = agent(&[arguments, &[option, "/dev/full", "--json"]].concat(), Stdio::piped());
        let error = String::from_utf8_lossy(&output.stderr);
        let document: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {error}"));
        assert_eq!(document["schema_version"], 1, "{arguments:?}");
        assert!(error.contains("error: /dev/full is not complete: "), "{arguments:?}: {error}");
        assert!(error.contains("No space left on device"), "{arguments:?}: {error}");
        // On a busy machine a job of `rtload` misses its deadline, and that verdict counts first.
        let may_be = |code| code == 1 || (code == 3 && arguments[0] == "rtload");
        assert!(output.status.code().is_some_and(may_be), "{arguments:?}: {:?} {error}", output.status);
    }
}

#[test]
fn rows_that_cannot_be_written_hide_no_threshold_that_was_exceeded() {
    let gated = [&TICK[..], &["--max-overhead", "1ns", "--samples", "/dev/full"]].concat();
    let output = agent(&gated, Stdio::piped());
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("overhead"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not complete"));
}

#[test]
fn rows_are_written_and_the_verdict_stays_where_figures_cannot_be_printed() {
    let file = std::env::temp_dir().join(format!("stealtime-last-steps-{}.arrow", std::process::id()));
    let kept = ["--samples", file.to_str().unwrap(), "--max-overhead", "1ns"];
    for (output, told) in [(full(), "error: the figures cannot be printed: No space left"), (closed_pipe(), "")] {
        let ended = agent(&[&TICK[..], &kept].concat(), output);
        let error = String::from_utf8_lossy(&ended.stderr);
        assert!(error.contains(told) && error.contains("error") != told.is_empty(), "{error}");
        assert_eq!(ended.status.code(), Some(3), "{error}");
        assert!(std::fs::metadata(&file).unwrap().len() > 0);
        std::fs::remove_file(&file).unwrap();
    }
}

/// A pipe that nobody reads any more.
fn closed_pipe() -> Stdio {
    let (reading, writing) = std::io::pipe().unwrap();
    drop(reading);
    writing.into()
}
