//! Which flows need not wait for their epoch, and what may never be such a flow.
//!
//! A rule is JSON: `{"protocol": "udp", "source_port": "30000-40000", "dscp": 46}`. A frame passes if all
//! fields of one rule match it. To hold all but the media of a call is the idea of Hlavacek and Bestak, "Live
//! Replication of Virtualized `VoIP` Servers" (ICCGI 2013).
//!
//! The safety rule: a flow may skip the hold only if no peer may take its packets for proof of a state that
//! was kept, and if going back behind them does no harm. So only UDP can be named, a rule must name ports or
//! a DSCP, and the ports in [`NEVER_BYPASS_PORTS`] are held whatever the rules say. RTCP is recognised and
//! held too: its BYE tells a peer that a stream ended, and after going back that would be untrue.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::classifier::Datagram;

/// UDP ports whose packets tell a peer of a state that was kept, with their use.
pub const NEVER_BYPASS_PORTS: [(u16, &str); 7] =
    [(53, "DNS"), (67, "DHCP"), (68, "DHCP"), (546, "DHCPv6"), (547, "DHCPv6"), (5060, "SIP"), (5061, "SIP over TLS")];

const HIGHEST_DSCP: u8 = 63;

/// A rule that cannot be, or must not be.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BypassError {
    /// Not JSON, an unknown field, or a value of the wrong kind.
    #[error("a bypass rule cannot be read: {0}")]
    Unreadable(String),
    #[error(
        "a bypass rule names protocol {0:?}, but only \"udp\" may bypass the hold: a peer takes a packet of a \
         connection, a call or a neighbour for proof of a state that could still be lost"
    )]
    Protocol(String),
    #[error("a bypass rule needs a source_port, a destination_port or a dscp: else all UDP would bypass the hold")]
    TooWide,
    #[error(
        "a bypass rule has {field} {range}, which contains port {port} ({usage}): its packets tell a peer of a \
         state that could still be lost, so they are always held"
    )]
    HeldPort {
        field: &'static str,
        range: PortRange,
        /// The port that is always held.
        port: u16,
        usage: &'static str,
    },
    #[error("{0:?} is no port range: write a port such as 40000, or a range such as 30000-40000")]
    PortRange(String),
    #[error("dscp {0} is above {HIGHEST_DSCP}: write the six-bit code point, such as 46 for expedited forwarding")]
    Dscp(u8),
    /// What every packet without a mark has.
    #[error("dscp 0 is what unmarked packets have, so it needs a source_port or a destination_port beside it")]
    DscpOfUnmarked,
}

/// Ports from the first to the last, both included.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "PortText", into = "String")]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Ports from `first` to `last`.
    ///
    /// # Errors
    /// [`BypassError::PortRange`] if the range is empty or has port 0, which no datagram of use has.
    pub fn new(first: u16, last: u16) -> Result<Self, BypassError> {
        if first == 0 || first > last {
            return Err(BypassError::PortRange(format!("{first}-{last}")));
        }
        Ok(Self { first, last })
    }

    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = BypassError;

    fn from_str(text: &str) -> Result<Self, BypassError> {
        let unreadable = || BypassError::PortRange(text.to_owned());
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |part: &str| part.trim().parse::<u16>().map_err(|_| unreadable());
        Self::new(port(first)?, port(last)?).map_err(|_| unreadable())
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(formatter, "{}", self.first)
        } else {
            write!(formatter, "{}-{}", self.first, self.last)
        }
    }
}

impl From<PortRange> for String {
    fn from(range: PortRange) -> Self {
        range.to_string()
    }
}

/// A port range as it may be written: `40000`, `"40000"` or `"30000-40000"`.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum PortText {
    Port(u16),
    Text(String),
}

impl TryFrom<PortText> for PortRange {
    type Error = BypassError;

    fn try_from(text: PortText) -> Result<Self, BypassError> {
        match text {
            PortText::Port(port) => Self::new(port, port),
            PortText::Text(text) => text.parse(),
        }
    }
}

/// The fields of a rule before they are checked.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuleFields {
    #[schemars(extend("const" = "udp"))]
    protocol: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_port: Option<PortRange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination_port: Option<PortRange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dscp: Option<u8>,
}

/// One flow that need not wait. It can only be made by reading and checking.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "RuleFields", into = "RuleFields")]
pub struct BypassRule {
    source_port: Option<PortRange>,
    destination_port: Option<PortRange>,
    dscp: Option<u8>,
}

impl TryFrom<RuleFields> for BypassRule {
    type Error = BypassError;

    fn try_from(fields: RuleFields) -> Result<Self, BypassError> {
        if !fields.protocol.eq_ignore_ascii_case("udp") {
            return Err(BypassError::Protocol(fields.protocol));
        }
        let ports = [("source_port", fields.source_port), ("destination_port", fields.destination_port)];
        for (field, range) in ports {
            let Some(range) = range else { continue };
            for (port, usage) in NEVER_BYPASS_PORTS {
                if range.contains(port) {
                    return Err(BypassError::HeldPort { field, range, port, usage });
                }
            }
        }
        let has_ports = ports.iter().any(|(_, range)| range.is_some());
        match fields.dscp {
            Some(dscp) if dscp > HIGHEST_DSCP => return Err(BypassError::Dscp(dscp)),
            Some(0) if !has_ports => return Err(BypassError::DscpOfUnmarked),
            None if !has_ports => return Err(BypassError::TooWide),
            Some(_) | None => {}
        }
        Ok(Self { source_port: fields.source_port, destination_port: fields.destination_port, dscp: fields.dscp })
    }
}

impl From<BypassRule> for RuleFields {
    fn from(rule: BypassRule) -> Self {
        Self {
            protocol: "udp".to_owned(),
            source_port: rule.source_port,
            destination_port: rule.destination_port,
            dscp: rule.dscp,
        }
    }
}

impl FromStr for BypassRule {
    type Err = BypassError;

    /// Read a rule from JSON.
    fn from_str(text: &str) -> Result<Self, BypassError> {
        let fields: RuleFields =
            serde_json::from_str(text).map_err(|error| BypassError::Unreadable(error.to_string()))?;
        fields.try_into()
    }
}

impl BypassRule {
    fn matches(&self, datagram: Datagram) -> bool {
        self.source_port.is_none_or(|range| range.contains(datagram.source_port))
            && self.destination_port.is_none_or(|range| range.contains(datagram.destination_port))
            && self.dscp.is_none_or(|dscp| dscp == datagram.dscp)
    }
}

/// The rules of one guest; without any, everything is held.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct BypassRules(Vec<BypassRule>);

impl BypassRules {
    /// These rules; one that matches suffices.
    pub fn new(rules: Vec<BypassRule>) -> Self {
        Self(rules)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `frame` need not wait. What cannot be read to its last header is held.
    pub fn lets_pass(&self, frame: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let Some(datagram) = Datagram::of_frame(frame) else { return false };
        let is_held_port = NEVER_BYPASS_PORTS
            .iter()
            .any(|(port, _)| *port == datagram.source_port || *port == datagram.destination_port);
        !is_held_port && !datagram.is_rtcp && self.0.iter().any(|rule| rule.matches(datagram))
    }
}
