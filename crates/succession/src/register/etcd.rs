//! A register in etcd, through the JSON gateway that every server has (`/v3/kv/...`, etcd 3.4 and newer).
//!
//! A swap is one transaction that compares the key's revision of last change. Reads are linearizable, so a
//! server that has lost its quorum does not answer them. Servers are tried in turn; if one does not answer in
//! time, its transaction may be applied later all the same, and the next one then reports a lost swap with
//! our own record in it.
//!
//! Whoever can write there decides which host is active. So servers are spoken to over TLS with certificates
//! of both sides, and plainly on loopback only, unless the configuration says `insecure`. Where etcd's own
//! authentication is on, a user and a password are needed besides: the gateway takes no user from a
//! certificate (etcd.io, "Why gRPC gateway"). Its tokens end after some minutes, with a restart of etcd and
//! with each change of users: one that is refused is replaced once.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::TlsConfig;

use super::credentials::{Credentials, contents};
use super::{Register, RegisterError, SwapOutcome};
use crate::{Record, Version, Versioned};

const KEY_PREFIX: &str = "/stealtime/protect/";

/// Where etcd is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdConfig {
    /// `http://host:port` or `https://host:port`; tried in turn.
    pub endpoints: Vec<String>,
    /// For `https`.
    #[serde(default)]
    pub identity: Option<EtcdIdentity>,
    /// Where etcd's authentication is on.
    #[serde(default)]
    pub login: Option<EtcdLogin>,
    /// Whether `http` may go further than loopback: whoever is on the way may then decide who is active.
    #[serde(default)]
    pub insecure: bool,
}

/// A user of etcd's authentication.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EtcdLogin {
    pub user: String,
    /// Holds its password, without or with a line end; read for each token.
    pub password_file: PathBuf,
}

/// Files in PEM form.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdIdentity {
    /// Who signs the servers' certificates.
    pub ca: PathBuf,
    /// What is shown to the servers.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A register in etcd.
#[derive(Debug)]
pub struct EtcdRegister {
    agent: Agent,
    /// For `https`.
    credentials: Option<Credentials>,
    endpoints: Vec<String>,
    /// How long a call may take, with all that it needs.
    patience: Duration,
    /// Index of the server that answered last.
    preferred: usize,
    login: Option<EtcdLogin>,
    token: Option<String>,
}

impl EtcdRegister {
    /// Prepare to call etcd; each call takes at most `patience`. Nothing is sent yet.
    pub fn open(config: &EtcdConfig, patience: Duration) -> Result<Self, RegisterError> {
        if config.endpoints.is_empty() {
            return Err(RegisterError::Setup("etcd has no endpoints".to_owned()));
        }
        for endpoint in &config.endpoints {
            let secure = endpoint.starts_with("https://");
            if !secure && !endpoint.starts_with("http://") {
                let reason = format!("the etcd endpoint \"{endpoint}\" begins neither with http:// nor https://");
                return Err(RegisterError::Setup(reason));
            }
            if secure != config.identity.is_some() {
                let reason =
                    format!("the etcd endpoint \"{endpoint}\" does not go with the identity: https:// needs one");
                return Err(RegisterError::Setup(reason));
            }
            if !secure && !config.insecure && !is_on_loopback(endpoint) {
                let reason = format!(
                    "the etcd endpoint \"{endpoint}\" is another machine, and whoever is on the way could decide who is \
                     active: use https:// and an identity, or say insecure = true"
                );
                return Err(RegisterError::Setup(reason));
            }
        }
        let tls = config.identity.as_ref().map(Credentials::read).transpose()?;
        let (credentials, tls) = tls.unzip();
        let endpoints = config.endpoints.iter().map(|endpoint| endpoint.trim_end_matches('/').to_owned()).collect();
        let login = config.login.clone();
        Ok(Self { agent: agent(tls), credentials, endpoints, patience, preferred: 0, login, token: None })
    }

    /// Ask, with a token where a login is given; one that was there before is replaced if it is refused.
    fn call<Answer: for<'de> Deserialize<'de>>(&mut self, path: &str, body: &Value) -> Result<Answer, RegisterError> {
        let deadline = Instant::now() + self.patience;
        if self.login.is_some() && self.token.is_none() {
            self.authenticate(deadline)?;
            return self.post(path, body, deadline)?.map_err(|refusal| self.failed(refusal));
        }
        match self.post(path, body, deadline)? {
            Ok(answer) => Ok(answer),
            // Refused, so nothing was done.
            Err(_) if self.login.is_some() => {
                self.authenticate(deadline)?;
                self.post(path, body, deadline)?.map_err(|refusal| self.failed(refusal))
            }
            Err(refusal) => Err(self.failed(refusal)),
        }
    }

    fn authenticate(&mut self, deadline: Instant) -> Result<(), RegisterError> {
        let Some(EtcdLogin { user, password_file }) = &self.login else { return Ok(()) };
        let password = String::from_utf8_lossy(&contents(password_file)?).trim_end_matches(['\n', '\r']).to_owned();
        let body = json!({ "name": user, "password": password });
        // An old token would be judged first.
        self.token = None;
        let Token { token } = self
            .post("/v3/auth/authenticate", &body, deadline)?
            .map_err(|refusal| RegisterError::Setup(format!("etcd does not let the user in: {refusal}")))?;
        self.token = Some(token);
        Ok(())
    }

    fn take_renewed_certificates(&mut self) {
        if let Some(tls) = self.credentials.as_mut().and_then(Credentials::renewed) {
            // With the agent end its connections, on which the old one was shown.
            self.agent = agent(Some(tls));
        }
    }

    /// Post to the first server that answers, beginning with the one that answered last; each has its share
    /// of the time that is left. Within: what it answered, or how it refused.
    fn post<Answer: for<'de> Deserialize<'de>>(
        &mut self,
        path: &str,
        body: &Value,
        deadline: Instant,
    ) -> Result<Result<Answer, String>, RegisterError> {
        self.take_renewed_certificates();
        let mut reasons = Vec::new();
        let servers = self.endpoints.len();
        for (step, not_asked) in (0..servers).zip((1..=servers).rev()) {
            let index = (self.preferred + step) % servers;
            let endpoint = &self.endpoints[index];
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                reasons.push(format!("{endpoint}: not asked within {} ms", self.patience.as_millis()));
                break;
            }
            let within = left / u32::try_from(not_asked).unwrap_or(u32::MAX);
            let url = format!("{endpoint}{path}");
            match post_to(&self.agent, &url, self.token.as_deref(), body, within) {
                Ok((status, text)) if (400..500).contains(&status) => {
                    self.preferred = index;
                    return Ok(Err(refusal(status, &text)));
                }
                Ok((200, text)) => {
                    self.preferred = index;
                    return serde_json::from_str(&text)
                        .map(Ok)
                        .map_err(|error| self.failed(format!("no answer of etcd: {error}: {text}")));
                }
                Ok((status, text)) => reasons.push(format!("{endpoint}: {}", refusal(status, &text))),
                Err(error) => reasons.push(format!("{endpoint}: {error}")),
            }
        }
        Err(self.failed(reasons.join("; ")))
    }

    fn failed(&self, reason: String) -> RegisterError {
        RegisterError::Unreachable { register: self.describe(), reason }
    }

    fn newest(&self, vm: &str, range: Range) -> Result<Option<Versioned>, RegisterError> {
        let Some(pair) = range.kvs.into_iter().next() else { return Ok(None) };
        let corrupt = |reason: String| RegisterError::Corrupt { register: self.describe(), vm: vm.to_owned(), reason };
        let content = STANDARD.decode(&pair.value).map_err(|error| corrupt(error.to_string()))?;
        let record = serde_json::from_slice(&content).map_err(|error| corrupt(error.to_string()))?;
        let revision = pair.mod_revision.parse().map_err(|_| corrupt(format!("revision {}", pair.mod_revision)))?;
        Ok(Some(Versioned { version: Version(revision), record }))
    }
}

fn agent(tls: Option<TlsConfig>) -> Agent {
    // Proxies of the environment are for the web; what decides who is active is reached directly or not
    // at all.
    let mut builder = Agent::config_builder()
        .proxy(None)
        // What etcd says of a refusal is in the body.
        .http_status_as_error(false);
    if let Some(tls) = tls {
        builder = builder.tls_config(tls);
    }
    builder.build().into()
}

fn post_to(
    agent: &Agent,
    url: &str,
    token: Option<&str>,
    body: &Value,
    within: Duration,
) -> Result<(u16, String), ureq::Error> {
    let request = agent.post(url).config().timeout_global(Some(within)).build();
    let mut request = request.content_type("application/json");
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    let mut response = request.send(body.to_string())?;
    let status = response.status().as_u16();
    Ok((status, response.body_mut().read_to_string()?))
}

/// How etcd words a refusal.
fn refusal(status: u16, text: &str) -> String {
    let said = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|answer| answer["error"].as_str().or(answer["message"].as_str()).map(ToOwned::to_owned));
    format!("status {status}: {}", said.as_deref().unwrap_or(text))
}

/// Whether a URL is of this machine, whatever its names stand for elsewhere.
fn is_on_loopback(endpoint: &str) -> bool {
    let address = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let address = address.split(['/', '?', '#']).next().unwrap_or_default();
    // What stands before it is no host, whatever it looks like.
    if address.contains('@') {
        return false;
    }
    let host = match address.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => address.rsplit_once(':').map_or(address, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[derive(Deserialize)]
struct Token {
    token: String,
}

/// The answer to a range request. Numbers of 64 bits are strings, and what is zero or empty is left out.
#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Pair {
    mod_revision: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Transaction {
    header: Header,
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<TransactionPart>,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct TransactionPart {
    response_range: Option<Range>,
}

fn key_of(vm: &str) -> String {
    STANDARD.encode(format!("{KEY_PREFIX}{vm}"))
}

impl Register for EtcdRegister {
    fn read(&mut self, vm: &str) -> Result<Option<Versioned>, RegisterError> {
        let range: Range = self.call("/v3/kv/range", &json!({ "key": key_of(vm) }))?;
        self.newest(vm, range)
    }

    fn swap(&mut self, vm: &str, expected: Option<Version>, wanted: &Record) -> Result<SwapOutcome, RegisterError> {
        let key = key_of(vm);
        // A key that does not exist has the revision 0.
        let revision = expected.map_or(0, |version| version.0).to_string();
        let value = STANDARD.encode(json!(wanted).to_string());
        let body = json!({
            "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision }],
            "success": [{ "request_put": { "key": key, "value": value } }],
            "failure": [{ "request_range": { "key": key } }],
        });
        let answer: Transaction = self.call("/v3/kv/txn", &body)?;
        if answer.succeeded {
            let revision = answer.header.revision.parse().map_err(|_| self.failed(answer.header.revision))?;
            return Ok(SwapOutcome::Won(Version(revision)));
        }
        let range = answer.responses.into_iter().find_map(|part| part.response_range);
        Ok(SwapOutcome::Lost(self.newest(vm, range.unwrap_or(Range { kvs: Vec::new() }))?))
    }

    fn keep_ready(&mut self) {
        self.take_renewed_certificates();
        // Why not is said when it matters; until then the old token may do.
        let old = self.token.clone();
        if self.authenticate(Instant::now() + self.patience).is_err() {
            self.token = old;
        }
    }

    fn describe(&self) -> String {
        format!("etcd at {}", self.endpoints.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A server that gives one answer after the other, each to a connection of its own and after a while; its
    /// URL.
    fn server(while_each: Duration, answers: Vec<(u16, &'static str)>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (stream, _) = listener.accept().unwrap();
                take_request(&stream);
                std::thread::sleep(while_each);
                let head = format!("HTTP/1.1 {status} said\r\nConnection: close\r\nContent-Length: {}", body.len());
                // Who asked may have given up.
                let _ = (&stream).write_all(format!("{head}\r\n\r\n{body}").as_bytes());
            }
        });
        url
    }

    fn take_request(stream: &TcpStream) {
        let mut lines = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let line = line.trim().to_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        lines.read_exact(&mut vec![0; length]).unwrap();
    }

    #[test]
    fn a_call_takes_no_longer_for_having_to_log_in_on_its_way() {
        let folder = tempfile::tempdir().unwrap();
        let password_file = folder.path().join("password");
        fs::write(&password_file, "secret").unwrap();
        let read = |while_each, patience| {
            let answers = vec![(401, "{}"), (200, r#"{"token": "new"}"#), (200, "{}")];
            let login = EtcdLogin { user: "member".to_owned(), password_file: password_file.clone() };
            let endpoints = vec![server(while_each, answers)];
            let config = EtcdConfig { endpoints, identity: None, login: Some(login), insecure: false };
            let mut register = EtcdRegister::open(&config, patience).unwrap();
            register.token = Some("old".to_owned());
            register.read("vm")
        };
        assert_eq!(read(Duration::ZERO, Duration::from_secs(60)).unwrap(), None);
        // Each of the three answers comes within the patience, and all of them do not.
        let late = read(Duration::from_millis(600), Duration::from_secs(1)).unwrap_err();
        assert!(matches!(late, RegisterError::Unreachable { .. }), "{late}");
    }

    #[test]
    fn only_this_machine_is_on_loopback() {
        for here in ["http://127.0.0.1:2379", "http://[::1]:2379/", "http://localhost", "http://127.9.9.9:1"] {
            assert!(is_on_loopback(here), "{here}");
        }
        for elsewhere in [
            "http://10.0.0.9:2379",
            "http://localhost.example:2379",
            "http://127.0.0.1.example:2379",
            "http://127.0.0.1@10.0.0.9:2379",
            "http://127.0.0.1:80@10.0.0.9",
            "http://[::1]@10.0.0.9",
            "http://10.0.0.9/127.0.0.1",
            "http://[2001:db8::1]:2379",
            "http://0.0.0.0:2379",
        ] {
            assert!(!is_on_loopback(elsewhere), "{elsewhere}");
        }
    }
}
