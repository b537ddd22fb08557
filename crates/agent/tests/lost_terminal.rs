//! A terminal that is closed while the agent measures ends the measurement, and takes nothing of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use arrow_ipc::reader::StreamReader;
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::unistd::setsid;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// Both ends of a terminal; no child inherits the first, or it would never be lost.
fn terminal() -> (File, File) {
    let ours = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(ptsname_r(&ours).unwrap());
    (OwnedFd::from(ours).into(), theirs.unwrap())
}

/// An agent that measures for an hour, with a terminal of its own; standard output may be something else.
fn start(terminal: &File, output: Stdio, samples: &Path) -> Child {
    let stream = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_stealtime-agent"));
    command.args(["tick", "-p", "0", "-D", "1h", "--iterations", "1000000", "--json", "--samples"]).arg(samples);
    command.stdin(stream()).stdout(output).stderr(stream());
    // SAFETY: both are system calls alone, which a child may make between fork and exec.
    unsafe {
        command.pre_exec(|| {
            setsid()?;
            // Of standard input: whoever loses it is sent a SIGHUP.
            if libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command.spawn().unwrap()
}

fn wait_until_it_measures(terminal: &mut File) {
    let mut shown = String::new();
    let mut bytes = [0; 4096];
    while !shown.contains("samples, longest") {
        let length = terminal.read(&mut bytes).unwrap();
        assert!(length > 0, "the agent ended: {shown}");
        shown += &String::from_utf8_lossy(&bytes[..length]);
    }
}

fn ended(agent: &mut Child) -> ExitStatus {
    let since = Instant::now();
    loop {
        if let Some(status) = agent.try_wait().unwrap() {
            return status;
        }
        if since.elapsed() > PATIENCE {
            agent.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn count_rows(samples: &Path) -> usize {
    StreamReader::try_new(File::open(samples).unwrap(), None).unwrap().map(|batch| batch.unwrap().num_rows()).sum()
}

#[test]
fn figures_and_samples_outlive_the_terminal_that_showed_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("samples.arrows");
    let (mut ours, theirs) = terminal();
    let mut agent = start(&theirs, Stdio::piped(), &samples);
    drop(theirs);
    wait_until_it_measures(&mut ours);
    drop(ours);
    let status = ended(&mut agent);
    let document: Value = serde_json::from_reader(agent.stdout.take().unwrap()).unwrap();
    let codes: Vec<&str> =
        document["outcome"]["findings"].as_array().unwrap().iter().filter_map(|one| one["code"].as_str()).collect();
    assert!(codes.contains(&"cancelled"), "{codes:?}");
    assert_eq!(status.code(), Some(0), "{document:#}");
    assert_eq!(document["stats"]["count"], count_rows(&samples), "{document:#}");
}

#[test]
fn samples_are_written_where_the_figures_went_to_the_lost_terminal_too() {
    let folder = tempfile::tempdir().unwrap();
    let samples = folder.path().join("samples.arrows");
    let (mut ours, theirs) = terminal();
    let mut agent = start(&theirs, theirs.try_clone().unwrap().into(), &samples);
    drop(theirs);
    wait_until_it_measures(&mut ours);
    drop(ours);
    // The figures could not be printed: that is a failure, and no panic (101).
    assert_eq!(ended(&mut agent).code(), Some(1));
    assert!(count_rows(&samples) > 0);
}
