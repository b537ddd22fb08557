//! `load` and the lists of CPUs, as a person at a terminal uses them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::process::{Command, Output};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_ipc::reader::StreamReader;
use serde_json::Value;

fn agent(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stealtime-agent")).args(arguments).output().unwrap()
}

#[test]
fn a_load_prints_one_document_and_keeps_its_rows() {
    let file = std::env::temp_dir().join(format!("stealtime-load-{}.arrow", std::process::id()));
    let rows = file.to_str().unwrap();
    let phases = ["--on", "10ms", "--off", "10ms", "--duration", "150ms"];
    for kind in [vec!["--kind", "cpu"], vec!["--kind", "memory", "--block", "1MiB"]] {
        let output = agent(&[&["load", "--json", "--rows", rows], phases.as_slice(), &kind].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let batches: Vec<RecordBatch> =
            StreamReader::try_new(fs::File::open(&file).unwrap(), None).unwrap().collect::<Result<_, _>>().unwrap();
        fs::remove_file(&file).unwrap();
        let work: u64 =
            batches.iter().map(|batch| batch.column(3).as_primitive::<UInt64Type>().values().iter().sum::<u64>()).sum();
        assert_eq!(document["outcome"]["work"], work, "{document:#}");
        assert!(work > 0, "{document:#}");
        assert_eq!(document["schema_version"], 1);
        assert_eq!(document["valid"], true);
    }
}

#[test]
fn what_cannot_be_loaded_is_one_sentence_with_a_hint() {
    let refused: [(&[&str], i32, &str); 5] = [
        (&["load", "--cpu", "4000"], 1, "hint: choose"),
        (&["load", "--threads", "0"], 1, "threads = 0"),
        (&["load", "--on", "5ms"], 2, "--off"),
        (&["load", "--block", "9 lines"], 2, "9MB"),
        (&["tick", "--cpu", "1,x"], 2, "\"x\" is no CPU"),
    ];
    for (arguments, code, said) in refused {
        let output = agent(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_probe_alone_roams_over_a_list_of_cpus_at_ordinary_priority() {
    let allowed = stealtime_probe::scheduling::allowed_cpus().unwrap();
    let list: Vec<String> = allowed.iter().map(u32::to_string).collect();
    let output =
        agent(&["tick", "--iterations", "1000", "--duration", "50ms", "--json", "-p", "0", "-a", &list.join(",")]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["outcome"]["placement"]["cpus"], serde_json::json!(allowed), "{document:#}");
    assert_eq!(document["outcome"]["placement"]["policy"], "SCHED_OTHER");
}
