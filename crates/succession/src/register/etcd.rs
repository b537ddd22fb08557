//! A register in etcd, through the JSON gateway that every server has (`/v3/kv/...`, etcd 3.4 and newer).
//!
//! A swap is one transaction that compares the key's revision of last change. Reads are linearizable, so a
//! server that has lost its quorum does not answer them. Servers are tried in turn; if one does not answer in
//! time, its transaction may be applied later all the same, and the next one then reports a lost swap with
//! our own record in it. Which of them are of one cluster is seen in what they show (`cluster`); the others are not
//! asked, and one that did not answer last is told to swap only after it has shown what it holds.
//!
//! Whoever can write there decides which host is active. So servers are spoken to over TLS with certificates
//! of both sides, and plainly on loopback only, unless the configuration says `insecure`. Where etcd's own
//! authentication is on, a user and a password are needed besides: the gateway takes no user from a
//! certificate (etcd.io, "Why gRPC gateway"). Its tokens end after some minutes, with a restart of etcd and
//! with each change of users: one that is refused is replaced once.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

use super::answers::{Answer, Pair, Range, Token, Transaction};
use super::cluster::Cluster;
use super::credentials::Credentials;
use super::etcd_config::{EtcdConfig, EtcdLogin};
use super::requests::{
    AUTHENTICATE, RANGE, TRANSACTION, agent, is_on_loopback, key_of, login_body, post_to, range_body, refusal,
};
use super::survey::Survey;
use super::{Register, RegisterError, SwapOutcome};
use crate::{Record, Version, Versioned};

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
    /// Which of the servers are believed.
    cluster: Cluster,
}

/// What is asked on a machine.
struct Question<'a> {
    path: &'static str,
    body: Value,
    vm: &'a str,
    changes: bool,
}

impl<'a> Question<'a> {
    fn read(vm: &'a str) -> Self {
        Self { path: RANGE, body: range_body(vm), vm, changes: false }
    }
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
        let named = config.endpoints.iter().map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        let endpoints: Vec<String> = named.collect();
        let (login, cluster) = (config.login.clone(), Cluster::new(&endpoints));
        Ok(Self { agent: agent(tls), credentials, endpoints, patience, preferred: 0, login, token: None, cluster })
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Ask servers that are believed; which these are is seen before, if it is not known.
    fn ask<A: Answer>(&mut self, question: &Question<'_>, deadline: Instant) -> Result<A, RegisterError> {
        if !self.cluster.is_settled() {
            self.survey(question.vm, deadline);
        }
        self.see_that_some_are_believed()?;
        match self.call(question, deadline) {
            Err(_) if self.cluster.wants_survey() => {
                self.survey(question.vm, deadline);
                self.see_that_some_are_believed()?;
                self.call(question, deadline)
            }
            outcome => outcome,
        }
    }

    /// Compare what all servers show.
    fn survey(&mut self, vm: &str, deadline: Instant) {
        if self.cluster.is_one_server() {
            return;
        }
        // Why nobody is let in is said by the call.
        if self.login.is_some() && self.token.is_none() && self.authenticate(deadline).is_err() {
            return;
        }
        self.take_renewed_certificates();
        let Self { agent, endpoints, login, token, .. } = &*self;
        let survey = Survey { agent, endpoints, token: token.as_deref(), login: login.as_ref(), vm };
        let seen = survey.take(deadline);
        self.cluster.judge(&seen, self.preferred);
        self.preferred = self.cluster.at().unwrap_or(self.preferred);
    }

    fn see_that_some_are_believed(&self) -> Result<(), RegisterError> {
        self.cluster
            .doubt()
            .map_or(Ok(()), |doubt| Err(RegisterError::Divided { register: self.describe(), reason: doubt.to_owned() }))
    }

    /// Ask, with a token where a login is given; one that was there before is replaced if it is refused.
    fn call<A: Answer>(&mut self, question: &Question<'_>, deadline: Instant) -> Result<A, RegisterError> {
        if self.login.is_some() && self.token.is_none() {
            self.authenticate(deadline)?;
            return self.post(question, deadline)?.map_err(|refusal| self.failed(refusal));
        }
        match self.post(question, deadline)? {
            Ok(answer) => Ok(answer),
            // Refused, so nothing was done.
            Err(_) if self.login.is_some() => {
                self.authenticate(deadline)?;
                self.post(question, deadline)?.map_err(|refusal| self.failed(refusal))
            }
            Err(refusal) => Err(self.failed(refusal)),
        }
    }

    fn authenticate(&mut self, deadline: Instant) -> Result<(), RegisterError> {
        let Some(login) = &self.login else { return Ok(()) };
        let question = Question { path: AUTHENTICATE, body: login_body(login)?, vm: "", changes: false };
        // An old token would be judged first.
        self.token = None;
        let Token { token } = self
            .post(&question, deadline)?
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

    /// Post to the first server that answers and is believed, beginning with the one that answered last; each has its
    /// share of the time that is left. Within: what it answered, or how it refused.
    fn post<A: Answer>(
        &mut self,
        question: &Question<'_>,
        deadline: Instant,
    ) -> Result<Result<A, String>, RegisterError> {
        self.take_renewed_certificates();
        let mut reasons = Vec::new();
        let servers = self.endpoints.len();
        for (step, not_asked) in (0..servers).zip((1..=servers).rev()) {
            let index = (self.preferred + step) % servers;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let patience_ms = self.patience.as_millis();
                reasons.push(format!("{}: not asked within {patience_ms} ms", self.endpoints[index]));
                break;
            }
            let until = Instant::now() + left / u32::try_from(not_asked).unwrap_or(u32::MAX);
            match self.post_at(index, question, until) {
                Ok(answer) => return Ok(answer),
                Err(reason) => reasons.push(format!("{}: {reason}", self.endpoints[index])),
            }
        }
        Err(self.failed(reasons.join("; ")))
    }

    /// Post to one server, if it is believed; it first shows what it holds if it is to change something and did not
    /// answer last.
    fn post_at<A: Answer>(
        &mut self,
        index: usize,
        question: &Question<'_>,
        until: Instant,
    ) -> Result<Result<A, String>, String> {
        if let Some(why) = self.cluster.why_not(index) {
            return Err(why.to_owned());
        }
        if question.changes && !self.cluster.answered_last(index) {
            let shown: Result<Range, String> = self.post_and_judge(index, &Question::read(question.vm), until)?;
            if let Err(refusal) = shown {
                return Ok(Err(refusal));
            }
        }
        self.post_and_judge(index, question, until)
    }

    fn post_and_judge<A: Answer>(
        &mut self,
        index: usize,
        question: &Question<'_>,
        until: Instant,
    ) -> Result<Result<A, String>, String> {
        let within = until.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return Err("it did not answer in time".to_owned());
        }
        let url = format!("{}{}", self.endpoints[index], question.path);
        let answered = post_to(&self.agent, &url, self.token.as_deref(), &question.body, within);
        match answered.map_err(|error| error.to_string())? {
            (200, text) => {
                let answer: A =
                    serde_json::from_str(&text).map_err(|error| format!("no answer of etcd: {error}: {text}"))?;
                if let Some(sight) = answer.sight(question.vm) {
                    self.cluster.believe(index, sight)?;
                }
                self.preferred = index;
                Ok(Ok(answer))
            }
            (status, text) if (400..500).contains(&status) => {
                self.preferred = index;
                Ok(Err(refusal(status, &text)))
            }
            (status, text) => Err(refusal(status, &text)),
        }
    }

    fn failed(&self, reason: String) -> RegisterError {
        RegisterError::Unreachable { register: self.describe(), reason }
    }

    fn newest(&self, vm: &str, pair: Option<&Pair>) -> Result<Option<Versioned>, RegisterError> {
        let Some(pair) = pair else { return Ok(None) };
        let corrupt = |reason: String| RegisterError::Corrupt { register: self.describe(), vm: vm.to_owned(), reason };
        let content = STANDARD.decode(&pair.value).map_err(|error| corrupt(error.to_string()))?;
        let record = serde_json::from_slice(&content).map_err(|error| corrupt(error.to_string()))?;
        Ok(Some(Versioned { version: Version(pair.mod_revision), record }))
    }
}

impl Register for EtcdRegister {
    fn read(&mut self, vm: &str) -> Result<Option<Versioned>, RegisterError> {
        let range: Range = self.ask(&Question::read(vm), self.deadline())?;
        self.newest(vm, range.pair())
    }

    fn swap(&mut self, vm: &str, expected: Option<Version>, wanted: &Record) -> Result<SwapOutcome, RegisterError> {
        let key = key_of(vm);
        // A key that does not exist has the revision 0.
        let revision = expected.map_or(0, |version| version.0).to_string();
        let value = STANDARD.encode(json!(wanted).to_string());
        // Also after a change the key is read: its revisions tell the cluster from others.
        let body = json!({
            "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision }],
            "success": [{ "request_put": { "key": key, "value": value } }, { "request_range": { "key": key } }],
            "failure": [{ "request_range": { "key": key } }],
        });
        let deadline = self.deadline();
        let answer: Transaction = self.ask(&Question { path: TRANSACTION, body, vm, changes: true }, deadline)?;
        if !answer.succeeded {
            return Ok(SwapOutcome::Lost(self.newest(vm, answer.pair())?));
        }
        if expected.is_none() {
            // Servers that were empty, or as new, look alike until one of them is written to.
            self.cluster.forget();
            self.survey(vm, deadline);
            self.see_that_some_are_believed()?;
        }
        Ok(SwapOutcome::Won(Version(answer.revision())))
    }

    fn keep_ready(&mut self, vm: &str) {
        self.take_renewed_certificates();
        // Why not is said when it matters; until then the old token may do.
        let old = self.token.clone();
        if self.authenticate(self.deadline()).is_err() {
            self.token = old;
        }
        self.survey(vm, self.deadline());
    }

    fn remark(&self) -> Option<String> {
        let remark = self.cluster.remark()?;
        Some(format!("{remark} (hint: {})", RegisterError::ONE_CLUSTER))
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

    /// Of a cluster that has no record.
    const EMPTY: &str = r#"{"header": {"cluster_id": "7", "member_id": "8", "revision": "1"}}"#;

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
            let answers = vec![(401, "{}"), (200, r#"{"token": "new"}"#), (200, EMPTY)];
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
    fn who_is_sent_elsewhere_does_not_go_there() {
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let other = elsewhere.local_addr().unwrap();
        std::thread::spawn(move || {
            for status in [302, 307, 308] {
                let (stream, _) = listener.accept().unwrap();
                take_request(&stream);
                let head = format!("HTTP/1.1 {status} said\r\nConnection: close\r\nContent-Length: 0");
                (&stream).write_all(format!("{head}\r\nLocation: http://{other}/\r\n\r\n").as_bytes()).unwrap();
            }
        });
        let config = EtcdConfig { endpoints: vec![endpoint], identity: None, login: None, insecure: false };
        let mut register = EtcdRegister::open(&config, Duration::from_secs(60)).unwrap();
        for status in [302, 307, 308] {
            let error = register.read("vm").unwrap_err().to_string();
            assert!(error.contains(&format!("status {status}")), "{error}");
            assert!(elsewhere.accept().is_err(), "it went where it was sent");
        }
    }
}
