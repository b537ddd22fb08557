//! What was counted for whom.
//!
//! A client counts 1, 2, 3, ... and goes on only after an answer, so the number of its increments *is* the
//! last sequence number that was applied. That makes every loss visible in a single answer: a counter that
//! has forgotten an acknowledged value has a smaller number than its client.

use std::collections::HashMap;

use crate::counter::protocol::{Answer, Outcome, Request};

/// So many clients are remembered: no more than some megabytes.
const MOST_CLIENTS: usize = 65_536;

/// One client's increments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Account {
    applied: u64,
    chain: u64,
}

/// The counter's state as one client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What became of the request.
    pub outcome: Outcome,
    /// The increments of this client that were applied.
    pub applied: u64,
    /// The digest of these increments, in their order.
    pub chain: u64,
    pub total: u64,
    /// Made of all chains.
    pub digest: u64,
}

impl Entry {
    /// The answer to a request as far as the ledger knows it: without times, memory and identity.
    pub fn answer(&self, request: &Request) -> Answer {
        Answer {
            applied: self.applied,
            chain: self.chain,
            total: self.total,
            digest: self.digest,
            ..Answer::to(request, self.outcome)
        }
    }
}

/// Everything that was counted.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: HashMap<u64, Account>,
    total: u64,
    digest: u64,
}

impl Ledger {
    /// Adds one for the client if the sequence number is its next.
    pub fn count(&mut self, client: u64, sequence: u64) -> Entry {
        let mut account = self.account(client);
        let outcome = if sequence <= account.applied {
            Outcome::Repeated
        } else if sequence > account.applied + 1 {
            Outcome::Gap
        } else if account.applied == 0 && self.accounts.len() >= MOST_CLIENTS {
            Outcome::Full
        } else {
            // The digest is a sum, so that one client's part can be exchanged whatever the others' are.
            self.digest = self.digest.wrapping_sub(part_of_digest(client, account));
            account.applied = sequence;
            account.chain = extend_chain(account.chain, client, sequence);
            self.digest = self.digest.wrapping_add(part_of_digest(client, account));
            self.total += 1;
            self.accounts.insert(client, account);
            Outcome::Applied
        };
        self.entry(outcome, account)
    }

    /// The state as it is.
    pub fn tell(&self, outcome: Outcome, client: u64) -> Entry {
        self.entry(outcome, self.account(client))
    }

    fn account(&self, client: u64) -> Account {
        self.accounts.get(&client).copied().unwrap_or_default()
    }

    fn entry(&self, outcome: Outcome, account: Account) -> Entry {
        Entry { outcome, applied: account.applied, chain: account.chain, total: self.total, digest: self.digest }
    }
}

/// Adds an increment to a client's chain. The client does the same, and so knows what the counter must answer
/// if it remembers every single one of its increments.
pub fn extend_chain(chain: u64, client: u64, sequence: u64) -> u64 {
    mix(chain ^ mix(client ^ mix(sequence)))
}

fn part_of_digest(client: u64, account: Account) -> u64 {
    if account.applied == 0 { 0 } else { mix(client ^ account.chain.rotate_left(32)) }
}

/// Spreads each bit of a number over all of it: the output step of `SplitMix64` (Steele, Lea and Flood,
/// OOPSLA 2014).
pub fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_sequence_number_counts_once_and_none_is_left_out() {
        let mut ledger = Ledger::default();
        let mut outcome = |sequence| {
            let entry = ledger.count(7, sequence);
            (entry.outcome, entry.applied, entry.total)
        };
        assert_eq!(outcome(2), (Outcome::Gap, 0, 0));
        assert_eq!(outcome(1), (Outcome::Applied, 1, 1));
        assert_eq!(outcome(1), (Outcome::Repeated, 1, 1));
        assert_eq!(outcome(3), (Outcome::Gap, 1, 1));
        assert_eq!(outcome(2), (Outcome::Applied, 2, 2));
        assert_eq!(outcome(0), (Outcome::Repeated, 2, 2));
    }

    #[test]
    fn a_client_too_many_is_refused_and_the_others_go_on() {
        let mut ledger = Ledger::default();
        for client in 0..MOST_CLIENTS as u64 {
            assert_eq!(ledger.count(client, 1).outcome, Outcome::Applied);
        }
        assert_eq!(ledger.count(u64::MAX, 1).outcome, Outcome::Full);
        assert_eq!(ledger.count(3, 2).outcome, Outcome::Applied);
    }

    proptest! {
        #[test]
        fn the_digest_tells_what_was_counted_but_not_in_which_order(
            clients in proptest::collection::vec(0..5_u64, 1..60), other in 0..5_u64
        ) {
            let digest = |clients: &[u64]| {
                let mut ledger = Ledger::default();
                for &client in clients {
                    let next = ledger.tell(Outcome::Told, client).applied + 1;
                    ledger.count(client, next);
                }
                ledger.tell(Outcome::Told, 0).digest
            };
            let mut sorted = clients.clone();
            sorted.sort_unstable();
            prop_assert_eq!(digest(&clients), digest(&sorted));
            let more = [clients.as_slice(), &[other]].concat();
            prop_assert_ne!(digest(&clients), digest(&more));
        }
    }
}
