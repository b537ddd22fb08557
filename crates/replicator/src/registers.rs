//! The register of a spec, and the thread that asks it: its calls may take as long as they like.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use stealtime_succession::{
    EtcdConfig, EtcdIdentity, EtcdRegister, FileRegister, Register, RegisterAnswer, RegisterCall, RegisterError,
    RegisterOutcome, RegisterRequest,
};

use crate::clock::now;
use crate::spec::RegisterSpec;

/// How long a call to etcd may take: well under a `register_deadline`, so that it may be asked again.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tokens of etcd end after five minutes (`--auth-token-ttl`, etcd's documentation).
const READY_EVERY: Duration = Duration::from_secs(60);

/// Make what the spec names.
pub fn open(spec: &RegisterSpec) -> Result<Box<dyn Register>, RegisterError> {
    Ok(match spec {
        RegisterSpec::File(folder) => Box::new(FileRegister::open(folder)?),
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

/// Asks for one member; dropped, it ends after the call that is under way.
pub struct Registrar {
    requests: Sender<RegisterRequest>,
    /// The register, for messages.
    pub name: String,
    /// How often it was found to have gone back to an older state.
    pub went_back: u64,
    /// Whether the call that is under way writes.
    is_writing: bool,
    answered_at: Option<Duration>,
    reads: Option<Failing>,
    writes: Option<Failing>,
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
}

impl Registrar {
    /// Start the thread; `answer` is called on it.
    pub fn start(
        mut register: Box<dyn Register>,
        vm: String,
        answer: impl Fn(RegisterAnswer) + Send + 'static,
    ) -> io::Result<Self> {
        let name = register.describe();
        let (requests, taken) = mpsc::channel::<RegisterRequest>();
        thread::Builder::new().name("registrar".to_owned()).spawn(move || {
            loop {
                match taken.recv_timeout(READY_EVERY) {
                    Ok(request) => answer(request.perform(register.as_mut(), &vm)),
                    // A standby asks for the first time when each millisecond counts.
                    Err(RecvTimeoutError::Timeout) => register.keep_ready(&vm),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        let (is_writing, answered_at, reads, writes) = (false, None, None, None);
        Ok(Self { requests, name, went_back: 0, is_writing, answered_at, reads, writes })
    }

    /// Have a call made.
    pub fn ask(&mut self, request: RegisterRequest) {
        self.is_writing = matches!(request.call, RegisterCall::Swap { .. });
        // The thread ends with this handle only.
        let _ = self.requests.send(request);
    }

    /// Note how the call went that was made last.
    pub fn heard(&mut self, answer: &RegisterAnswer) {
        let calls = if self.is_writing { &mut self.writes } else { &mut self.reads };
        let RegisterOutcome::Unreachable { reason } = &answer.outcome else {
            *calls = None;
            self.answered_at = Some(now());
            if self.is_writing {
                // What can be written can be read.
                self.reads = None;
            }
            return;
        };
        let since = calls.as_ref().map_or_else(now, |calls| calls.since);
        *calls = Some(Failing { since, reason: reason.clone() });
    }

    /// How long ago it gave an answer; None: it has given none.
    pub fn age(&self) -> Option<Duration> {
        self.answered_at.map(|answered_at| now().saturating_sub(answered_at))
    }

    /// What is the matter with it, if calls have failed for so long.
    pub fn trouble(&self, patience: Duration) -> Option<Trouble> {
        let failing = |calls: &Option<Failing>| {
            calls.as_ref().filter(|calls| now() >= calls.since + patience).map(|calls| calls.reason.clone())
        };
        failing(&self.reads).map(Trouble::Silent).or_else(|| failing(&self.writes).map(Trouble::ReadOnly))
    }
}
