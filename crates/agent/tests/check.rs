//! What whoever reads a check gets: lines, documents, exit codes. Whether a verdict is true is asked in `tests/guest`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

use serde_json::Value;

/// No wake-up takes less, and none takes longer.
const ALWAYS_LATE: [&str; 4] = ["--bar", "1ns", "-D", "100ms"];
const NEVER_LATE: [&str; 4] = ["--bar", "1h", "-D", "100ms"];

fn check(arguments: &[&[&str]]) -> (Option<i32>, String, String) {
    // Ordinary and untraced, so that it needs no rights; with priority 0 that is what was asked for.
    let common = ["check", "--no-trace", "--priority", "0"];
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_stealtime-agent")).args(common).args(arguments.concat()).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn each_format_has_its_words_and_exit_codes() {
    let cases = [
        ("nagios", &NEVER_LATE, 0, "STEALTIME OK - "),
        ("nagios", &ALWAYS_LATE, 2, "STEALTIME CRITICAL - "),
        ("gcm", &NEVER_LATE, 0, "OK: at most "),
        ("gcm", &ALWAYS_LATE, 2, "CRITICAL: "),
        ("npd", &NEVER_LATE, 0, "at most "),
        ("npd", &ALWAYS_LATE, 1, ""),
        ("text", &NEVER_LATE, 0, "OK: at most "),
        ("text", &ALWAYS_LATE, 3, "CRITICAL: "),
    ];
    for (format, bar, code, begins) in cases {
        let (found, said, error) = check(&[&["--format", format], bar.as_slice()]);
        assert_eq!(found, Some(code), "{format}: {said} {error}");
        assert!(said.starts_with(begins), "{format}: {said}");
    }
}

#[test]
fn a_plugin_of_nagios_has_one_line_with_performance_data() {
    let (_, said, error) = check(&[&["--format", "nagios", "--warn", "0s"], &ALWAYS_LATE]);
    let (line, rest) = said.split_once('\n').unwrap();
    let (text, data) = line.split_once(" | ").unwrap();
    assert!(text.contains("cause not known, because it was asked not to trace"), "{text}");
    assert!(data.starts_with("max=") && data.contains("us;0;0.001;0 p99="), "{data}");
    let decimals = |part: &str| part.chars().take_while(char::is_ascii_digit).count();
    assert!(data.split('.').skip(1).all(|part| decimals(part) <= 6), "no more than nanoseconds: {data}");
    assert!(!rest.contains('|'), "{rest}");
    assert_eq!(error, "", "what is said on standard error is lost there");
}

#[test]
fn node_problem_detector_gets_no_more_than_it_keeps() {
    let (_, said, _) = check(&[&["--format", "npd"], &ALWAYS_LATE]);
    assert!(said.trim_end().len() <= 80 && said.lines().count() == 1, "{said}");
}

#[test]
fn a_document_holds_what_the_verdict_rests_on() {
    let (code, said, error) = check(&[&["--format", "json"], &ALWAYS_LATE]);
    let document: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(code, Some(3), "{error}");
    assert_eq!(document["schema_version"], 1);
    assert_eq!(document["state"], "critical");
    assert_eq!(document["bar"]["at_most_ns"], 1);
    assert_eq!(document["policy"], "SCHED_OTHER");
    assert_eq!(document["cause"]["is_known"], false);
    let cpus = document["cpus"].as_array().unwrap();
    let latest = cpus.iter().filter_map(|cpu| cpu["max_ns"].as_u64()).max();
    assert_eq!(document["worst"]["late_ns"].as_u64(), latest);
    // A busy machine takes some of the hundred wake-ups of a CPU together, but each is recorded.
    assert!(cpus.iter().all(|cpu| cpu["samples"] == 100), "{said}");
}

#[test]
fn wrong_usage_is_no_verdict_of_the_machine() {
    let wrong: [&[&str]; 5] = [
        &["--bar", "fast"],
        &["-D", "76s"],
        &["--warn", "2ms", "--bar", "1ms"],
        &["--cpu", "8191"],
        &["--no-such-option"],
    ];
    for arguments in wrong {
        for (format, code) in [("nagios", 3), ("gcm", 3), ("npd", 2)] {
            let (found, said, error) = check(&[&["--format", format], arguments]);
            assert_eq!(found, Some(code), "{format} {arguments:?}: {said} {error}");
            assert_eq!(said.lines().count(), 1, "{format} {arguments:?}: {said}");
        }
        for format in ["text", "json"] {
            let (found, said, error) = check(&[&["--format", format], arguments]);
            assert!(matches!(found, Some(1 | 2)), "{format} {arguments:?}: {found:?}");
            assert_eq!(said, "", "{format} {arguments:?}");
            assert!(error.starts_with("error: "), "{error}");
        }
    }
}

#[test]
fn red_hats_bar_asks_for_longer_than_a_check() {
    let (_, said, _) = check(&[&["--format", "json", "--bar", "rhel-rt", "-D", "100ms"]]);
    let document: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(document["bar"]["at_most_ns"], 40_000);
    assert!(document["limits"].as_array().unwrap().iter().any(|one| one.as_str().unwrap().contains("12 h")), "{said}");
}
