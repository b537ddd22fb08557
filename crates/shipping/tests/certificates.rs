//! Certificates that are refused, and the error that each side reports.

use stealtime_shipping::{
    AcceptedStream, CertificateEnd, Endpoint, Identity, IdentityError, Link, LinkError, accept, connect,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::authority::Authority;

async fn listen() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, Endpoint::Tcp { host: "127.0.0.1".to_owned(), port })
}

async fn accept_one(listener: &TcpListener, identity: Option<&Identity>) -> Result<Link, LinkError> {
    let stream = listener.accept().await.unwrap().0.into_std().unwrap();
    accept(AcceptedStream::Tcp(stream), identity).await
}

/// What the connecting and the accepting host say.
async fn refused(client: &Identity, server: &Identity) -> (LinkError, LinkError) {
    let (listener, endpoint) = listen().await;
    let (connected, accepted) = tokio::join!(connect(&endpoint, Some(client)), accept_one(&listener, Some(server)));
    (connected.unwrap_err(), accepted.unwrap_err())
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let (client, server) = refused(&ours.host(&["a"]), &others.host(&["127.0.0.1"])).await;
    assert!(
        matches!(&client, LinkError::PeerCertificate { reason, .. } if reason.contains("UnknownIssuer")),
        "{client}"
    );
    assert!(client.to_string().starts_with("the certificate of tcp:127.0.0.1:"), "{client}");
    assert!(matches!(&server, LinkError::OwnCertificate { .. }), "{server}");
}

#[tokio::test]
async fn an_authority_that_has_only_the_name_of_ours_is_refused() {
    let (ours, imposter) = (Authority::new("ours"), Authority::new("ours"));
    let (client, server) = refused(&ours.host(&["a"]), &imposter.host(&["127.0.0.1"])).await;
    assert!(matches!(&client, LinkError::PeerCertificate { .. }), "{client}");
    assert!(matches!(&server, LinkError::OwnCertificate { .. }), "{server}");
}

#[tokio::test]
async fn a_client_of_another_authority_is_refused() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let server = ours.host(&["127.0.0.1"]);
    let client = Identity { ca: ours.ca(), ..others.host(&["a"]) };
    let (client, server) = refused(&client, &server).await;
    assert!(
        matches!(&server, LinkError::PeerCertificate { reason, .. } if reason.contains("UnknownIssuer")),
        "{server}"
    );
    assert!(matches!(&client, LinkError::OwnCertificate { .. }), "{client}");
    assert!(client.to_string().contains("refuses the certificate of this host"), "{client}");
}

#[tokio::test]
async fn a_server_with_the_certificate_of_another_host_is_refused() {
    let authority = Authority::new("ours");
    let (client, _) = refused(&authority.host(&["a"]), &authority.host(&["b.example", "127.0.0.2"])).await;
    assert!(matches!(&client, LinkError::PeerCertificate { reason, .. } if reason.contains("127.0.0.2")), "{client}");
}

#[tokio::test]
async fn certificates_that_were_revoked_are_refused_by_either_side() {
    let authority = Authority::new("ours");
    let (client, server) = (authority.host(&["a"]), authority.host(&["127.0.0.1"]));
    let with_list = |identity: &Identity, list| Identity { revoked: Some(list), ..identity.clone() };
    let (_, error) = refused(&client, &with_list(&server, authority.revoke(&["a"]))).await;
    assert!(matches!(&error, LinkError::PeerCertificate { reason, .. } if reason.contains("Revoked")), "{error}");
    let (error, _) = refused(&with_list(&client, authority.revoke(&["127.0.0.1"])), &server).await;
    assert!(matches!(&error, LinkError::PeerCertificate { reason, .. } if reason.contains("Revoked")), "{error}");
    // Another one of this host is not on the list, nor is one of an authority without a list.
    let renewed = authority.host(&["a", "a.example"]);
    let (listener, endpoint) = listen().await;
    let server = with_list(&server, authority.revoke(&["a"]));
    let (connected, accepted) = tokio::join!(connect(&endpoint, Some(&renewed)), accept_one(&listener, Some(&server)));
    assert!(connected.is_ok() && accepted.is_ok());
}

#[tokio::test]
async fn a_list_of_revocations_that_is_none_is_no_list_of_nothing() {
    let authority = Authority::new("ours");
    let client = authority.host(&["a"]);
    let server = Identity { revoked: Some(authority.ca()), ..authority.host(&["127.0.0.1"]) };
    let (listener, endpoint) = listen().await;
    let (_, accepted) = tokio::join!(connect(&endpoint, Some(&client)), accept_one(&listener, Some(&server)));
    let error = accepted.unwrap_err().to_string();
    assert!(error.contains("holds no revocation list: there is none in it"), "{error}");
}

#[tokio::test]
async fn certificates_that_have_run_out_are_refused() {
    let authority = Authority::new("ours");
    let (client, server) = (authority.host(&["a"]), authority.host(&["127.0.0.1"]));
    let (_, error) = refused(&authority.expired(&["old"]), &server).await;
    assert!(matches!(&error, LinkError::PeerCertificate { reason, .. } if reason.contains("expired")), "{error}");
    let (error, _) = refused(&client, &authority.expired(&["127.0.0.1"])).await;
    assert!(matches!(&error, LinkError::PeerCertificate { reason, .. } if reason.contains("expired")), "{error}");
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let authority = Authority::new("ours");
    let server = authority.host(&["127.0.0.1"]);
    let (listener, _) = listen().await;
    let address = listener.local_addr().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    let ca = std::fs::read(authority.ca()).unwrap();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(&ca).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let anonymous = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(anonymous));
    let (_, accepted) = tokio::join!(
        async {
            let stream = TcpStream::connect(address).await.unwrap();
            connector.connect(address.ip().into(), stream).await
        },
        accept_one(&listener, Some(&server))
    );
    let error = accepted.unwrap_err();
    assert!(matches!(&error, LinkError::PeerCertificate { reason, .. } if reason == "it shows none"), "{error}");
}

#[tokio::test]
async fn peers_without_tls_are_named_on_both_sides() {
    let authority = Authority::new("ours");
    let (client, server) = (authority.host(&["a"]), authority.host(&["127.0.0.1"]));
    let (listener, endpoint) = listen().await;
    let address = listener.local_addr().unwrap();
    let (_plain, accepted) = tokio::join!(
        async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: standby.example\r\n\r\n").await.unwrap();
            stream
        },
        accept_one(&listener, Some(&server))
    );
    let error = accepted.unwrap_err();
    assert!(matches!(&error, LinkError::Plain { .. }), "{error}");
    assert!(error.to_string().ends_with("does not speak TLS"), "{error}");

    let (connected, ()) = tokio::join!(connect(&endpoint, Some(&client)), async {
        let mut stream = listener.accept().await.unwrap().0;
        stream.write_all(b"220 mail.example ESMTP ready\r\n").await.unwrap();
        // Until the client hangs up: an early end would be another error.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let error = connected.unwrap_err();
    assert!(matches!(&error, LinkError::Plain { .. }), "{error}");
}

#[tokio::test]
async fn tcp_without_an_identity_is_refused_by_either_side() {
    let (listener, endpoint) = listen().await;
    let error = connect(&endpoint, None).await.unwrap_err();
    assert!(matches!(&error, LinkError::NoIdentity { .. }), "{error}");
    let (_stream, accepted) =
        tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), accept_one(&listener, None));
    let error = accepted.unwrap_err();
    assert!(matches!(&error, LinkError::NoIdentity { .. }), "{error}");
    assert!(error.hint().unwrap().contains("identity"));
}

#[tokio::test]
async fn files_that_are_no_identity_are_named() {
    let authority = Authority::new("ours");
    let (good, other) = (authority.host(&["127.0.0.1"]), authority.host(&["b"]));
    let empty = authority.folder().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let missing = authority.folder().join("missing.pem");
    let (_listener, endpoint) = listen().await;
    for (identity, said) in [
        (Identity { ca: missing.clone(), ..good.clone() }, format!("cannot read {}", missing.display())),
        (Identity { key: missing.clone(), ..good.clone() }, format!("cannot read {}", missing.display())),
        (Identity { certificate: empty.clone(), ..good.clone() }, format!("{} holds no certificate", empty.display())),
        (Identity { key: good.certificate.clone(), ..good.clone() }, "holds no private key".to_owned()),
        (Identity { key: other.key.clone(), ..good.clone() }, "cannot be used with".to_owned()),
    ] {
        let error = connect(&endpoint, Some(&identity)).await.unwrap_err();
        assert!(matches!(error, LinkError::Identity(_)), "{error}");
        assert!(error.to_string().contains(&said), "{error} is not {said}");
        assert!(error.hint().is_some());
    }
}

#[test]
fn the_first_certificate_that_ends_is_told() {
    let authority = Authority::new("ours");
    let expired = authority.expired(&["a"]);
    // 2001-01-01, 00:00 UTC.
    let end = CertificateEnd { unix_s: 978_307_200, path: expired.certificate.clone() };
    assert_eq!(expired.first_end().unwrap(), end);
    let end = authority.host(&["b"]).first_end().unwrap();
    assert!(end.unix_s > 4_000_000_000, "the default of the library is far away");
    let missing = Identity { ca: "/nowhere/ca.pem".into(), ..expired.clone() };
    assert!(missing.first_end().unwrap_err().to_string().contains("/nowhere/ca.pem"));
    let mixed = Identity { key: authority.host(&["c"]).key, ..expired };
    assert!(matches!(mixed.first_end().unwrap_err(), IdentityError::Mismatch { .. }));
}
