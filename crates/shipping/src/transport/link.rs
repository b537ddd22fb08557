//! A link that is open: messages go out in order, except that urgent ones go between the frames of the
//! others.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;

use super::LinkError;
use super::error::in_our_words;
use crate::frame::{EncodedFrame, FrameDecoder};
use crate::message::Message;
use crate::version::ProtocolVersion;

/// What is read from the socket at a time.
const READ_BYTES: usize = 256 << 10;

/// Frames that wait to be written, about 64 KiB each: the encoder is to wait, not the memory to fill.
const BULK_FRAMES: usize = 8;

/// Messages of those who may not wait are small and rare; if so many wait, the link stands still.
const UNWAITED_FRAMES: usize = 256;

/// A stream in both directions.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection on which both sides have accepted each other.
pub struct Link {
    stream: Box<dyn Duplex>,
    peer: String,
    certificate: Option<Arc<CertificateDer<'static>>>,
    version: ProtocolVersion,
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Link({})", self.peer)
    }
}

impl Link {
    pub(super) fn new(
        stream: Box<dyn Duplex>,
        peer: String,
        certificate: Option<Arc<CertificateDer<'static>>>,
        version: ProtocolVersion,
    ) -> Self {
        Self { stream, peer, certificate, version }
    }

    pub(super) fn stream(&mut self) -> &mut dyn Duplex {
        &mut self.stream
    }

    /// The other side: the endpoint that was connected to, or the address that it came from.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// What both sides speak.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Whether the other side may speak for the host of this name: over TLS, its certificate must name it.
    /// Who may open the socket file may speak for any host.
    pub fn vouches_for(&self, host: &str) -> bool {
        names(self.certificate.as_deref(), host)
    }

    /// Divides the link; a task of the current runtime writes what the sender is given.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn split(self) -> (LinkSender, LinkReceiver) {
        let (read, write) = tokio::io::split(self.stream);
        let (urgent, urgent_frames) = mpsc::unbounded_channel();
        let (ordered, orders) = mpsc::unbounded_channel();
        let room =
            Room { bulk: Arc::new(Semaphore::new(BULK_FRAMES)), unwaited: Arc::new(Semaphore::new(UNWAITED_FRAMES)) };
        let failure = Arc::new(Mutex::new(None));
        let writer = Writer { write, urgent_frames, orders, failure: Arc::clone(&failure) };
        let writer = tokio::spawn(writer.run()).abort_handle();
        let version = self.version;
        let (peer, runtime) = (self.peer.clone(), Handle::current());
        let sender = LinkSender { urgent, ordered, room, runtime, failure, peer, version, writer };
        let decoder = FrameDecoder::new(version);
        let receiver = LinkReceiver { read, decoder, peer: self.peer, certificate: self.certificate };
        (sender, receiver)
    }
}

fn names(certificate: Option<&CertificateDer<'static>>, host: &str) -> bool {
    let Some(certificate) = certificate else { return true };
    let Ok(name) = ServerName::try_from(host) else { return false };
    webpki::EndEntityCert::try_from(certificate)
        .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(&name).is_ok())
}

/// A frame that waits, and its place among those that wait, which is free once it is written.
struct Waiting(EncodedFrame, OwnedSemaphorePermit);

/// What the writer is to do next.
enum Order {
    Write(Waiting),
    Close(oneshot::Sender<()>),
}

/// How many frames may wait.
#[derive(Clone)]
struct Room {
    /// Of those who wait for it.
    bulk: Arc<Semaphore>,
    /// Of those who may not: pages that wait are no reason to refuse them.
    unwaited: Arc<Semaphore>,
}

/// Gives messages to the task that writes. Clones share the link.
#[derive(Clone)]
pub struct LinkSender {
    urgent: mpsc::UnboundedSender<Waiting>,
    ordered: mpsc::UnboundedSender<Order>,
    room: Room,
    runtime: Handle,
    failure: Arc<Mutex<Option<String>>>,
    peer: String,
    version: ProtocolVersion,
    writer: AbortHandle,
}

impl fmt::Debug for LinkSender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LinkSender({})", self.peer)
    }
}

impl LinkSender {
    /// What both sides speak.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Sends a message: heartbeats and acknowledgements before the others that wait, all else in order. Waits
    /// while too much waits to be written. It is not known to have arrived, nor even to have been written.
    ///
    /// # Errors
    /// [`LinkError::Broken`] once writing has failed; [`LinkError::Unsendable`] if the message is too long.
    pub async fn send(&self, message: &Message) -> Result<(), LinkError> {
        self.send_frame(self.encode(message)?).await
    }

    /// As [`LinkSender::send`], but never waits: for those who may not.
    ///
    /// # Errors
    /// [`LinkError::Broken`] once writing has failed, or if so many such messages wait that the link stands still;
    /// [`LinkError::Unsendable`] if the message is too long.
    pub fn try_send(&self, message: &Message) -> Result<(), LinkError> {
        let frame = self.encode(message)?.in_version(self.version);
        match Arc::clone(&self.room.unwaited).try_acquire_owned() {
            Ok(room) => self.order(frame, room),
            Err(_) => Err(LinkError::Broken { peer: self.peer.clone(), reason: "it takes no more".to_owned() }),
        }
    }

    fn encode(&self, message: &Message) -> Result<EncodedFrame, LinkError> {
        message.known_in(self.version).encode().map_err(LinkError::Unsendable)
    }

    /// Writes nothing more, not even what waits; whoever waits to send fails. For all clones.
    pub fn abort(&self) {
        self.writer.abort();
    }

    /// As [`LinkSender::send`], for a frame of the encoder.
    pub async fn send_frame(&self, frame: EncodedFrame) -> Result<(), LinkError> {
        let room = if frame.kind().is_urgent() { &self.room.unwaited } else { &self.room.bulk };
        let room = Arc::clone(room).acquire_owned().await.map_err(|_| self.broken())?;
        self.order(frame.in_version(self.version), room)
    }

    /// As [`LinkSender::send_frame`], for threads that belong to no runtime.
    ///
    /// # Panics
    /// In an asynchronous task.
    pub fn send_frame_blocking(&self, frame: EncodedFrame) -> Result<(), LinkError> {
        self.runtime.block_on(self.send_frame(frame))
    }

    fn order(&self, frame: EncodedFrame, room: OwnedSemaphorePermit) -> Result<(), LinkError> {
        let is_urgent = frame.kind().is_urgent();
        let waiting = Waiting(frame, room);
        let is_taken = if is_urgent {
            self.urgent.send(waiting).is_ok()
        } else {
            self.ordered.send(Order::Write(waiting)).is_ok()
        };
        if is_taken { Ok(()) } else { Err(self.broken()) }
    }

    /// Writes all that waits and closes this direction of the link, for all clones.
    ///
    /// # Errors
    /// [`LinkError::Broken`] if it could not all be written.
    pub async fn close(&self) -> Result<(), LinkError> {
        let (done, closed) = oneshot::channel();
        self.ordered.send(Order::Close(done)).map_err(|_| self.broken())?;
        closed.await.map_err(|_| self.broken())
    }

    fn broken(&self) -> LinkError {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = failure.clone().unwrap_or_else(|| "it was closed by this side".to_owned());
        LinkError::Broken { peer: self.peer.clone(), reason }
    }
}

/// The task that writes.
struct Writer {
    write: WriteHalf<Box<dyn Duplex>>,
    urgent_frames: mpsc::UnboundedReceiver<Waiting>,
    orders: mpsc::UnboundedReceiver<Order>,
    failure: Arc<Mutex<Option<String>>>,
}

impl Writer {
    async fn run(mut self) {
        if let Err(error) = self.write_frames().await {
            // Set before the channels close, so that whoever finds them closed finds the reason.
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(in_our_words(&error));
        }
    }

    async fn write_frames(&mut self) -> std::io::Result<()> {
        let (mut urgent_open, mut orders_open) = (true, true);
        while urgent_open || orders_open {
            if self.urgent_frames.is_empty() && self.orders.is_empty() {
                // TLS holds back what does not fill a record.
                self.write.flush().await?;
            }
            tokio::select! {
                biased;
                waiting = self.urgent_frames.recv(), if urgent_open => match waiting {
                    Some(Waiting(frame, _room)) => self.write.write_all(frame.as_bytes()).await?,
                    None => urgent_open = false,
                },
                order = self.orders.recv(), if orders_open => match order {
                    Some(Order::Write(Waiting(frame, _room))) => self.write.write_all(frame.as_bytes()).await?,
                    Some(Order::Close(done)) => {
                        self.close().await?;
                        // Nobody may wait for it any more.
                        let _ = done.send(());
                        return Ok(());
                    }
                    None => orders_open = false,
                },
            }
        }
        self.close().await
    }

    async fn close(&mut self) -> std::io::Result<()> {
        while let Ok(Waiting(frame, _room)) = self.urgent_frames.try_recv() {
            self.write.write_all(frame.as_bytes()).await?;
        }
        self.write.shutdown().await
    }
}

/// Takes messages from a link.
pub struct LinkReceiver {
    read: ReadHalf<Box<dyn Duplex>>,
    decoder: FrameDecoder,
    peer: String,
    certificate: Option<Arc<CertificateDer<'static>>>,
}

impl fmt::Debug for LinkReceiver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LinkReceiver({})", self.peer)
    }
}

impl LinkReceiver {
    /// As [`Link::vouches_for`], for who learns the name from the first message.
    pub fn vouches_for(&self, host: &str) -> bool {
        names(self.certificate.as_deref(), host)
    }

    /// The next message. May be dropped while it waits (`select!`): nothing is lost.
    ///
    /// # Errors
    /// [`LinkError::Closed`] if the other side closed the link between two messages, [`LinkError::Message`]
    /// if what came is none, [`LinkError::Broken`] if the connection broke. After any of them nothing more
    /// comes.
    pub async fn receive(&mut self) -> Result<Message, LinkError> {
        loop {
            let peer = || self.peer.clone();
            let refuse = |source| LinkError::Message { peer: peer(), source };
            if let Some(frame) = self.decoder.next_frame().map_err(|error| refuse(error.into()))? {
                return Message::decode(frame).map_err(refuse);
            }
            let buffer = self.decoder.buffer();
            buffer.reserve(READ_BYTES);
            match self.read.read_buf(buffer).await {
                Ok(0) => {
                    self.decoder.finish().map_err(|error| refuse(error.into()))?;
                    return Err(LinkError::Closed { peer: peer() });
                }
                Ok(_) => {}
                Err(error) => return Err(LinkError::Broken { peer: peer(), reason: in_our_words(&error) }),
            }
        }
    }
}
