//! The counter's TCP and UDP servers. A TCP connection has a thread of its own, all of UDP has one.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::reboot::RebootMode;
use serde::Serialize;
use stealtime_probe::clock::{SampleClock, monotonic_raw_ns, realtime_ns};
use thiserror::Error;

use crate::counter::churn::Churn;
use crate::counter::disk::DiskLedger;
use crate::counter::identity::{Identity, IdentityError};
use crate::counter::ledger::{Entry, Ledger};
use crate::counter::memory::{PAGE_BYTES, PatternMemory};
use crate::counter::protocol::{ANSWER_BYTES, Answer, Operation, Outcome, REQUEST_BYTES, Request};
use crate::counter::settings::{Counter, Place};

/// A connection costs a thread; a guest of little memory carries so many.
const MOST_CONNECTIONS: usize = 256;

/// The answer should be on its way before the machine goes down.
const BEFORE_REBOOT: Duration = Duration::from_millis(250);

/// A listener that cannot accept for want of descriptors or memory tries again after this.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// Why the counter cannot serve.
#[derive(Debug, Error)]
pub enum CounterError {
    #[error("the counter cannot listen on {protocol} {address}")]
    Bind {
        /// `TCP` or `UDP`.
        protocol: &'static str,
        address: SocketAddr,
        source: io::Error,
    },
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The pages would not fit: the kernel would kill, not refuse.
    #[error("no memory for the counter's {bytes} bytes")]
    Memory {
        bytes: u64,
        /// What limits it.
        source: io::Error,
    },
    #[error("the counter cannot use the disk {path}")]
    Disk { path: PathBuf, source: io::Error },
    #[error("the counter cannot go on")]
    Kernel(#[from] io::Error),
}

/// What happens when a client asks for a reboot, or for the power to be cut.
#[derive(Clone, Copy)]
pub enum OnReboot {
    /// It is refused: this machine is not the counter's own.
    Refuse,
    /// This is called, a little later.
    Call(fn(RebootMode)),
}

/// Where a server answers.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Addresses {
    pub tcp: Option<SocketAddr>,
    pub udp: Option<SocketAddr>,
}

impl Display for Addresses {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let named = [self.tcp.map(|address| ("tcp", address)), self.udp.map(|address| ("udp", address))];
        let texts: Vec<String> =
            named.into_iter().flatten().map(|(name, address)| format!("{name} {address}")).collect();
        formatter.write_str(&texts.join(", "))
    }
}

/// A counter whose sockets are bound and whose memory is written.
pub struct Server {
    tcp: Option<TcpListener>,
    udp: Option<UdpSocket>,
    state: Arc<State>,
}

struct State {
    ledger: Mutex<(Ledger, Option<DiskLedger>)>,
    churn: Arc<Churn>,
    identity: Identity,
    connections: AtomicUsize,
    on_reboot: OnReboot,
}

impl Server {
    /// Binds the sockets and starts to rewrite memory.
    pub fn bind(counter: &Counter, on_reboot: OnReboot, report: fn(&str)) -> Result<Self, CounterError> {
        let tcp = counter.tcp.map(|place| bind("TCP", place, TcpListener::bind)).transpose()?;
        let udp = counter.udp.map(|place| bind("UDP", place, UdpSocket::bind)).transpose()?;
        let bytes = counter.memory as u64;
        let no_memory = |source| CounterError::Memory { bytes, source };
        stealtime_memory::refuse_more_than_there_is(bytes).map_err(no_memory)?;
        let memory = PatternMemory::new(counter.memory / PAGE_BYTES, counter.fill);
        let churn = Arc::new(Churn::new(memory, report));
        churn.start(counter.dirty.pages, counter.dirty.interval)?;
        let open =
            |path: &PathBuf| DiskLedger::open(path).map_err(|source| CounterError::Disk { path: path.clone(), source });
        let disk = counter.disk.as_ref().map(open).transpose()?;
        let state = State {
            ledger: Mutex::new((Ledger::default(), disk)),
            churn,
            identity: Identity::draw()?,
            connections: AtomicUsize::new(0),
            on_reboot,
        };
        Ok(Self { tcp, udp, state: Arc::new(state) })
    }

    pub fn addresses(&self) -> Result<Addresses, CounterError> {
        Ok(Addresses {
            tcp: self.tcp.as_ref().map(TcpListener::local_addr).transpose()?,
            udp: self.udp.as_ref().map(UdpSocket::local_addr).transpose()?,
        })
    }

    pub fn serve(self) -> Result<Infallible, CounterError> {
        let Self { tcp, udp, state } = self;
        if let Some(listener) = tcp {
            let state = Arc::clone(&state);
            spawn("accept", move || accept(&listener, &state))?;
        }
        match udp {
            Some(socket) => answer_datagrams(&socket, &state),
            None => loop {
                thread::park();
            },
        }
    }
}

fn bind<Socket>(
    protocol: &'static str,
    place: Place,
    bind: impl Fn(SocketAddr) -> io::Result<Socket>,
) -> Result<Socket, CounterError> {
    let mut first_refusal = None;
    for address in place.candidates() {
        match bind(address) {
            Ok(socket) => return Ok(socket),
            Err(source) => {
                first_refusal.get_or_insert(CounterError::Bind { protocol, address, source });
            }
        }
    }
    Err(first_refusal.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable).into()))
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    for connection in listener.incoming() {
        let Ok(connection) = connection else {
            thread::sleep(AFTER_REFUSAL);
            continue;
        };
        if state.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            state.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let of_thread = Arc::clone(state);
        let started = spawn("connection", move || {
            // A client that goes away, or talks something else, ends its connection and nothing more.
            let _ = answer_stream(connection, &of_thread);
            of_thread.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            state.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn answer_stream(mut connection: TcpStream, state: &State) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut bytes = [0; REQUEST_BYTES];
    loop {
        connection.read_exact(&mut bytes)?;
        let request = Request::decode(&bytes).map_err(io::Error::other)?;
        if request.operation == Operation::Check {
            state.churn.verify_all();
            state.verify_disk();
        }
        connection.write_all(&state.answer(&request))?;
    }
}

fn answer_datagrams(socket: &UdpSocket, state: &State) -> Result<Infallible, CounterError> {
    // One byte more than a request, so that a longer datagram is not mistaken for one.
    let mut bytes = [0; REQUEST_BYTES + 1];
    loop {
        // An error here is an earlier answer's: its receiver is gone, or the network is down for now.
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        let Ok(request) = Request::decode(&bytes[..length]) else { continue };
        // As lossy as UDP is in any case: the client asks again.
        let _ = socket.send_to(&state.answer(&request), from);
    }
}

impl State {
    fn answer(&self, request: &Request) -> [u8; ANSWER_BYTES] {
        let counted = self.entry(request).answer(request);
        let [pages, verified, mismatches] = self.churn.counts();
        let answer = Answer {
            guest_ns: SampleClock::Monotonic.now(),
            raw_ns: monotonic_raw_ns(),
            real_ns: realtime_ns(),
            pages,
            verified,
            mismatches,
            boot: self.identity.boot,
            life: self.identity.life,
            ..counted
        };
        answer.encode()
    }

    fn verify_disk(&self) {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let (ledger, disk) = &mut *ledger;
        let total = ledger.tell(Outcome::Told, 0).total;
        match disk.as_mut().map(|disk| disk.verify(total)) {
            None => {}
            Some(Ok((verified, wrong))) => self.churn.found(verified, &wrong),
            Some(Err(_)) => self.churn.found(1, &[u64::MAX]),
        }
    }

    fn entry(&self, request: &Request) -> Entry {
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let (ledger, disk) = &mut *ledger;
        match (request.operation, self.on_reboot) {
            (Operation::Count, _) => {
                let entry = ledger.count(request.client, request.sequence);
                // Nothing is acknowledged that the disk does not have.
                if let (Outcome::Applied, Some(disk)) = (entry.outcome, disk)
                    && disk.record(entry.total).is_err()
                {
                    self.churn.found(1, &[entry.total]);
                }
                entry
            }
            (Operation::Status | Operation::Check, _) => ledger.tell(Outcome::Told, request.client),
            (Operation::Reboot | Operation::PowerOff, OnReboot::Refuse) => {
                ledger.tell(Outcome::Refused, request.client)
            }
            (Operation::Reboot, OnReboot::Call(reboot)) => {
                let promised = promised(reboot, RebootMode::RB_AUTOBOOT, Outcome::Rebooting);
                ledger.tell(promised, request.client)
            }
            (Operation::PowerOff, OnReboot::Call(reboot)) => {
                let promised = promised(reboot, RebootMode::RB_POWER_OFF, Outcome::PoweringOff);
                ledger.tell(promised, request.client)
            }
        }
    }
}

/// Have it happen a little later, so that the answer, which this is, leaves before.
fn promised(reboot: fn(RebootMode), mode: RebootMode, outcome: Outcome) -> Outcome {
    let later = move || {
        thread::sleep(BEFORE_REBOOT);
        reboot(mode);
    };
    if spawn("reboot", later).is_ok() { outcome } else { Outcome::Refused }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}
