//! What one host asks another about a machine, and the answer.

use serde::{Deserialize, Serialize};
use stealtime_succession::{MemberId, Term};

use crate::hello::Offer;
use crate::refusal::Refusal;

/// A question on a member of the host that is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inquire {
    /// The asking member's term.
    #[serde(skip)]
    pub term: Term,
    pub host: String,
    /// The virtual machine.
    pub vm: String,
    pub member: MemberId,
    /// Whether the answer is to tell who lives in the machine's folder; a host of protocol version 5 does not.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wants_living: bool,
    /// A machine on which the answer is to tell whether the host would take it; one of protocol version 5 does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<Offer>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What its host knows of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    #[serde(skip)]
    pub term: Term,
    /// Whether its process has ended: nobody lives in the folder of its machine.
    pub is_over: bool,
    /// Who lives there, if that was asked and is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub living: Option<Living>,
    /// Whether the host would take the machine, if that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// Whether a host would take a machine, as far as that can be said before it comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Verdict {
    Takes,
    Refuses(Refusal),
}

/// A member that lives on the host that was asked, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Living {
    pub member: MemberId,
    /// The newest term that it knows.
    pub term: Term,
    /// What it is, as its status says.
    pub role: String,
}
