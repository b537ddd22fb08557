//! A real etcd on loopback with a folder and ports of its own.

#![allow(dead_code, reason = "each test uses its part")]

use std::iter;
use std::net::TcpListener;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use stealtime_succession::{EtcdConfig, EtcdIdentity, EtcdRegister, Register};
use tempfile::TempDir;

/// Of Debian's package, unless `STEALTIME_ETCD` names another one.
fn program() -> String {
    std::env::var("STEALTIME_ETCD").unwrap_or_else(|_| "/usr/bin/etcd".to_owned())
}

/// Long, as other tests may keep the disk busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct EtcdServer {
    child: Child,
    pub config: EtcdConfig,
    _folder: TempDir,
}

impl EtcdServer {
    /// Start one; none, with a note, where etcd is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// Start one that talks TLS only, and only to those who show a certificate.
    pub fn start_with(identity: Option<&EtcdIdentity>) -> Option<Self> {
        if !Self::is_installed() {
            return None;
        }
        started_at_last(|| Self::try_start(identity.cloned()))
    }

    /// Two that know nothing of each other, and show the same numbers: they were set up alike.
    pub fn start_twins() -> Option<[Self; 2]> {
        Self::is_installed().then(|| started_at_last(Self::try_start_twins))?
    }

    /// Clusters of one server each: two with numbers of their own, and two with the same.
    pub fn start_pairs() -> Option<[[Self; 2]; 2]> {
        Some([[Self::start()?, Self::start()?], Self::start_twins()?])
    }

    /// Three that are one cluster, and their endpoints.
    pub fn start_cluster() -> Option<([Self; 3], Vec<String>)> {
        let servers = Self::is_installed().then(|| started_at_last(Self::try_start_cluster))??;
        let endpoints = servers.iter().map(|server| server.config.endpoints[0].clone()).collect();
        Some((servers, endpoints))
    }

    fn is_installed() -> bool {
        let program = program();
        let is_there = std::path::Path::new(&program).exists();
        if !is_there {
            eprintln!("skipped: {program} is not installed (package etcd-server)");
        }
        is_there
    }

    fn try_start(identity: Option<EtcdIdentity>) -> Option<Self> {
        let [client, peer] = free_ports().map(|port| format!("127.0.0.1:{port}"));
        let peer = format!("http://{peer}");
        let members = format!("default={peer}");
        Self::launch(identity, &client, &Peer { name: "default", listens: &peer, is_at: &peer, members: &members })
            .answers()
    }

    fn try_start_twins() -> Option<[Self; 2]> {
        let [one, other, peer, other_peer] = free_ports();
        // Members of a cluster of one need not reach each other.
        let is_at = format!("http://127.0.0.1:{peer}");
        let members = format!("default={is_at}");
        let [one, other] = [(one, peer), (other, other_peer)].map(|(client, peer)| {
            let listens = format!("http://127.0.0.1:{peer}");
            let peer = Peer { name: "default", listens: &listens, is_at: &is_at, members: &members };
            Self::launch(None, &format!("127.0.0.1:{client}"), &peer)
        });
        Some([one.answers()?, other.answers()?])
    }

    fn try_start_cluster() -> Option<[Self; 3]> {
        let [clients @ .., first, second, third] = free_ports::<6>();
        let peers = [first, second, third].map(|port| format!("http://127.0.0.1:{port}"));
        let members: Vec<_> = peers.iter().enumerate().map(|(number, peer)| format!("m{number}={peer}")).collect();
        let members = members.join(",");
        let servers = [0, 1, 2].map(|number| {
            let (name, at) = (format!("m{number}"), &peers[number]);
            let peer = Peer { name: &name, listens: at, is_at: at, members: &members };
            Self::launch(None, &format!("127.0.0.1:{}", clients[number]), &peer)
        });
        let [first, second, third] = servers.map(Self::answers);
        Some([first?, second?, third?])
    }

    fn launch(identity: Option<EtcdIdentity>, client: &str, peer: &Peer<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let client = format!("{}://{client}", if identity.is_some() { "https" } else { "http" });
        let mut command = Command::new(program());
        command.args(["--name", peer.name]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", peer.listens, "--initial-advertise-peer-urls", peer.is_at]);
        command.args(["--initial-cluster", peer.members, "--log-level", "error"]);
        command.args(["--bcrypt-cost", "4"]);
        command.arg("--data-dir").arg(folder.path().join("data")).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(identity) = &identity {
            command.arg("--cert-file").arg(&identity.certificate).arg("--key-file").arg(&identity.key);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&identity.ca);
        }
        let child = command.spawn().unwrap();
        Self { child, config: config(vec![client], identity), _folder: folder }
    }

    /// This one, once it answers; none if it has ended.
    fn answers(mut self) -> Option<Self> {
        let mut register = self.register(Duration::from_secs(5));
        let started = Instant::now();
        while register.read("nothing").is_err() {
            if self.child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(started.elapsed() < PATIENCE, "etcd runs but does not answer");
            std::thread::yield_now();
        }
        Some(self)
    }

    /// Have it ask for users: `root` and `member`, each with its name as password; `member` has our keys.
    pub fn demand_users(&self) {
        let prefix = STANDARD.encode("/stealtime/protect/");
        let end = STANDARD.encode("/stealtime/protect0");
        let permission = json!({"permType": "READWRITE", "key": prefix, "range_end": end});
        for (path, body) in [
            ("user/add", json!({"name": "root", "password": "root"})),
            ("user/grant", json!({"user": "root", "role": "root"})),
            ("user/add", json!({"name": "member", "password": "member"})),
            ("role/add", json!({"name": "protect"})),
            ("role/grant", json!({"name": "protect", "perm": permission})),
            ("user/grant", json!({"user": "member", "role": "protect"})),
            ("enable", json!({})),
        ] {
            // The role `root` comes with etcd from 3.6 on.
            if path == "user/grant" && body["user"] == "root" {
                let _ = self.post("role/add", None, &json!({"name": "root"}));
            }
            self.post(path, None, &body).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }

    /// Change something about users, as root, which makes some tokens invalid.
    pub fn post(&self, path: &str, token: Option<&str>, body: &Value) -> Result<Value, ureq::Error> {
        let url = format!("{}/v3/auth/{path}", self.config.endpoints[0]);
        let mut request = ureq::post(&url).content_type("application/json");
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let text = request.send(body.to_string())?.body_mut().read_to_string()?;
        Ok(serde_json::from_str(&text).unwrap())
    }

    pub fn register(&self, patience: Duration) -> EtcdRegister {
        EtcdRegister::open(&self.config, patience).unwrap()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill {name}");
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        // A stopped process is killed as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Endpoints, and certificates for them.
pub fn config(endpoints: Vec<String>, identity: Option<EtcdIdentity>) -> EtcdConfig {
    EtcdConfig { endpoints, identity, login: None, insecure: false }
}

/// How a server is known to others of its cluster.
struct Peer<'a> {
    name: &'a str,
    listens: &'a str,
    is_at: &'a str,
    members: &'a str,
}

/// A process that is no test may take a port between our look and etcd's: then it ends at once and is started anew.
fn started_at_last<Started>(start: impl Fn() -> Option<Started>) -> Option<Started> {
    (0..5).find_map(|_| start()).or_else(|| panic!("etcd did not start five times"))
}

/// Ports that nobody gets a second time: a server that ended because another test's server had taken its port would be
/// believed to answer. They lie below those that the kernel chooses for connections.
fn free_ports<const NUMBER: usize>() -> [u16; NUMBER] {
    const PORTS: Range<u32> = 10_000..32_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Processes of tests that follow each other begin at different ones.
    let begin = std::process::id().wrapping_mul(128);
    let mut untried = iter::from_fn(|| {
        let step = begin.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        u16::try_from(PORTS.start + step % (PORTS.end - PORTS.start)).ok()
    });
    [(); NUMBER].map(|()| untried.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap())
}
