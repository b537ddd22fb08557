//! Certificate authorities of a test, and the identities that they sign.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
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
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
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
        params.serial_number = Some(serial(&names.join("-")));
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |part| self.folder.path().join(format!("{}-{part}.pem", names.join("-")));
        std::fs::write(file("certificate"), certificate.pem()).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        Identity { ca: self.ca(), certificate: file("certificate"), key: file("key"), revoked: None }
    }

    /// Write that the certificate for these names is not to be trusted any more.
    pub fn revoke(&self, names: &[&str]) -> PathBuf {
        let revoked = RevokedCertParams {
            serial_number: serial(&names.join("-")),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2026, 1, 2),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.folder.path().join("revoked.pem");
        std::fs::write(&path, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        path
    }
}

/// The number of the certificate for these names.
fn serial(names: &str) -> SerialNumber {
    SerialNumber::from(names.as_bytes().to_vec())
}
