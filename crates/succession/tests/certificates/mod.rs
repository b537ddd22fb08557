//! An authority, and a certificate that it signed for both ends on loopback.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use stealtime_succession::EtcdIdentity;

pub fn make(folder: &Path) -> EtcdIdentity {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);

    let mut member = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    // etcd's gateway calls its own server with the server's certificate, so that must do for a client as
    // well.
    member.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = member.signed_by(&key, &issuer).unwrap();

    let write = |name: &str, content: String| {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    EtcdIdentity {
        ca: write("ca.pem", authority_certificate.pem()),
        certificate: write("member.pem", certificate.pem()),
        key: write("member.key", key.serialize_pem()),
    }
}
