//! Where a host listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a host listens: `unix:/path` or `tcp:host:port`, an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Endpoint {
    /// A socket file, on the same machine.
    Unix(PathBuf),
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        port: u16,
    },
}

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no endpoint: {reason}")]
pub struct EndpointError {
    text: String,
    reason: &'static str,
}

impl EndpointError {
    /// What the user may do about it.
    pub fn hint(&self) -> &'static str {
        "write unix:/run/stealtime/protect.sock, tcp:standby.example:7411 or tcp:[2001:db8::2]:7411"
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let refuse = |reason| EndpointError { text: text.to_owned(), reason };
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.strip_prefix('/') {
                Some(name) if !name.is_empty() => Ok(Self::Unix(PathBuf::from(path))),
                _ => Err(refuse("the path of a unix socket begins with /")),
            };
        }
        let address = text.strip_prefix("tcp:").ok_or_else(|| refuse("it begins with neither unix: nor tcp:"))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| refuse("there is no port"))?;
        let port = port.parse().ok().filter(|&port| port > 0).ok_or_else(|| refuse("the port is not 1 to 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(|| refuse("a bracket is not closed"))?,
            None if host.contains(':') => return Err(refuse("an IPv6 address belongs in brackets")),
            None => host,
        };
        if host.is_empty() || host.contains(|letter: char| letter.is_whitespace() || "[]/".contains(letter)) {
            return Err(refuse("the host is neither a name nor an address"));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl TryFrom<String> for Endpoint {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, EndpointError> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(formatter, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(formatter, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_written_as_they_were_read() {
        for text in ["unix:/run/a b.sock", "tcp:standby:7411", "tcp:10.77.0.2:1", "tcp:[2001:db8::2]:65535"] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
            let json = serde_json::to_string(&endpoint).unwrap();
            assert_eq!(json, format!("{text:?}"));
            assert_eq!(serde_json::from_str::<Endpoint>(&json).unwrap(), endpoint);
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "it begins with neither unix: nor tcp:"),
            ("/run/a.sock", "it begins with neither unix: nor tcp:"),
            ("unix:", "the path of a unix socket begins with /"),
            ("unix:/", "the path of a unix socket begins with /"),
            ("unix:a.sock", "the path of a unix socket begins with /"),
            ("tcp:standby", "there is no port"),
            ("tcp:standby:", "the port is not 1 to 65535"),
            ("tcp:standby:0", "the port is not 1 to 65535"),
            ("tcp:standby:65536", "the port is not 1 to 65535"),
            ("tcp::7411", "the host is neither a name nor an address"),
            ("tcp:a b:7411", "the host is neither a name nor an address"),
            ("tcp:2001:db8::2:7411", "an IPv6 address belongs in brackets"),
            ("tcp:[2001:db8::2:7411", "a bracket is not closed"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert_eq!(error.to_string(), format!("{text:?} is no endpoint: {reason}"));
        }
    }
}
