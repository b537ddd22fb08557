//! What of a guest's output waits for the standby.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How a virtual machine is protected; named in every result.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Not at all: the guest runs alone.
    #[default]
    #[serde(rename = "off")]
    Off,
    /// Checkpointed, output leaves at once: a failover may lose state that a client has seen.
    #[serde(rename = "no-net")]
    NoNet,
    /// All output waits until the standby has acknowledged its epoch.
    #[serde(rename = "net")]
    Net,
    /// As `net`, but flows that the rules name leave at once.
    #[serde(rename = "net+bypass")]
    NetBypass,
}

/// A mode that does not exist.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("\"{0}\" is no mode of protection: it is one of off, no-net, net, net+bypass")]
pub struct UnknownMode(pub String);

impl Mode {
    /// All modes, from the least to the most that is held.
    pub const ALL: [Self; 4] = [Self::Off, Self::NoNet, Self::NetBypass, Self::Net];

    /// Whether output waits for an acknowledgement.
    #[must_use]
    pub fn gates_on_ack(self) -> bool {
        matches!(self, Self::Net | Self::NetBypass)
    }

    /// The mode as a user writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::NoNet => "no-net",
            Self::Net => "net",
            Self::NetBypass => "net+bypass",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_written_and_read_the_same_everywhere() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{mode}\""));
            assert_eq!(serde_json::from_str::<Mode>(&format!("\"{mode}\"")).unwrap(), mode);
        }
        assert_eq!("Net".parse::<Mode>(), Err(UnknownMode("Net".to_owned())));
    }
}
