//! Why there is no link, or no longer one.

use std::io;
use std::time::Duration;

use super::identity::IdentityError;
use crate::frame::{FrameError, OTHER_RELEASE};
use crate::message::MessageError;

/// Why there is no link, or no longer one. `peer` is the endpoint or address of the other side.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("cannot connect to {peer}")]
    Connect { peer: String, source: io::Error },
    #[error("cannot listen on {endpoint}")]
    Listen { endpoint: String, source: io::Error },
    #[error("{peer} did not complete the connection within {} s", limit.as_secs_f64())]
    Silent {
        peer: String,
        /// How long was waited.
        limit: Duration,
    },
    #[error("{peer} is reached over TCP, and there is no identity to show it")]
    NoIdentity { peer: String },
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("the certificate of {peer} is refused: {reason}")]
    PeerCertificate {
        peer: String,
        /// Why, in the words of the TLS library.
        reason: String,
    },
    #[error("{peer} refuses the certificate of this host: {reason}")]
    OwnCertificate {
        peer: String,
        /// The alert that it sent.
        reason: String,
    },
    #[error("{peer} speaks no version of the protocol that this host speaks")]
    OtherRelease { peer: String },
    #[error("{peer} does not speak TLS")]
    Plain { peer: String },
    #[error("no TLS connection to {peer}: {reason}")]
    Tls {
        peer: String,
        /// Why, in the words of the TLS library.
        reason: String,
    },
    #[error("the descriptor is no unix or TCP socket of the kind that is wanted")]
    Descriptor { source: io::Error },
    #[error("{peer} sent what is no message")]
    Message { peer: String, source: MessageError },
    #[error(transparent)]
    Unsendable(MessageError),
    #[error("{peer} closed the connection")]
    Closed { peer: String },
    #[error("the connection to {peer} broke: {reason}")]
    Broken { peer: String, reason: String },
}

/// Why reading or writing failed. Of a peer that is gone without a word the TLS library says in which page of its
/// documentation one reads on.
pub(super) fn in_our_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "its other end is gone without closing it".to_owned(),
        _ => error.to_string(),
    }
}

impl LinkError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Connect { .. } | Self::Silent { .. } => {
                "is `stealtime-replicator host` running there, and does a firewall let the port through?"
            }
            Self::Listen { .. } => "is another `stealtime-replicator host` listening there?",
            Self::NoIdentity { .. } => {
                "give `identity` with ca, certificate and key; on one machine, a unix: endpoint needs none"
            }
            Self::Identity(error) => error.hint(),
            Self::PeerCertificate { .. } => {
                "both hosts need certificates of the same authority, in date, that name the host as the endpoint does"
            }
            Self::OwnCertificate { .. } => {
                "the other host must trust the authority that signed this host's certificate"
            }
            Self::OtherRelease { .. } => OTHER_RELEASE,
            Self::Plain { .. } => "check the address, and that the other host was given an identity",
            Self::Message { source: MessageError::Frame(error), .. } => FrameError::hint(error),
            _ => return None,
        })
    }
}
