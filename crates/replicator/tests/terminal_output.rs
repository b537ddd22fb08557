//! What the program says where a terminal may be.

use std::fs;
use std::process::Command;

#[test]
fn what_a_file_holds_steers_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host.json");
    fs::write(&file, "{\"\u{9b}2J\u{202e}\": 1}").unwrap();
    let program = env!("CARGO_BIN_EXE_stealtime-replicator");
    let ended = Command::new(program).args(["host", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("unknown field `\\u009b2J\\u202e`"), "{said:?}");
    assert!(!ended.status.success());
}
