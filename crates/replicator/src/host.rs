//! The daemon of a host that receives machines: it sees that there is always one process that receives. Each
//! machine has a process of its own, so that one machine's trouble is no other's; see `reception`.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use stealtime_shipping::{Endpoint, LinkError, Listener};

use crate::clock::now;
use crate::host_config::HostConfig;
use crate::spec::SpecError;
use crate::{leaving, reception, signals, wording};

/// How long a socket may still be listened on when a daemon begins.
const LEFT_WITHIN: Duration = Duration::from_secs(2);

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error(transparent)]
    Config(#[from] SpecError),
    #[error("{0}")]
    Endpoint(String),
    #[error("{}", wording::of_link(.0))]
    Listen(#[from] LinkError),
    #[error("there can be no daemon: {0}")]
    Host(#[from] io::Error),
}

pub fn run(config_path: &Path) -> Result<(), HostError> {
    let config = HostConfig::read(config_path)?;
    let endpoint: Endpoint = config.listen.parse().map_err(|error| HostError::Endpoint(format!("{error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(listener_at(&endpoint))?;
    let program = std::env::current_exe()?;
    let asked = {
        let _in_runtime = runtime.enter();
        signals::asked_to_end()?
    };
    let left = left_by(&endpoint, config_path);
    thread::spawn(move || runtime.block_on(end_when(asked, &left)));
    wording::say(&format!("{}: standby for others on {}", config.name, config.listen));
    leaving::come_back(&config.name, &config.folder);
    loop {
        match start_reception(&program, config_path, &listener) {
            Ok(true) => {}
            Ok(false) => {
                wording::say(&format!("{}: the process that receives ended; another one is started", config.name));
                thread::sleep(Duration::from_millis(100));
            }
            Err(error) => {
                wording::say(&format!("{}: nobody can be received: {error}", config.name));
                // Out of processes or descriptors: do not spin.
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// What nobody has a use for when the daemon has ended: its socket, and the note of who it is. The configuration stays,
/// which tells `stealtime protect recover` how this host is reached.
fn left_by(endpoint: &Endpoint, config_path: &Path) -> Vec<PathBuf> {
    let mut left = vec![config_path.with_extension("pid")];
    if let Endpoint::Unix(socket) = endpoint {
        left.push(socket.clone());
    }
    left
}

/// Wait until somebody asks this process to end, and do so without leaving anything.
async fn end_when(asked: impl Future<Output = ()>, left: &[PathBuf]) {
    asked.await;
    for path in left {
        // Whatever is in the way is nothing that a process on its way out could put right.
        let _ = std::fs::remove_file(path);
    }
    std::process::exit(0);
}

/// The process that received for a daemon that has just ended may be on its way out.
async fn listener_at(endpoint: &Endpoint) -> Result<Listener, LinkError> {
    let until = now() + LEFT_WITHIN;
    loop {
        match Listener::bind(endpoint).await {
            Err(_) if now() < until => tokio::time::sleep(LEFT_WITHIN / 50).await,
            outcome => return outcome,
        }
    }
}

/// Start a process that receives, and wait until it has somebody; false if it ended before.
fn start_reception(program: &Path, config: &Path, listener: &Listener) -> io::Result<bool> {
    let (line, its_end) = reception::line_to_daemon()?;
    let mut child = Command::new(program)
        .args(["standby", "--config"])
        .arg(config)
        .stdin(Stdio::from(listener.as_fd().try_clone_to_owned()?))
        .stdout(Stdio::from(its_end))
        .spawn()?;
    // What it has to say is in its own folder; here it is only buried.
    thread::spawn(move || child.wait());
    Ok(reception::await_taken(&line))
}
