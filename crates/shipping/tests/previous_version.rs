//! A host of the version of the protocol before this one, as it speaks on the line: what its code has written is kept
//! in `golden/version-5.txt`, and it is played here with that, without the code of this version.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use stealtime_shipping::{
    AcceptedStream, Acknowledge, Addresses, AddressesInVlan, Confirmed, CopyHeld, Endpoint, EpochBegin, EpochEnd,
    FrameDecoder, Heartbeat, Hello, Identity, Image, Inquire, LinkError, Living, Message, Offer, Protected,
    ProtocolVersion, RamBlock, Refusal, Resign, Told, Verdict, Welcome, accept, connect,
};
use stealtime_succession::{Epoch, MemberId, Term};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::authority::Authority;
use crate::streams::two_epochs;

const TERM: Term = Term(4);
const GREETING: &[u8; 8] = b"STSHIPOK";

/// What the code of version 5 wrote, by name.
fn golden() -> BTreeMap<&'static str, Vec<u8>> {
    include_str!("golden/version-5.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, hex) = line.split_once(' ').unwrap();
            let byte = |index| u8::from_str_radix(&hex[index..index + 2], 16).unwrap();
            (name, (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

/// The same messages, as this code says them.
fn messages() -> Vec<(&'static str, Message)> {
    let (term, epoch) = (TERM, Epoch(9));
    let member = MemberId::new("a", 1);
    vec![
        (
            "hello",
            Message::Hello(Box::new(Hello {
                term,
                host: "a".to_owned(),
                member: member.clone(),
                renewals: 3,
                qemu_version: "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".to_owned(),
                firmware: Some(Image { path: "bios-256k.bin".to_owned(), sha256: "00ff".to_owned() }),
                ram_blocks: vec![RamBlock { name: "pc.ram".to_owned(), bytes: 1 << 28 }],
                wants_delta: true,
                specification: json!({"version": 1}),
            })),
        ),
        (
            "welcome",
            Message::Welcome(Welcome {
                term,
                host: "b".to_owned(),
                member: MemberId::new("b", 7),
                delta: true,
                qemu_version: Some("7.2.22".to_owned()),
            }),
        ),
        (
            "refuse",
            Message::Refuse { term, refusal: Refusal::ImageMissing { host: "b".to_owned(), path: "/k".to_owned() } },
        ),
        (
            "inquire",
            Message::Inquire(Inquire {
                term,
                host: "a".to_owned(),
                vm: "pbx".to_owned(),
                member: member.clone(),
                wants_living: true,
                offer: Some(Offer { qemu_version: "7.2.22".to_owned(), firmware: None, specification: json!({}) }),
            }),
        ),
        (
            "told",
            Message::Told(Told {
                term,
                is_over: true,
                living: Some(Living { member, term, role: String::new() }),
                verdict: Some(Verdict::Takes),
            }),
        ),
        ("heartbeat", Message::Heartbeat(Heartbeat { term, sent_ns: 5, echo_ns: Some(4) })),
        (
            "epoch-begin",
            Message::EpochBegin(EpochBegin { term, epoch, full: true, pages: 8, device_bytes: 13, disk_bytes: 0 }),
        ),
        ("epoch-end", Message::EpochEnd(EpochEnd { term, epoch, digest: 77 })),
        ("acknowledge", Message::Acknowledge(Acknowledge { term, epoch })),
        ("copy-held", Message::CopyHeld(CopyHeld { term })),
        (
            "addresses",
            Message::Addresses(Addresses {
                term,
                ipv4: vec![[10, 0, 0, 2].into()],
                ipv6: vec![[1; 16].into()],
                vlans: vec![AddressesInVlan { vlan: 20, ..AddressesInVlan::default() }],
            }),
        ),
        ("protected", Message::Protected(Protected { term })),
        ("confirmed", Message::Confirmed(Confirmed { term, port_fault: Some("no TAP".to_owned()) })),
        ("resign", Message::Resign(Resign { term, last: epoch })),
        ("bye", Message::Bye { term }),
    ]
}

/// The bytes of a message for a host of version 5.
fn for_version_5(message: &Message) -> Vec<u8> {
    let frame = message.known_in(ProtocolVersion::PREVIOUS).encode().unwrap();
    frame.in_version(ProtocolVersion::PREVIOUS).as_bytes().to_vec()
}

/// The messages in the bytes of a host of version 5.
fn read_version_5(bytes: &[u8]) -> Vec<Message> {
    let mut decoder = FrameDecoder::new(ProtocolVersion::PREVIOUS);
    decoder.feed(bytes);
    let mut messages = Vec::new();
    while let Some(frame) = decoder.next_frame().unwrap() {
        messages.push(Message::decode(frame).unwrap());
    }
    decoder.finish().unwrap();
    messages
}

#[test]
fn what_is_said_to_a_host_of_version_5_is_what_its_own_code_would_say() {
    let golden = golden();
    for (name, message) in messages() {
        assert_eq!(for_version_5(&message), golden[name], "{name}");
    }
}

#[test]
fn what_a_host_of_version_5_says_is_understood() {
    let golden = golden();
    for (name, message) in messages() {
        assert_eq!(read_version_5(&golden[name]), [message.known_in(ProtocolVersion::PREVIOUS).into_owned()], "{name}");
    }
    // All kinds of pages, and device state.
    let ours = two_epochs();
    for (name, frames) in [("epoch-1", ours.first), ("epoch-2", ours.second)] {
        let theirs = read_version_5(&golden[name]);
        let same: Vec<u8> = frames
            .into_iter()
            .flat_map(|frame| frame.in_version(ProtocolVersion::PREVIOUS).as_bytes().to_vec())
            .collect();
        assert_eq!(theirs, read_version_5(&same), "{name}");
        assert!(theirs.len() >= 4, "{name}: a head, pages, device state, a tail");
    }
}

#[test]
fn what_a_host_of_version_5_does_not_know_is_said_in_its_words() {
    let busy = Refusal::Busy { host: "b".to_owned(), vm: "pbx".to_owned(), copies: 2 };
    for ours in [busy, Refusal::Leaving { host: "b".to_owned() }] {
        let Message::Refuse { refusal, .. } =
            &read_version_5(&for_version_5(&Message::Refuse { term: TERM, refusal: ours.clone() }))[0]
        else {
            panic!("another message")
        };
        assert_eq!((refusal.to_string(), refusal.hint()), (ours.to_string(), ours.hint()));
        assert!(matches!(refusal, Refusal::Other { .. }));
    }
}

/// What TLS of version 5 was set up with: the same, but for the versions that are offered.
struct Files {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn files(identity: &Identity) -> Files {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&identity.ca).unwrap()).unwrap();
    Files {
        roots: Arc::new(roots),
        chain: vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()],
        key: PrivateKeyDer::from_pem_file(&identity.key).unwrap(),
    }
}

fn connector(identity: &Identity, alpn_names: &[&[u8]]) -> TlsConnector {
    let Files { roots, chain, key } = files(identity);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = alpn_names.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

fn acceptor(identity: &Identity, alpn_names: &[&[u8]]) -> TlsAcceptor {
    let Files { roots, chain, key } = files(identity);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider)).build().unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = alpn_names.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn local() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_host_of_version_5_is_received_and_hears_its_own_version() {
    let authority = Authority::new("ours");
    let (a, b) = (authority.host(&["a", "127.0.0.9"]), authority.host(&["b", "127.0.0.1"]));
    let golden = golden();
    let (listener, port) = local().await;
    let old = async {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut stream = connector(&a, &[]).connect(name, stream).await.unwrap();
        let mut greeting = [0; GREETING.len()];
        stream.read_exact(&mut greeting).await.unwrap();
        assert_eq!(&greeting, GREETING);
        stream.write_all(&golden["hello"]).await.unwrap();
        let mut answer = vec![0; golden["welcome"].len()];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, golden["welcome"]);
    };
    let new = async {
        let stream = listener.accept().await.unwrap().0.into_std().unwrap();
        let link = accept(AcceptedStream::Tcp(stream), Some(&b)).await.unwrap();
        assert_eq!(link.version(), ProtocolVersion::PREVIOUS);
        let (sender, mut receiver) = link.split();
        let all = messages();
        assert_eq!(receiver.receive().await.unwrap(), all[0].1);
        sender.send(&all[1].1).await.unwrap();
        sender.close().await.unwrap();
    };
    tokio::join!(old, new);
}

#[tokio::test]
async fn a_host_of_version_5_is_asked_in_its_own_version() {
    let authority = Authority::new("ours");
    let (a, b) = (authority.host(&["a", "127.0.0.9"]), authority.host(&["b", "127.0.0.1"]));
    let golden = golden();
    let (listener, port) = local().await;
    let old = async {
        let stream = listener.accept().await.unwrap().0;
        let mut stream = acceptor(&b, &[]).accept(stream).await.unwrap();
        stream.write_all(GREETING).await.unwrap();
        let mut hello = vec![0; golden["hello"].len()];
        stream.read_exact(&mut hello).await.unwrap();
        assert_eq!(hello, golden["hello"]);
        stream.write_all(&golden["welcome"]).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let new = async {
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
        let link = connect(&endpoint, Some(&a)).await.unwrap();
        assert_eq!(link.version(), ProtocolVersion::PREVIOUS);
        let (sender, mut receiver) = link.split();
        sender.send(&messages()[0].1).await.unwrap();
        let Message::Welcome(welcome) = receiver.receive().await.unwrap() else { panic!("another message") };
        assert_eq!(welcome.qemu_version, None);
    };
    tokio::join!(old, new);
}

#[tokio::test]
async fn the_newest_version_that_both_speak_is_spoken() {
    let authority = Authority::new("ours");
    let (a, b) = (authority.host(&["a", "127.0.0.9"]), authority.host(&["b", "127.0.0.1"]));
    let offers: [(&[&[u8]], Option<ProtocolVersion>); 4] = [
        (&[b"stealtime-replicator/7", b"stealtime-replicator/6"], Some(ProtocolVersion::NEWEST)),
        (&[b"stealtime-replicator/6", b"stealtime-replicator/5"], Some(ProtocolVersion::NEWEST)),
        (&[b"stealtime-replicator/5", b"stealtime-replicator/4"], Some(ProtocolVersion::PREVIOUS)),
        (&[b"stealtime-replicator/8", b"stealtime-replicator/7"], None),
    ];
    for (offered, agreed) in offers {
        let (listener, port) = local().await;
        let theirs = async {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            // Its end is closed when all is said.
            connector(&a, offered).connect(name, stream).await
        };
        let ours = async {
            let stream = listener.accept().await.unwrap().0.into_std().unwrap();
            accept(AcceptedStream::Tcp(stream), Some(&b)).await
        };
        let (_theirs, ours) = tokio::join!(theirs, ours);
        match agreed {
            Some(version) => assert_eq!(ours.unwrap().version(), version, "{offered:?}"),
            None => assert!(matches!(ours.unwrap_err(), LinkError::OtherRelease { .. })),
        }
        let (listener, port) = local().await;
        let theirs = async {
            let stream = listener.accept().await.unwrap().0;
            let mut stream = acceptor(&b, offered).accept(stream).await?;
            stream.write_all(GREETING).await?;
            stream.flush().await?;
            std::io::Result::Ok(stream)
        };
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
        let (_theirs, ours) = tokio::join!(theirs, connect(&endpoint, Some(&a)));
        if let Some(version) = agreed {
            assert_eq!(ours.unwrap().version(), version, "{offered:?}");
        } else {
            let error = ours.unwrap_err();
            assert!(matches!(error, LinkError::OtherRelease { .. }), "{error:?}");
            assert!(error.hint().unwrap().contains("two that follow each other"));
        }
    }
}
