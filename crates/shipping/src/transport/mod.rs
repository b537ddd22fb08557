//! Links between two members: a unix socket, or TCP with mutual TLS.
//!
//! TCP is never used bare: whoever could connect could read the guest's memory, or put one of his own in its
//! place. Both sides show a certificate of the same private authority; the connecting side demands that it
//! names the host of the endpoint, and the accepting side can ask [`Link::vouches_for`] the host that the
//! hello names.

mod connection;
mod endpoint;
mod error;
mod identity;
mod link;
mod socket;

pub use connection::{AcceptedStream, Listener, accept, connect};
pub use endpoint::{Endpoint, EndpointError};
pub use error::LinkError;
pub use identity::{CertificateEnd, Identity, IdentityError};
pub use link::{Link, LinkReceiver, LinkSender};
