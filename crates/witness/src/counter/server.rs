//! The counter's TCP and UDP servers. A TCP connection has a thread of its own, all of UDP has one.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
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

/// A machine that was told to go down waits for so long at most until whoever asked has the answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Of an answer in a datagram nobody hears whether it arrived.
const AFTER_DATAGRAM: Duration = Duration::from_millis(250);

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
    /// This is called, once the answer has arrived.
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
        let (answer, end) = state.answer(&request);
        connection.write_all(&answer)?;
        if let Some(end) = end {
            await_hang_up(&mut connection);
            end();
        }
    }
}

/// Waits until whoever asked has the answer, and hangs up: where output is held until a checkpoint is whole, that may
/// take as long as it likes.
fn await_hang_up(connection: &mut TcpStream) {
    let _ = connection.shutdown(Shutdown::Write);
    let _ = connection.set_read_timeout(Some(ANSWERED_WITHIN));
    let _ = connection.read(&mut [0]);
}

fn answer_datagrams(socket: &UdpSocket, state: &State) -> Result<Infallible, CounterError> {
    // One byte more than a request, so that a longer datagram is not mistaken for one.
    let mut bytes = [0; REQUEST_BYTES + 1];
    loop {
        // An error here is an earlier answer's: its receiver is gone, or the network is down for now.
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        let Ok(request) = Request::decode(&bytes[..length]) else { continue };
        // As lossy as UDP is in any case: the client asks again.
        let (answer, end) = state.answer(&request);
        let _ = socket.send_to(&answer, from);
        if let Some(end) = end {
            thread::sleep(AFTER_DATAGRAM);
            end();
        }
    }
}

impl State {
    /// The answer, and what ends the machine once it has arrived, if that was asked.
    fn answer(&self, request: &Request) -> ([u8; ANSWER_BYTES], Option<impl FnOnce() + use<>>) {
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
        let mode = match answer.outcome {
            Outcome::Rebooting => Some(RebootMode::RB_AUTOBOOT),
            Outcome::PoweringOff => Some(RebootMode::RB_POWER_OFF),
            _ => None,
        };
        let end = match (self.on_reboot, mode) {
            (OnReboot::Call(reboot), Some(mode)) => Some(move || reboot(mode)),
            _ => None,
        };
        (answer.encode(), end)
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
            (Operation::Reboot, OnReboot::Call(_)) => ledger.tell(Outcome::Rebooting, request.client),
            (Operation::PowerOff, OnReboot::Call(_)) => ledger.tell(Outcome::PoweringOff, request.client),
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc::{self, Sender};

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        counter: Counter,
    }

    static ENDED: OnceLock<Sender<RebootMode>> = OnceLock::new();

    fn end(mode: RebootMode) {
        ENDED.get().unwrap().send(mode).unwrap();
    }

    #[test]
    fn a_machine_that_is_to_power_off_goes_down_when_who_asked_has_the_answer() {
        let (ended, heard) = mpsc::channel();
        ENDED.set(ended).unwrap();
        let CommandLine { counter } = CommandLine::parse_from(["counter", "--tcp", "127.0.0.1:0"]);
        let server = Server::bind(&counter, OnReboot::Call(end), |_| ()).unwrap();
        let address = server.addresses().unwrap().tcp.unwrap();
        spawn("server", move || drop(server.serve())).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let request = Request { operation: Operation::PowerOff, client: 0, sequence: 0, sent_ns: 0 };
        client.write_all(&request.encode()).unwrap();
        let mut answer = [0; ANSWER_BYTES];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(Answer::decode(&answer).unwrap().outcome, Outcome::PoweringOff);
        // Longer than such a machine waited before.
        assert!(heard.recv_timeout(Duration::from_millis(400)).is_err(), "the answer may still be on its way");
        drop(client);
        assert_eq!(heard.recv_timeout(ANSWERED_WITHIN).unwrap(), RebootMode::RB_POWER_OFF);
    }
}
