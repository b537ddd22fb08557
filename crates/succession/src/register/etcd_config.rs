//! Where etcd is, and by what it knows who asks.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdConfig {
    /// `http://host:port` or `https://host:port`; tried in turn.
    pub endpoints: Vec<String>,
    /// For `https`.
    #[serde(default)]
    pub identity: Option<EtcdIdentity>,
    /// Where etcd's authentication is on.
    #[serde(default)]
    pub login: Option<EtcdLogin>,
    /// Whether `http` may go further than loopback: whoever is on the way may then decide who is active.
    #[serde(default)]
    pub insecure: bool,
}

/// A user of etcd's authentication.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EtcdLogin {
    pub user: String,
    /// Holds its password, without or with a line end; read for each token.
    pub password_file: PathBuf,
}

/// Files in PEM form.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdIdentity {
    /// Who signs the servers' certificates.
    pub ca: PathBuf,
    /// What is shown to the servers.
    pub certificate: PathBuf,
    pub key: PathBuf,
}
