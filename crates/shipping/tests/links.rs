//! Links between two tasks, over unix sockets and over TLS.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use socket2::SockRef;
use stealtime_shipping::frame::{FrameKind, PAYLOAD_LIMIT_BYTES};
use stealtime_shipping::{
    AcceptedStream, Acknowledge, EncodedFrame, Endpoint, Heartbeat, Identity, Link, LinkError, Listener, Message,
    PageBatch, Protected, Resign, accept, connect,
};
use stealtime_succession::{Epoch, Term};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use crate::authority::Authority;

const TERM: Term = Term(5);

fn unix(folder: &Path) -> Endpoint {
    Endpoint::Unix(folder.join("host.sock"))
}

/// Both ends of a link over a unix socket.
async fn unix_pair(folder: &Path) -> (Link, Link) {
    let endpoint = unix(folder);
    let listener = Listener::bind(&endpoint).await.unwrap();
    let (connected, accepted) =
        tokio::join!(connect(&endpoint, None), async { accept(listener.accept().await.unwrap(), None).await });
    (connected.unwrap(), accepted.unwrap())
}

/// Both ends of a link over TLS.
async fn tls_pair(client: &Identity, server: &Identity) -> (Link, Link) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
    let (connected, accepted) = tokio::join!(connect(&endpoint, Some(client)), async {
        let stream = listener.accept().await.unwrap().0.into_std().unwrap();
        accept(AcceptedStream::Tcp(stream), Some(server)).await
    });
    (connected.unwrap(), accepted.unwrap())
}

fn pages(epoch: u64, bytes: usize) -> Message {
    Message::Pages(PageBatch { term: TERM, epoch: Epoch(epoch), body: vec![epoch as u8; bytes] })
}

fn heartbeat(sent_ns: u64) -> Message {
    Message::Heartbeat(Heartbeat { term: TERM, sent_ns, echo_ns: None })
}

/// Sends both ways at once: pages one way, acknowledgements the other.
async fn exchange(active: Link, standby: Link) {
    const EPOCHS: u64 = 40;
    let (active_sender, mut active_receiver) = active.split();
    let (standby_sender, mut standby_receiver) = standby.split();
    let ship = async {
        for epoch in 1..=EPOCHS {
            active_sender.send(&pages(epoch, 100_000)).await.unwrap();
        }
        active_sender.send(&Message::Resign(Resign { term: TERM, last: Epoch(EPOCHS) })).await.unwrap();
        active_sender.close().await.unwrap();
    };
    let acknowledge = async {
        for epoch in 1..=EPOCHS {
            assert_eq!(standby_receiver.receive().await.unwrap(), pages(epoch, 100_000));
            let acknowledge = Acknowledge { term: TERM, epoch: Epoch(epoch) };
            standby_sender.send(&Message::Acknowledge(acknowledge)).await.unwrap();
        }
        let last = standby_receiver.receive().await.unwrap();
        assert_eq!(last, Message::Resign(Resign { term: TERM, last: Epoch(EPOCHS) }));
        let end = standby_receiver.receive().await.unwrap_err();
        assert!(matches!(end, LinkError::Closed { .. }), "{end}");
        standby_sender.close().await.unwrap();
    };
    let hear = async {
        for epoch in 1..=EPOCHS {
            let message = active_receiver.receive().await.unwrap();
            assert_eq!(message, Message::Acknowledge(Acknowledge { term: TERM, epoch: Epoch(epoch) }));
        }
        let end = active_receiver.receive().await.unwrap_err();
        assert!(matches!(end, LinkError::Closed { .. }), "{end}");
    };
    tokio::join!(ship, acknowledge, hear);
    let error = active_sender.send(&heartbeat(1)).await.unwrap_err();
    assert!(matches!(error, LinkError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn messages_go_both_ways_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (connected, accepted) = unix_pair(folder.path()).await;
    assert_eq!(connected.peer(), format!("unix:{}", folder.path().join("host.sock").display()));
    assert!(accepted.vouches_for("any host"));
    exchange(connected, accepted).await;
}

#[tokio::test]
async fn messages_go_both_ways_over_tls_and_certificates_say_who_speaks() {
    let authority = Authority::new("ours");
    let (a, b) = (authority.host(&["a.example", "127.0.0.9"]), authority.host(&["b.example", "127.0.0.1"]));
    let (connected, accepted) = tls_pair(&a, &b).await;
    assert!(accepted.vouches_for("a.example") && accepted.vouches_for("127.0.0.9"));
    assert!(!accepted.vouches_for("b.example") && !accepted.vouches_for("127.0.0.1"));
    assert!(!accepted.vouches_for("a") && !accepted.vouches_for("no name"));
    assert!(connected.vouches_for("b.example") && !connected.vouches_for("a.example"));
    exchange(connected, accepted).await;
}

#[tokio::test]
async fn links_are_made_on_an_inherited_socket() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = unix(folder.path());
    let owner = Listener::bind(&endpoint).await.unwrap();
    let heir = Listener::from_inherited(owner.as_fd().try_clone_to_owned().unwrap()).unwrap();
    let (connected, accepted) =
        tokio::join!(connect(&endpoint, None), async { accept(heir.accept().await.unwrap(), None).await });
    exchange(connected.unwrap(), accepted.unwrap()).await;
    drop(heir);
    assert!(folder.path().join("host.sock").exists(), "the file is its owner's");

    let tcp = OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    assert!(matches!(Listener::from_inherited(tcp), Ok(Listener::Tcp(_))));

    let connected = OwnedFd::from(std::os::unix::net::UnixStream::pair().unwrap().0);
    let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    for other in [connected, file] {
        let error = Listener::from_inherited(other).unwrap_err();
        assert!(matches!(error, LinkError::Descriptor { .. }), "{error}");
    }
}

/// Passes on what comes, in small pieces: a pipe that is slower than both of its ends.
async fn slow_pipe(from: UnixStream, to: UnixStream) {
    SockRef::from(&to).set_send_buffer_size(64 << 10).unwrap();
    let (mut from_read, mut from_write) = from.into_split();
    let (mut to_read, mut to_write) = to.into_split();
    let back = async { tokio::io::copy(&mut to_read, &mut from_write).await };
    let forth = async {
        let mut piece = vec![0; 32 << 10];
        loop {
            let length = from_read.read(&mut piece).await?;
            if length == 0 {
                return to_write.shutdown().await;
            }
            to_write.write_all(&piece[..length]).await?;
            tokio::task::yield_now().await;
        }
    };
    let _ = tokio::join!(back, forth);
}

/// 200 MB wait for a slow pipe, eight frames of them in the link's own queue. A heartbeat overtakes the
/// queue: it waits only for what the kernel and the pipe hold, and for one frame.
#[tokio::test]
async fn heartbeats_overtake_pages_that_wait() {
    const FRAMES: u64 = 200;
    const EVERY: u64 = 10;
    let frame_bytes = PAYLOAD_LIMIT_BYTES as u64;
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&unix(folder.path())).await.unwrap();
    let slow = folder.path().join("slow.sock");
    let pipe = UnixListener::bind(&slow).unwrap();
    let slow = Endpoint::Unix(slow);
    let (connected, accepted, ()) =
        tokio::join!(connect(&slow, None), async { accept(listener.accept().await.unwrap(), None).await }, async {
            let from = pipe.accept().await.unwrap().0;
            let to = UnixStream::connect(folder.path().join("host.sock")).await.unwrap();
            tokio::spawn(slow_pipe(from, to));
        });
    let (sender, _hear) = connected.unwrap().split();
    let (_answer, mut receiver) = accepted.unwrap().split();
    let arrived = Arc::new(AtomicU64::new(0));

    let ship = async {
        let frame = EncodedFrame::new(FrameKind::Pages, TERM, Epoch(1), &vec![1; PAYLOAD_LIMIT_BYTES]).unwrap();
        for number in 1..=FRAMES {
            sender.send_frame(frame.clone()).await.unwrap();
            if number % EVERY == 0 {
                // What has arrived when it is sent stands in the place of the time.
                sender.send(&heartbeat(arrived.load(Ordering::Relaxed))).await.unwrap();
            }
        }
        sender.close().await.unwrap();
    };
    let receive = async {
        let mut waited = Vec::new();
        loop {
            match receiver.receive().await {
                Ok(Message::Pages(batch)) => {
                    arrived.fetch_add(batch.body.len() as u64, Ordering::Relaxed);
                }
                Ok(Message::Heartbeat(heartbeat)) => {
                    waited.push(arrived.load(Ordering::Relaxed) - heartbeat.sent_ns);
                }
                Err(LinkError::Closed { .. }) => return waited,
                other => panic!("{other:?}"),
            }
        }
    };
    let ((), waited) = tokio::join!(ship, receive);
    assert_eq!(arrived.load(Ordering::Relaxed), FRAMES * frame_bytes);
    assert_eq!(waited.len() as u64, FRAMES / EVERY);
    // Behind the queue they would wait for more than eight frames.
    assert!(waited.iter().all(|&bytes| bytes <= 4 * frame_bytes), "{waited:?} bytes went before");
}

/// What must not wait, such as what the guest is reached by, is taken behind pages that wait, and comes in order.
#[tokio::test]
async fn what_must_not_wait_is_taken_while_pages_wait_until_the_link_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let (connected, accepted) = unix_pair(folder.path()).await;
    let (sender, _hear) = connected.split();
    let shipping = sender.clone();
    let pages_sent = Arc::new(AtomicU64::new(0));
    let sent = Arc::clone(&pages_sent);
    let ship = tokio::spawn(async move {
        loop {
            shipping.send(&pages(1, PAYLOAD_LIMIT_BYTES - 100)).await?;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        #[allow(unreachable_code, reason = "the type of the task")]
        Ok::<(), LinkError>(())
    });
    // Nobody reads: the socket and the queue are full when nothing more is taken.
    let mut before = u64::MAX;
    while before != pages_sent.load(Ordering::Relaxed) || before == 0 {
        before = pages_sent.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let protected = |term| Message::Protected(Protected { term: Term(term) });
    sender.try_send(&protected(1)).unwrap();
    sender.try_send(&heartbeat(1)).unwrap();
    let refused = (2..10_000).find_map(|term| sender.try_send(&protected(term)).err().map(|error| (term, error)));
    let (taken, error) = refused.expect("what waits has a bound");
    assert!(error.to_string().ends_with("it takes no more"), "{error}");
    assert!(taken > 100, "{taken}");

    ship.abort();
    let (_answer, mut receiver) = accepted.split();
    let mut terms = Vec::<u64>::new();
    while terms.len() + 1 < usize::try_from(taken).unwrap() {
        match receiver.receive().await.unwrap() {
            Message::Protected(Protected { term }) => terms.push(term.0),
            Message::Heartbeat(_) => assert!(terms.is_empty(), "it overtakes"),
            Message::Pages(_) => assert!(terms.is_empty(), "they were sent before"),
            other => panic!("{other:?}"),
        }
    }
    assert!(terms.is_sorted(), "{terms:?}");
}

#[tokio::test]
async fn a_connection_that_ends_within_a_message_is_not_just_closed() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = unix(folder.path());
    let listener = Listener::bind(&endpoint).await.unwrap();
    let frame = pages(1, 1000).encode().unwrap();
    let ((), accepted) = tokio::join!(
        async {
            let mut stream = UnixStream::connect(folder.path().join("host.sock")).await.unwrap();
            stream.write_all(&frame.as_bytes()[..500]).await.unwrap();
        },
        async { accept(listener.accept().await.unwrap(), None).await }
    );
    // The peer may be gone before the greeting is written.
    let error = match accepted {
        Ok(link) => link.split().1.receive().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(
        matches!(&error, LinkError::Message { source, .. } if source.to_string().contains("ended inside a frame"))
            || matches!(error, LinkError::Broken { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_peer_that_is_gone_without_a_word_is_said_in_our_words() {
    let authority = Authority::new("ours");
    let (a, b) = (authority.host(&["a", "127.0.0.9"]), authority.host(&["b", "127.0.0.1"]));
    let (connected, accepted) = tls_pair(&a, &b).await;
    // As when its process was killed: TLS is not closed.
    let (_sender, mut receiver) = connected.split();
    drop(accepted);
    let error = receiver.receive().await.unwrap_err();
    assert!(matches!(error, LinkError::Broken { .. }), "{error:?}");
    assert!(error.to_string().ends_with("broke: its other end is gone without closing it"), "{error}");
}

#[tokio::test]
async fn a_socket_file_is_taken_over_only_if_nobody_listens_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = unix(folder.path());
    let path = folder.path().join("host.sock");
    let listener = Listener::bind(&endpoint).await.unwrap();
    let error = Listener::bind(&endpoint).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on unix:{}", path.display()));
    drop(listener);
    assert!(!path.exists());

    // A process that was killed leaves its file behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Listener::bind(&endpoint).await.unwrap());

    std::fs::write(&path, "a file of somebody else").unwrap();
    Listener::bind(&endpoint).await.unwrap_err();
    assert!(path.exists());
}

#[tokio::test]
async fn nobody_there_is_said_with_the_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = unix(folder.path());
    let error = connect(&endpoint, None).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot connect to {endpoint}"));
    assert!(error.hint().unwrap().contains("stealtime-replicator host"));
}

/// With the real clock: one that jumps is a feature of tokio, with which it would be built once more.
#[tokio::test]
async fn a_peer_that_says_nothing_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = unix(folder.path());
    let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("host.sock")).unwrap();
    let error = connect(&endpoint, None).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{endpoint} did not complete the connection within 5 s"));
}
