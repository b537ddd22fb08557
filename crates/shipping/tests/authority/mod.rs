//! Certificate authorities of a test, and the identities that they sign.

#![allow(dead_code, reason = "each test uses its part")]

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use stealtime_shipping::Identity;
use tempfile::TempDir;

/// An authority with a folder of PEM files.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A host that goes by these names and addresses.
    pub fn host(&self, names: &[&str]) -> Identity {
        self.sign(names, |_| {})
    }

    /// A host whose certificate has run out.
    pub fn expired(&self, names: &[&str]) -> Identity {
        self.sign(names, |params| params.not_after = date_time_ymd(2001, 1, 1))
    }

    fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |part| self.folder.path().join(format!("{}-{part}.pem", names.join("-")));
        std::fs::write(file("certificate"), certificate.pem()).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        Identity { ca: self.ca(), certificate: file("certificate"), key: file("key") }
    }
}
