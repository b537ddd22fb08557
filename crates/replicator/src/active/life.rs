//! How the life of a guest goes here: what is known of it, how it was resumed, when it stood.

use std::collections::BTreeMap;
use std::time::Duration;

use stealtime_succession::Epoch;

use crate::clock::now;
use crate::guest::GuestFacts;
use crate::staging::Leftover;

/// A takeover until the guest goes on.
pub struct Resuming {
    /// The epoch that it goes on from.
    pub epoch: Epoch,
    /// The state of its devices, until it is loaded.
    pub devices: Vec<u8>,
    /// When it was decided.
    pub decided: Duration,
    /// What is to be given back later.
    pub _leftover: Leftover,
}

/// The life of an active member's guest on this host.
#[derive(Default)]
pub struct GuestLife {
    pub facts: Option<GuestFacts>,
    pub resuming: Option<Resuming>,
    /// How long the takeover took, from the decision until the guest ran.
    pub resumed_in: Option<Duration>,
    /// Since when it was left standing between epochs.
    stands_since: Option<Duration>,
    /// How often QEMU told what.
    pub qemu_events: BTreeMap<String, u64>,
}

impl GuestLife {
    /// Of a guest that stood by.
    pub fn resuming(facts: GuestFacts, resuming: Resuming) -> Self {
        Self { facts: Some(facts), resuming: Some(resuming), ..Self::default() }
    }

    /// It was stopped, and not for an epoch.
    pub fn stopped(&mut self) {
        self.stands_since = Some(now());
    }

    /// It goes on; tells how long it stood.
    pub fn continued(&mut self) -> Duration {
        if let Some(Resuming { decided, .. }) = self.resuming.take() {
            self.resumed_in = Some(now().saturating_sub(decided));
        }
        self.stands_since.take().map_or(Duration::ZERO, |since| now().saturating_sub(since))
    }

    /// What of it is not as wanted, in sentences.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        self.facts.iter().flat_map(GuestFacts::remarks)
    }
}
