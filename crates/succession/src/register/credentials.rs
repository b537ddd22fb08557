//! The certificates that are shown to etcd: they are renewed while members run, so their files are read again when they
//! have changed. What cannot be used is not taken, such as a certificate whose key is not there yet: then it goes on
//! with what was read before.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use super::etcd_config::EtcdIdentity;
use crate::RegisterError;

/// Files in PEM form, as they were read last.
#[derive(Debug)]
pub(super) struct Credentials {
    identity: EtcdIdentity,
    seen: [Option<Stamp>; 3],
}

/// What changes with each change of a file, also where another one was moved into its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self { inode: file.ino(), bytes: file.size(), changed: (file.ctime(), file.ctime_nsec()) })
    }
}

impl Credentials {
    pub fn read(identity: &EtcdIdentity) -> Result<(Self, TlsConfig), RegisterError> {
        // Before they are read: what changes meanwhile is read again.
        let seen = stamps(identity);
        let config = tls_config(identity)?;
        Ok((Self { identity: identity.clone(), seen }, config))
    }

    /// What they hold, if they have changed since they were read and can be used.
    pub fn renewed(&mut self) -> Option<TlsConfig> {
        if stamps(&self.identity) == self.seen {
            return None;
        }
        let (read, config) = Self::read(&self.identity).ok()?;
        *self = read;
        Some(config)
    }
}

fn stamps(identity: &EtcdIdentity) -> [Option<Stamp>; 3] {
    [&identity.ca, &identity.certificate, &identity.key].map(|path| Stamp::of(path))
}

fn tls_config(identity: &EtcdIdentity) -> Result<TlsConfig, RegisterError> {
    let authority = certificates(&identity.ca)?;
    let chain = certificates(&identity.certificate)?;
    let pem = contents(&identity.key)?;
    let key = PrivateKey::from_pem(&pem).map_err(|error| {
        RegisterError::Setup(format!("{} holds no private key in PEM form: {error}", identity.key.display()))
    })?;
    check_pair(identity, &chain, &pem)?;
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&authority))
        .client_cert(Some(ClientCert::new_with_certs(&chain, key)))
        .build())
}

/// Sees that the key is that of the certificate: ureq 3.5 panics at the first connection where it is not.
fn check_pair(identity: &EtcdIdentity, chain: &[Certificate<'static>], key: &[u8]) -> Result<(), RegisterError> {
    let (certificate_file, key_file) = (identity.certificate.display(), identity.key.display());
    let refuse = |reason: String| RegisterError::Setup(format!("{certificate_file} and {key_file}: {reason}"));
    let chain = chain.iter().map(|certificate| CertificateDer::from(certificate.der().to_vec())).collect();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| refuse(error.to_string()))?;
    CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())
        .map(drop)
        .map_err(|error| refuse(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, RegisterError> {
    let found: Vec<_> = parse_pem(&contents(path)?)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() {
        return Err(RegisterError::Setup(format!("{} holds no certificate in PEM form", path.display())));
    }
    Ok(found)
}

/// A file of the register's configuration.
pub(super) fn contents(path: &Path) -> Result<Vec<u8>, RegisterError> {
    fs::read(path).map_err(|error| RegisterError::Setup(format!("{} cannot be read: {error}", path.display())))
}
