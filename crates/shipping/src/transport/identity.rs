//! The identity of a host, and the authority that it trusts: PEM files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::version::ProtocolVersion;

/// The PEM files of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The certificate of the authority that signs the certificates of all hosts.
    pub ca: PathBuf,
    /// This host's certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Which certificates of the authority are not to be trusted any more: its revocation lists.
    #[serde(default)]
    pub revoked: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateEnd {
    /// In seconds since 1970.
    pub unix_s: i64,
    /// The file that holds it.
    pub path: PathBuf,
}

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} holds no {what}: {reason}", path.display())]
    Content {
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What the reader said.
        reason: String,
    },
    #[error("{} cannot be used with {}: {reason}", certificate.display(), key.display())]
    Mismatch {
        certificate: PathBuf,
        key: PathBuf,
        /// Why, in the words of the TLS library.
        reason: String,
    },
}

impl IdentityError {
    /// What the user may do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "check `identity` in the specification, and the permissions of the file",
            Self::Content { .. } => {
                "the files of `identity` are PEM: BEGIN CERTIFICATE, BEGIN PRIVATE KEY, `revoked` BEGIN X509 CRL"
            }
            Self::Mismatch { .. } => "the key must be the one that the certificate was made for",
        }
    }
}

/// What the files of an identity hold.
struct Loaded {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    revocations: Vec<CertificateRevocationListDer<'static>>,
}

fn refuse(path: &Path, what: &'static str, error: &pem::Error) -> IdentityError {
    match error {
        pem::Error::Io(source) => {
            let source = source.raw_os_error().map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
            IdentityError::Read { path: path.to_owned(), source }
        }
        other => IdentityError::Content { path: path.to_owned(), what, reason: other.to_string() },
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    all_of(path, "certificate")
}

/// All of one kind in a file; one that has none is another file than its name says.
fn all_of<T: PemObject>(path: &Path, what: &'static str) -> Result<Vec<T>, IdentityError> {
    let found = T::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refuse(path, what, &error))?;
    if found.is_empty() {
        let reason = "there is none in it".to_owned();
        return Err(IdentityError::Content { path: path.to_owned(), what, reason });
    }
    Ok(found)
}

impl Identity {
    /// Says which of the certificates that this host shows or trusts ends first.
    ///
    /// # Errors
    /// [`IdentityError`] if a file is not there or holds something else, or the key is of another certificate.
    pub fn first_end(&self) -> Result<CertificateEnd, IdentityError> {
        self.client()?;
        let mut first = CertificateEnd { unix_s: i64::MAX, path: self.certificate.clone() };
        for path in [&self.certificate, &self.ca] {
            for content in certificates(path)? {
                let (_, certificate) = x509_parser::parse_x509_certificate(&content).map_err(|error| {
                    IdentityError::Content { path: path.clone(), what: "certificate", reason: error.to_string() }
                })?;
                let unix_s = certificate.validity().not_after.timestamp();
                if unix_s < first.unix_s {
                    first = CertificateEnd { unix_s, path: path.clone() };
                }
            }
        }
        Ok(first)
    }

    fn load(&self) -> Result<Loaded, IdentityError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            roots.add(certificate).map_err(|error| IdentityError::Content {
                path: self.ca.clone(),
                what: "certificate of an authority",
                reason: error.to_string(),
            })?;
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| refuse(&self.key, "private key", &error))?;
        let revocations = self.revoked.as_deref().map_or(Ok(Vec::new()), |path| all_of(path, "revocation list"))?;
        Ok(Loaded { roots: Arc::new(roots), chain: certificates(&self.certificate)?, key, revocations })
    }

    /// The authority or its lists.
    fn unusable(&self, error: &dyn std::error::Error) -> IdentityError {
        let (path, what) = match &self.revoked {
            Some(path) => (path.clone(), "revocation list of the authority"),
            None => (self.ca.clone(), "certificate of an authority"),
        };
        IdentityError::Content { path, what, reason: error.to_string() }
    }

    fn mismatch(&self, error: &dyn std::error::Error) -> IdentityError {
        let (certificate, key) = (self.certificate.clone(), self.key.clone());
        IdentityError::Mismatch { certificate, key, reason: error.to_string() }
    }

    /// Reads the files for a host that connects.
    pub(super) fn client(&self) -> Result<Arc<ClientConfig>, IdentityError> {
        let Loaded { roots, chain, key, revocations } = self.load()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // An authority beside ours may have no list.
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .with_crls(revocations)
            .allow_unknown_revocation_status()
            .only_check_end_entity_revocation()
            .build()
            .map_err(|error| self.unusable(&error))?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| self.mismatch(&error))?
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(chain, key)
            .map_err(|error| self.mismatch(&error))?;
        config.alpn_protocols = ProtocolVersion::alpn_names();
        Ok(Arc::new(config))
    }

    /// Reads the files for a host that accepts; it demands a certificate of whoever connects.
    pub(super) fn server(&self) -> Result<Arc<ServerConfig>, IdentityError> {
        let Loaded { roots, chain, key, revocations } = self.load()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .with_crls(revocations)
            .allow_unknown_revocation_status()
            .only_check_end_entity_revocation()
            .build()
            .map_err(|error| self.unusable(&error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| self.mismatch(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|error| self.mismatch(&error))?;
        config.alpn_protocols = ProtocolVersion::alpn_names();
        // Links live for days: a session is never resumed, and each connection shows its certificate anew.
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}
