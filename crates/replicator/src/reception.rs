//! Who is let in: connections are heard out in one process, and only who has shown its certificate and said
//! what it wants gets a process of its own.
//!
//! The state of a TLS connection cannot be handed to another process. So it is the other way round: the
//! process that hears a hello *becomes* the standby, and the daemon starts the next one to receive, on the
//! same listening socket. Who is half way through its handshake then is left, and connects again. A standby
//! is thus as far from the daemon as it can be: the daemon may end or be replaced while standbys live.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::stdio::{dup2_stdin, dup2_stdout};
use stealtime_shipping::{
    AcceptedStream, Hello, Inquire, LinkError, LinkReceiver, LinkSender, Listener, Message, Refusal, Told, accept,
};
use stealtime_succession::{Term, check_vm_name};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn};
use tokio::time::timeout;

use crate::clock::now;
use crate::host_config::HostConfig;
use crate::offers::consider;
use crate::spec::SpecError;
use crate::{member_folder, who_lives, wording};

/// How long a connection may take until it has said what it wants: some 10 ms on an idle host.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// Connections that may be half way: each holds a TLS state of some tens of KiB. Above, the oldest is left,
/// so that who is quick gets through among many who are not.
const PENDING_MAX: usize = 64;

/// Of them from one address, or for IPv6 one network: a host asks once for each of its machines.
const PENDING_MAX_OF_ONE: usize = 16;

/// Strangers may come often: the log says so at most once in this time.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

/// What a process that has taken somebody says to the daemon.
const TAKEN: u8 = b'T';

/// Why a connection came to nothing.
#[derive(Debug, thiserror::Error)]
enum StrangerError {
    #[error(transparent)]
    Config(#[from] SpecError),
    #[error("{}", wording::of_link(.0))]
    Link(#[from] LinkError),
    #[error("{peer} did not say which machine it wants protected: {kind} came")]
    NoHello { peer: String, kind: String },
    /// It speaks for another.
    #[error("the certificate that {peer} shows is not for {host}")]
    Certificate { peer: String, host: String },
    #[error("it did not say within {} s which machine it wants protected", HEARD_WITHIN.as_secs())]
    Silent,
}

/// Somebody who may speak for a host, and what it wants.
pub struct Caller {
    /// This host, as its file said when the connection came.
    pub config: HostConfig,
    pub hello: Hello,
    pub sender: LinkSender,
    pub receiver: LinkReceiver,
}

/// Hear connections out until one of them is a caller's; None if the daemon has ended.
///
/// Standard input is the listening socket, standard output a socket of the daemon: both are given up.
pub async fn receive(config: &Path) -> io::Result<Option<Caller>> {
    let listener =
        Listener::from_inherited(std::io::stdin().as_fd().try_clone_to_owned()?).map_err(io::Error::other)?;
    let daemon = UnixStream::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    // Whoever holds the listening socket keeps the next daemon from its port.
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    daemon.set_nonblocking(true)?;
    let mut of_daemon = tokio::net::UnixStream::from_std(daemon.try_clone()?)?;
    let (heard, mut callers) = mpsc::channel(1);
    let mut pending = Pending::default();
    let mut complained = now().saturating_sub(COMPLAIN_EVERY);
    loop {
        let mut byte = [0];
        tokio::select! {
            biased;
            // Never closed: this function holds the other end.
            Some(outcome) = callers.recv() => match outcome {
                Ok(None) => {}
                Ok(Some(caller)) => {
                    pending.leave_all();
                    // A daemon that is gone needs no word.
                    let _ = (&daemon).write_all(&[TAKEN]);
                    return Ok(Some(caller));
                }
                Err(error) => {
                    if now().saturating_sub(complained) >= COMPLAIN_EVERY {
                        complained = now();
                        wording::say(&format!("a connection was refused: {}", wording::in_full(&error)));
                    }
                }
            },
            _ = of_daemon.read(&mut byte) => return Ok(None),
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    let network = network_of(&stream);
                    let (heard, config) = (heard.clone(), config.to_owned());
                    let hearing = spawn(async move {
                        let outcome = timeout(HEARD_WITHIN, hear(config, stream)).await;
                        let _ = heard.send(outcome.unwrap_or(Err(StrangerError::Silent))).await;
                    });
                    pending.add(network, hearing.abort_handle());
                }
                // Out of descriptors: do not spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

/// Wait until the process that receives has taken somebody (true), or has ended without (false).
pub fn await_taken(reception: &UnixStream) -> bool {
    use std::io::Read;
    let mut byte = [0];
    matches!((&mut &*reception).read(&mut byte), Ok(1)) && byte == [TAKEN]
}

/// Hear what a connection is for; None: a question that was answered.
async fn hear(config: PathBuf, stream: AcceptedStream) -> Result<Option<Caller>, StrangerError> {
    // Anew for each: certificates are renewed while the daemon runs.
    let config = HostConfig::read(&config)?;
    let link = accept(stream, config.identity.as_ref()).await?;
    let peer = link.peer().to_owned();
    let (sender, mut receiver) = link.split();
    let hello = match receiver.receive().await? {
        Message::Hello(hello) => *hello,
        Message::Inquire(question) if receiver.vouches_for(&question.host) => {
            let told = answer(&config, &question).await;
            let _ = sender.send(&Message::Told(told)).await;
            let _ = sender.close().await;
            return Ok(None);
        }
        Message::Inquire(Inquire { host, term, .. }) => return Err(refuse(&sender, peer, host, term).await),
        other => return Err(StrangerError::NoHello { peer, kind: format!("{:?}", other.kind()) }),
    };
    if receiver.vouches_for(&hello.host) {
        return Ok(Some(Caller { config, hello, sender, receiver }));
    }
    Err(refuse(&sender, peer, hello.host, hello.term).await)
}

/// Tell somebody that it cannot speak for this host.
async fn refuse(sender: &LinkSender, peer: String, host: String, term: Term) -> StrangerError {
    let refusal = Refusal::Other {
        reason: format!("the certificate that {host} shows is not for {host}"),
        hint: "make one with `stealtime protect identity` and that name".to_owned(),
    };
    let _ = sender.send(&Message::Refuse { term, refusal }).await;
    let _ = sender.close().await;
    StrangerError::Certificate { peer, host }
}

/// Whether a member of this host has ended: nobody lives in the folder of its machine, whose lock a member
/// has until its process is gone. Else who lives there, for who wants to know: a member may be slow to say it.
async fn answer(config: &HostConfig, question: &Inquire) -> Told {
    let is_ours = question.member.host() == config.name && check_vm_name(&question.vm).is_ok();
    let folder = config.folder.join(&question.vm);
    let is_over = is_ours && !member_folder::is_occupied(&folder);
    let living = if is_ours && !is_over && question.wants_living { who_lives::ask(&folder).await } else { None };
    let verdict = match &question.offer {
        Some(offer) => Some(consider(config.clone(), offer.clone(), question.host.clone()).await),
        None => None,
    };
    Told { term: question.term, is_over, living, verdict }
}

/// Connections that are half way, the oldest first.
#[derive(Default)]
struct Pending(VecDeque<(Option<IpAddr>, AbortHandle)>);

impl Pending {
    fn add(&mut self, network: Option<IpAddr>, hearing: AbortHandle) {
        self.0.retain(|(_, hearing)| !hearing.is_finished());
        let of_one = self.0.iter().filter(|(other, _)| *other == network).count();
        let oldest = if of_one >= PENDING_MAX_OF_ONE {
            self.0.iter().position(|(other, _)| *other == network)
        } else {
            (self.0.len() >= PENDING_MAX).then_some(0)
        };
        if let Some((_, left)) = oldest.and_then(|index| self.0.remove(index)) {
            left.abort();
        }
        self.0.push_back((network, hearing));
    }

    fn leave_all(&mut self) {
        for (_, hearing) in self.0.drain(..) {
            hearing.abort();
        }
    }
}

/// Whose connection it is: an address, of IPv6 the first 64 bits, as one host has all the others; None on a
/// socket file.
fn network_of(stream: &AcceptedStream) -> Option<IpAddr> {
    let AcceptedStream::Tcp(stream) = stream else { return None };
    match stream.peer_addr().ok()? {
        SocketAddr::V4(address) => Some(IpAddr::V4(*address.ip())),
        SocketAddr::V6(address) => match address.ip().to_ipv4_mapped() {
            Some(mapped) => Some(IpAddr::V4(mapped)),
            None => Some(IpAddr::V6((address.ip().to_bits() >> 64 << 64).into())),
        },
    }
}

/// A connected pair: what the daemon waits on, and what the process that receives gets as standard output.
pub fn line_to_daemon() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok((ours, theirs.into()))
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    #[tokio::test]
    async fn the_oldest_of_too_many_are_left_and_others_have_room() {
        let mut pending = Pending::default();
        let mut tasks = Vec::new();
        let mut add = |network: u32| {
            let task = spawn(std::future::pending::<()>());
            pending.add(Some(IpAddr::V4(network.into())), task.abort_handle());
            tasks.push(task);
        };
        (0..=PENDING_MAX_OF_ONE).for_each(|_| add(1));
        let others = u32::try_from(PENDING_MAX - PENDING_MAX_OF_ONE).unwrap();
        (2..2 + others).for_each(&mut add);
        // The last of these is one more than there is room for.
        add(1000);
        assert_eq!(pending.0.len(), PENDING_MAX);
        // A task that is left ends when it has its turn.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let left = |tasks: &[JoinHandle<()>]| -> Vec<usize> {
            (0..tasks.len()).filter(|&index| tasks[index].is_finished()).collect()
        };
        assert_eq!(left(&tasks), [0, 1], "the oldest of its network, then the oldest of all");
        pending.leave_all();
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
    }
}
