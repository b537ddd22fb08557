//! The daemon of a host that receives machines: it accepts connections and hands each to a process of its own, so that
//! one machine's trouble is no other's.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stealtime_shipping::{Endpoint, Identity};

use crate::assignment::Assignment;
use crate::spec::{Network, RegisterSpec, Spec, SpecError};
use crate::words;

/// Who a host is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Its name, as it stands in the register.
    pub name: String,
    /// `unix:/path` or `tcp:address:port`.
    pub listen: String,
    /// The bridge that machines are put into here.
    pub bridge: Option<String>,
    /// Which register decides here; the same as that of the active members.
    pub register: RegisterSpec,
    /// For `tcp:`.
    pub identity: Option<Identity>,
    /// Holds a folder for each machine.
    pub folder: PathBuf,
    /// QEMU here.
    pub qemu: PathBuf,
    /// Machines boot from files below these folders only: a guest can read what it was booted from.
    pub images: Vec<PathBuf>,
    /// Whether tests may break the members here on purpose.
    #[serde(default)]
    pub allow_faults: bool,
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The file is not usable.
    #[error(transparent)]
    Config(#[from] SpecError),
    /// The endpoint is none.
    #[error("{0}")]
    Endpoint(String),
    /// Nobody can be accepted.
    #[error("cannot listen on {endpoint}: {source}")]
    Listen {
        /// Where.
        endpoint: String,
        /// Why.
        source: io::Error,
    },
}

impl HostConfig {
    /// Read a file.
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        let text =
            fs::read_to_string(path).map_err(|source| SpecError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text).map_err(|source| SpecError::Parse { path: path.to_owned(), source })
    }

    /// Say what a member here is told of a machine that another host wants protected.
    ///
    /// # Errors
    /// What is wrong with the machine: nothing was made of its names yet.
    pub fn spec_of(&self, assignment: Assignment) -> Result<Spec, SpecError> {
        let Assignment { version, machine, standby_hosts, mode, interval, bypass, .. } = assignment;
        let Assignment { tracker, device_state, timing, epochs_in_flight, hold_bytes, .. } = assignment;
        let network =
            Network { tap: tap_name(&machine.name, &self.name), bridge: self.bridge.clone() };
        let spec = Spec {
            version,
            folder: self.folder.join(&machine.name),
            machine,
            qemu: self.qemu.clone(),
            host: self.name.clone(),
            standby_hosts,
            mode,
            interval,
            bypass,
            tracker,
            device_state,
            network,
            register: self.register.clone(),
            timing,
            identity: self.identity.clone(),
            epochs_in_flight,
            hold_bytes,
            metrics: None,
            allow_faults: self.allow_faults,
        };
        spec.check()?;
        Ok(spec)
    }
}

/// The TAP of a machine on this host: another one than where it comes from, which may be the same machine.
fn tap_name(vm: &str, host: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (vm, host).hash(&mut hasher);
    format!("stt{:010x}", hasher.finish() >> 24)
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn open(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Unix(path) => {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                UnixListener::bind(path).map(Self::Unix)
            }
            Endpoint::Tcp { host, port } => TcpListener::bind((host.as_str(), *port)).map(Self::Tcp),
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Unix(listener) => listener.accept().map(|(stream, _)| stream.into()),
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| stream.into()),
        }
    }
}

/// Accept for ever.
pub fn run(config_path: &Path) -> Result<(), HostError> {
    let config = HostConfig::read(config_path)?;
    let endpoint: Endpoint =
        config.listen.parse().map_err(|error| HostError::Endpoint(format!("{error}")))?;
    let listen = |source| HostError::Listen { endpoint: config.listen.clone(), source };
    let listener = Listener::open(&endpoint).map_err(listen)?;
    let program = std::env::current_exe().map_err(listen)?;
    words::say(&format!("{}: standby for others on {}", config.name, config.listen));
    loop {
        let started = listener.accept().and_then(|stream| {
            // The connection is its standard input, as with inetd: nothing else need be inherited.
            Command::new(&program)
                .args(["standby", "--config"])
                .arg(config_path)
                .stdin(Stdio::from(stream))
                .stdout(Stdio::null())
                .spawn()
        });
        match started {
            // What it has to say is in its own folder; here it is only buried.
            Ok(mut child) => drop(thread::spawn(move || child.wait())),
            Err(error) => {
                words::say(&format!("{}: a connection could not be served: {error}", config.name));
                // Out of processes or descriptors: do not spin.
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}
