//! How a link comes to be: connecting, listening, and taking over a socket that somebody else listens on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, Error as TlsError};
use socket2::{SockRef, Socket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::error::in_our_words;
use super::link::Duplex;
use super::{Endpoint, Identity, Link, LinkError, socket};
use crate::version::ProtocolVersion;

/// How long connecting and the handshake may take together.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// What the accepting side says first. In TLS 1.3 a client is done before the server has judged its
/// certificate (RFC 8446, 4.4.2.4 and 2): only an answer shows that it was accepted.
const GREETING: [u8; 8] = *b"STSHIPOK";

/// A connection that was accepted and says nothing yet.
#[derive(Debug)]
pub enum AcceptedStream {
    /// Over a socket file.
    Unix(std::os::unix::net::UnixStream),
    Tcp(std::net::TcpStream),
}

/// Accepts connections at an endpoint.
#[derive(Debug)]
pub enum Listener {
    /// On a socket file, which goes when the listener that made it does.
    Unix(UnixListener, Option<SocketFile>),
    Tcp(TcpListener),
}

/// A socket file of ours.
#[derive(Debug)]
pub struct SocketFile(std::path::PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // What cannot be removed is found to be stale by the next listener.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Listens on `endpoint`. A socket file that nobody listens on any more is replaced; a new one is for its
    /// owner only.
    ///
    /// # Errors
    /// [`LinkError::Listen`] if somebody listens there, or it is not ours to listen on.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self, LinkError> {
        let refuse = |source| LinkError::Listen { endpoint: endpoint.to_string(), source };
        match endpoint {
            Endpoint::Unix(path) => {
                remove_stale(path).await.map_err(refuse)?;
                let listener = UnixListener::bind(path).map_err(refuse)?;
                let file = SocketFile(path.clone());
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(refuse)?;
                Ok(Self::Unix(listener, Some(file)))
            }
            Endpoint::Tcp { host, port } => {
                Ok(Self::Tcp(TcpListener::bind((host.as_str(), *port)).await.map_err(refuse)?))
            }
        }
    }

    /// Takes over a socket that another process listens on, for example as standard input.
    ///
    /// # Errors
    /// [`LinkError::Descriptor`] if it is no listening socket of either family.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn from_inherited(descriptor: OwnedFd) -> Result<Self, LinkError> {
        let refuse = |source| LinkError::Descriptor { source };
        let socket = Socket::from(descriptor);
        if !socket.is_listener().map_err(refuse)? {
            return Err(refuse(io::ErrorKind::InvalidInput.into()));
        }
        socket.set_nonblocking(true).map_err(refuse)?;
        if socket.local_addr().map_err(refuse)?.is_unix() {
            let listener = UnixListener::from_std(OwnedFd::from(socket).into()).map_err(refuse)?;
            Ok(Self::Unix(listener, None))
        } else {
            Ok(Self::Tcp(TcpListener::from_std(OwnedFd::from(socket).into()).map_err(refuse)?))
        }
    }

    /// The next connection, not yet secured: give it to [`accept`].
    ///
    /// # Errors
    /// What the system says, for example that there are too many open files; accepting again may work.
    pub async fn accept(&self) -> io::Result<AcceptedStream> {
        Ok(match self {
            Self::Unix(listener, _) => AcceptedStream::Unix(listener.accept().await?.0.into_std()?),
            Self::Tcp(listener) => AcceptedStream::Tcp(listener.accept().await?.0.into_std()?),
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

async fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

async fn within_limit<T>(peer: &str, step: impl Future<Output = Result<T, LinkError>>) -> Result<T, LinkError> {
    let limit = CONNECT_LIMIT;
    let silent = |_| LinkError::Silent { peer: peer.to_owned(), limit };
    tokio::time::timeout(limit, step).await.map_err(silent)?
}

/// Connects to the host that listens at `endpoint`.
pub async fn connect(endpoint: &Endpoint, identity: Option<&Identity>) -> Result<Link, LinkError> {
    let peer = endpoint.to_string();
    within_limit(&peer, async {
        let refuse = |source| LinkError::Connect { peer: peer.clone(), source };
        let (stream, certificate, version): (Box<dyn Duplex>, _, _) = match endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(refuse)?;
                socket::bound_buffers(&SockRef::from(&stream)).map_err(refuse)?;
                (Box::new(stream), None, ProtocolVersion::NEWEST)
            }
            Endpoint::Tcp { host, port } => {
                let identity = identity.ok_or_else(|| LinkError::NoIdentity { peer: peer.clone() })?;
                let connector = TlsConnector::from(identity.client()?);
                let name = ServerName::try_from(host.clone())
                    .map_err(|_| refuse(io::Error::new(io::ErrorKind::InvalidInput, "the host is no name")))?;
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(refuse)?;
                socket::prepare_tcp(&SockRef::from(&stream)).map_err(refuse)?;
                let stream = connector.connect(name, stream).await.map_err(|error| explain(&peer, &error))?;
                let handshake = stream.get_ref().1;
                let certificate = own_certificate(handshake.peer_certificates());
                let version = agreed(&peer, handshake.alpn_protocol())?;
                (Box::new(stream), certificate, version)
            }
        };
        let mut link = Link::new(stream, peer.clone(), certificate, version);
        let mut greeting = [0; GREETING.len()];
        link.stream().read_exact(&mut greeting).await.map_err(|error| explain(&peer, &error))?;
        if greeting != GREETING {
            let reason = format!("it greets with {greeting:02x?}: it is no stealtime-replicator");
            return Err(LinkError::Broken { peer: peer.clone(), reason });
        }
        Ok(link)
    })
    .await
}

/// Makes a link of a connection that was accepted; over TCP, only with whoever shows a certificate that the
/// identity's authority signed.
pub async fn accept(stream: AcceptedStream, identity: Option<&Identity>) -> Result<Link, LinkError> {
    let refuse = |source| LinkError::Descriptor { source };
    match stream {
        AcceptedStream::Unix(stream) => {
            stream.set_nonblocking(true).map_err(refuse)?;
            let stream = UnixStream::from_std(stream).map_err(refuse)?;
            socket::bound_buffers(&SockRef::from(&stream)).map_err(refuse)?;
            let process = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
            let peer = process.map_or_else(|| "a local process".to_owned(), |pid| format!("process {pid}"));
            greet(Link::new(Box::new(stream), peer, None, ProtocolVersion::NEWEST)).await
        }
        AcceptedStream::Tcp(stream) => {
            stream.set_nonblocking(true).map_err(refuse)?;
            let peer = stream.peer_addr().map_err(refuse)?.to_string();
            let identity = identity.ok_or_else(|| LinkError::NoIdentity { peer: peer.clone() })?;
            let acceptor = TlsAcceptor::from(identity.server()?);
            let stream = TcpStream::from_std(stream).map_err(refuse)?;
            socket::prepare_tcp(&SockRef::from(&stream)).map_err(refuse)?;
            within_limit(&peer, async {
                let stream = acceptor.accept(stream).await.map_err(|error| explain(&peer, &error))?;
                let handshake = stream.get_ref().1;
                let certificate = own_certificate(handshake.peer_certificates());
                let version = agreed(&peer, handshake.alpn_protocol())?;
                greet(Link::new(Box::new(stream), peer.clone(), certificate, version)).await
            })
            .await
        }
    }
}

async fn greet(mut link: Link) -> Result<Link, LinkError> {
    let peer = link.peer().to_owned();
    let result = async {
        link.stream().write_all(&GREETING).await?;
        link.stream().flush().await
    };
    result.await.map_err(|error| explain(&peer, &error))?;
    Ok(link)
}

fn own_certificate(chain: Option<&[CertificateDer<'_>]>) -> Option<Arc<CertificateDer<'static>>> {
    chain?.first().map(|certificate| Arc::new(certificate.clone().into_owned()))
}

/// What a handshake has agreed upon.
fn agreed(peer: &str, alpn_name: Option<&[u8]>) -> Result<ProtocolVersion, LinkError> {
    ProtocolVersion::agreed(alpn_name).ok_or_else(|| LinkError::OtherRelease { peer: peer.to_owned() })
}

/// Says in the user's terms what went wrong in a handshake.
fn explain(peer: &str, error: &io::Error) -> LinkError {
    let peer = peer.to_owned();
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => LinkError::Closed { peer },
            _ => LinkError::Broken { peer, reason: in_our_words(error) },
        };
    };
    match tls {
        TlsError::InvalidCertificate(reason) => LinkError::PeerCertificate { peer, reason: reason.to_string() },
        TlsError::NoCertificatesPresented => LinkError::PeerCertificate { peer, reason: "it shows none".to_owned() },
        TlsError::NoApplicationProtocol | TlsError::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            LinkError::OtherRelease { peer }
        }
        TlsError::AlertReceived(alert) if is_about_certificate(*alert) => {
            LinkError::OwnCertificate { peer, reason: format!("{alert:?}") }
        }
        TlsError::InvalidMessage(_) => LinkError::Plain { peer },
        other => LinkError::Tls { peer, reason: other.to_string() },
    }
}

fn is_about_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied
    )
}
