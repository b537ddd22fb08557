//! What etcd's JSON gateway answers. Numbers of 64 bits are strings of digits, and what is zero or empty is left out.

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// What a server showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sight {
    pub cluster: u64,
    /// The number of the server.
    pub member: u64,
    /// Of the whole store.
    pub revision: u64,
    pub vm: String,
    /// The record of that machine.
    pub record: Option<Pair>,
}

/// What an answer shows of the cluster that gave it.
pub(super) trait Answer: DeserializeOwned {
    /// None: nothing.
    fn sight(&self, vm: &str) -> Option<Sight>;
}

/// To a request for a token. It comes before anything is known of the server, and after it that is looked at.
#[derive(Deserialize)]
pub(super) struct Token {
    pub token: String,
}

/// To a range request.
#[derive(Deserialize)]
pub(super) struct Range {
    header: Header,
    #[serde(default)]
    kvs: Vec<Pair>,
}

/// To a transaction, both of whose branches end by reading the key.
#[derive(Deserialize)]
pub(super) struct Transaction {
    header: Header,
    #[serde(default)]
    pub succeeded: bool,
    #[serde(default)]
    responses: Vec<TransactionPart>,
}

#[derive(Deserialize)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    cluster_id: u64,
    #[serde(deserialize_with = "number")]
    member_id: u64,
    /// Of the whole store.
    #[serde(deserialize_with = "number")]
    pub revision: u64,
}

/// What a key holds, and in which revisions that was created and changed last.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Pair {
    #[serde(deserialize_with = "number")]
    pub create_revision: u64,
    #[serde(deserialize_with = "number")]
    pub mod_revision: u64,
    #[serde(default)]
    pub value: String,
}

#[derive(Deserialize)]
struct TransactionPart {
    response_range: Option<KeysFound>,
}

#[derive(Deserialize)]
struct KeysFound {
    #[serde(default)]
    kvs: Vec<Pair>,
}

impl Range {
    pub fn pair(&self) -> Option<&Pair> {
        self.kvs.first()
    }
}

impl Transaction {
    pub fn pair(&self) -> Option<&Pair> {
        self.responses.iter().find_map(|part| part.response_range.as_ref())?.kvs.first()
    }

    pub fn revision(&self) -> u64 {
        self.header.revision
    }
}

impl Header {
    fn sight(&self, vm: &str, record: Option<&Pair>) -> Sight {
        let Self { cluster_id: cluster, member_id: member, revision } = *self;
        Sight { cluster, member, revision, vm: vm.to_owned(), record: record.cloned() }
    }
}

impl Answer for Token {
    fn sight(&self, _: &str) -> Option<Sight> {
        None
    }
}

impl Answer for Range {
    fn sight(&self, vm: &str) -> Option<Sight> {
        Some(self.header.sight(vm, self.pair()))
    }
}

impl Answer for Transaction {
    fn sight(&self, vm: &str) -> Option<Sight> {
        Some(self.header.sight(vm, self.pair()))
    }
}

/// A number is digits and nothing else: `parse` would take a sign.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_plain);
    number.ok_or_else(|| D::Error::custom(format!("{text:?} is no number of 64 bits")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_in_a_string() {
        let read = |revision: &str| {
            let text = format!(r#"{{"header": {{"cluster_id": "7", "member_id": "8", "revision": {revision}}}}}"#);
            serde_json::from_str::<Range>(&text).map(|range| range.sight("vm").unwrap().revision)
        };
        assert_eq!(read("\"18446744073709551615\"").unwrap(), u64::MAX);
        for odd in ["7", "\"+7\"", "\"-7\"", "\" 7\"", "\"\"", "\"7.0\"", "\"18446744073709551616\"", "null"] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn what_is_no_answer_of_etcd_is_not_taken_for_an_empty_one() {
        assert!(serde_json::from_str::<Range>("{}").is_err());
        assert!(serde_json::from_str::<Transaction>(r#"{"succeeded": true}"#).is_err());
    }
}
