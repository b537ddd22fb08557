//! What the register holds for a virtual machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Term;

/// One life of a member's process on a host, `host@life`.
///
/// The life is a random number drawn at the start of the process. It tells our own write whose answer was
/// lost from that of another process on this host, and a standby that holds a copy from a fresh one that does
/// not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(String);

impl MemberId {
    /// Name the life `life` of a member on `host`.
    #[must_use]
    pub fn new(host: &str, life: u64) -> Self {
        Self(format!("{host}@{life:016x}"))
    }

    /// Take the name as another member wrote it.
    #[must_use]
    pub fn from_wire(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The host without the life.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.rsplit_once('@').map_or(self.0.as_str(), |(host, _)| host)
    }

    /// The whole name, as sent to other members.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Who holds a virtual machine, and who may claim it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Rises with each change of holder or standby.
    pub term: Term,
    /// The member that may be active; none after an orderly stop.
    pub holder: Option<MemberId>,
    /// The only member that may claim.
    pub standby: Option<MemberId>,
    /// Counts the holder's signs of life.
    pub renewals: u64,
    /// The holder has claimed at a planned failover and does not run the guest yet: whoever offered it still has the
    /// guest, stopped, and may take it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taking_over: bool,
    /// Who would take the virtual machine if the holder does not write this record again: it may be dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenger: Option<MemberId>,
}

/// The state of the register that a record was seen in; opaque, and never used twice.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u64);

/// A record, and the version it was seen in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Versioned {
    /// What a compare-and-swap compares.
    pub version: Version,
    pub record: Record,
}

impl Record {
    /// The record of a holder without a standby.
    #[must_use]
    pub fn alone(term: Term, holder: MemberId) -> Self {
        Self { term, holder: Some(holder), standby: None, renewals: 0, taking_over: false, challenger: None }
    }

    /// The same holder and standby in the same term, with one more sign of life and no challenger.
    #[must_use]
    pub fn renewed(&self) -> Self {
        Self { renewals: self.renewals + 1, challenger: None, ..self.clone() }
    }

    /// The same, with somebody who asks whether the holder lives.
    #[must_use]
    pub fn challenged(&self, by: &MemberId) -> Self {
        Self { challenger: Some(by.clone()), ..self.clone() }
    }

    /// The same holder in the same term, which runs the guest from now on.
    #[must_use]
    pub fn running(&self) -> Self {
        Self { taking_over: false, ..self.renewed() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_any_name() {
        assert_eq!(MemberId::new("a@b", 7).as_str(), "a@b@0000000000000007");
        assert_eq!(MemberId::new("a@b", 7).host(), "a@b");
        assert_eq!(MemberId::from_wire("alpha").host(), "alpha");
    }
}
