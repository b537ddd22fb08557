//! The register of a spec, and the threads that ask it: its calls may take as long as they like, or never return.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use stealtime_succession::{
    EtcdConfig, EtcdIdentity, EtcdRegister, FileRegister, Register, RegisterAnswer, RegisterCall, RegisterError,
    RegisterOutcome, RegisterRequest, Timing,
};
use tokio::sync::oneshot;

use crate::calls::{Calls, Remark};
use crate::clock::now;
use crate::spec::RegisterSpec;

/// How long a call to etcd may take: well under a `register_deadline`, so that it may be asked again.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tokens of etcd end after five minutes (`--auth-token-ttl`, etcd's documentation).
const READY_EVERY: Duration = Duration::from_secs(60);

/// How long those wait who ask once, outside a member's dealings: a person, or another host.
const ONCE_WITHIN: Duration = Duration::from_secs(5);

/// Make what the spec names. May hang where that is a folder.
fn open(spec: &RegisterSpec) -> Result<Box<dyn Register>, RegisterError> {
    match spec {
        RegisterSpec::File(folder) => Ok(Box::new(FileRegister::open(folder)?)),
        RegisterSpec::Etcd { .. } => open_again(spec),
    }
}

/// Make what was made before: nothing is waited for.
pub fn open_again(spec: &RegisterSpec) -> Result<Box<dyn Register>, RegisterError> {
    Ok(match spec {
        RegisterSpec::File(folder) => Box::new(FileRegister::at(folder)),
        RegisterSpec::Etcd { endpoints, identity, login, insecure } => {
            let identity = identity.as_ref().map(|identity| EtcdIdentity {
                ca: identity.ca.clone(),
                certificate: identity.certificate.clone(),
                key: identity.key.clone(),
            });
            let (endpoints, login) = (endpoints.clone(), login.clone());
            let config = EtcdConfig { endpoints, identity, login, insecure: *insecure };
            Box::new(EtcdRegister::open(&config, PATIENCE)?)
        }
    })
}

/// Make what the spec names, and do something with it, for no longer than [`ONCE_WITHIN`].
///
/// # Errors
/// [`RegisterError`] of it, or that it does not come to an end.
pub async fn once<Done: Send + 'static>(
    spec: &RegisterSpec,
    work: impl FnOnce(Box<dyn Register>) -> Result<Done, RegisterError> + Send + 'static,
) -> Result<Done, RegisterError> {
    let (tell, told) = oneshot::channel();
    let on_thread = spec.clone();
    let silent = |reason: String| RegisterError::Unreachable { register: spec.in_words(), reason };
    // Not one of the runtime's: the end of the process would wait for it.
    thread::Builder::new()
        .name("register".to_owned())
        .spawn(move || drop(tell.send(open(&on_thread).and_then(work))))
        .map_err(|error| silent(error.to_string()))?;
    match tokio::time::timeout(ONCE_WITHIN, told).await {
        Ok(outcome) => outcome.unwrap_or_else(|_| Err(silent("nobody asks it any more".to_owned()))),
        Err(_) => Err(silent(format!("nothing came back within {} s", ONCE_WITHIN.as_secs()))),
    }
}

/// Asks for one member; dropped, it ends after the call that is under way, for which nobody waits.
pub struct Registrar {
    requests: Sender<RegisterRequest>,
    /// The register, for messages.
    pub name: String,
    /// How often it was found to have gone back to an older state.
    pub went_back: u64,
    /// The call that has no answer yet.
    asked: Option<Asked>,
    answered_at: Option<Duration>,
    reads: Option<Failing>,
    writes: Option<Failing>,
    remark: Remark,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Duration,
    writes: bool,
}

/// Calls of one kind that have failed since the last one that succeeded.
#[derive(Debug, Clone)]
struct Failing {
    since: Duration,
    reason: String,
}

/// What is the matter with a register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It gives no answer, for this reason.
    Silent(String),
    /// It can be read, but takes no writes, for this reason.
    ReadOnly(String),
    /// It answers, but not all of it is as it should be.
    Odd(String),
}

impl Registrar {
    /// Start the threads; `answer` is called on one of them. A call that is not answered within half of a
    /// `register_deadline` is told as unreachable, so that it is known to fail before a lease on it ends.
    pub fn start(
        register: Box<dyn Register>,
        vm: &str,
        timing: &Timing,
        answer: impl Fn(RegisterAnswer) + Send + 'static,
    ) -> io::Result<Self> {
        let (name, remark) = (register.describe(), Remark::default());
        let mut calls = Calls::start(register, vm, timing.register_deadline / 2, remark.clone())?;
        let (requests, taken) = mpsc::channel::<RegisterRequest>();
        thread::Builder::new().name("registrar".to_owned()).spawn(move || {
            // At once, too: a standby asks for the first time when each millisecond counts.
            let mut ready_at = Instant::now();
            loop {
                match taken.recv_timeout(ready_at.saturating_duration_since(Instant::now())) {
                    Ok(request) => answer(calls.make(request)),
                    Err(RecvTimeoutError::Timeout) => {
                        calls.keep_ready();
                        ready_at = Instant::now() + READY_EVERY;
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        let (asked, answered_at, reads, writes) = (None, None, None, None);
        Ok(Self { requests, name, went_back: 0, asked, answered_at, reads, writes, remark })
    }

    /// Have a call made.
    pub fn ask(&mut self, request: RegisterRequest) {
        self.asked = Some(Asked { at: now(), writes: matches!(request.call, RegisterCall::Swap { .. }) });
        // The thread ends with this handle only.
        let _ = self.requests.send(request);
    }

    /// Note how the call went that was made last.
    pub fn heard(&mut self, answer: &RegisterAnswer) {
        let Asked { at, writes } = self.asked.take().unwrap_or_else(|| Asked { at: now(), writes: false });
        let calls = if writes { &mut self.writes } else { &mut self.reads };
        let RegisterOutcome::Unreachable { reason } = &answer.outcome else {
            *calls = None;
            self.answered_at = Some(now());
            if writes {
                // What can be written can be read.
                self.reads = None;
            }
            return;
        };
        // It was silent from when it was asked.
        let since = calls.as_ref().map_or(at, |calls| calls.since);
        *calls = Some(Failing { since, reason: reason.clone() });
    }

    /// How long ago it gave an answer; None: it has given none.
    pub fn age(&self) -> Option<Duration> {
        self.answered_at.map(|answered_at| now().saturating_sub(answered_at))
    }

    /// What is the matter with it, if calls have failed, or one is under way, for so long; or if it is odd.
    pub fn trouble(&self, patience: Duration) -> Option<Trouble> {
        let failing = |calls: &Option<Failing>| {
            calls.as_ref().filter(|calls| now() >= calls.since + patience).map(|calls| calls.reason.clone())
        };
        failing(&self.reads)
            .or_else(|| self.silence(patience))
            .map(Trouble::Silent)
            .or_else(|| failing(&self.writes).map(Trouble::ReadOnly))
            .or_else(|| self.remark.get().map(Trouble::Odd))
    }

    /// That the call that is under way takes longer than this. Calls are given up long before; it may be that nobody
    /// gets to give one up.
    fn silence(&self, patience: Duration) -> Option<String> {
        let waited = now().saturating_sub(self.asked?.at);
        (waited >= patience).then(|| format!("it has not answered for {} s", waited.as_secs()))
    }
}
