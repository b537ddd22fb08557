//! The register of a spec, and the thread that asks it: its calls may take as long as they like.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use stealtime_succession::{
    EtcdConfig, EtcdIdentity, EtcdRegister, FileRegister, Register, RegisterAnswer, RegisterError, RegisterRequest,
};

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
                    Err(RecvTimeoutError::Timeout) => register.keep_ready(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { requests, name, went_back: 0 })
    }

    /// Have a call made.
    pub fn ask(&self, request: RegisterRequest) {
        // The thread ends with this handle only.
        let _ = self.requests.send(request);
    }
}
