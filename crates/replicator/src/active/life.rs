//! How the life of a guest goes here: what is known of it, how it was resumed, when it stood.

use std::collections::BTreeMap;
use std::time::Duration;

use stealtime_shipping::LinkSender;
use stealtime_succession::Epoch;

use crate::clock::now;
use crate::guest::GuestFacts;
use crate::staging::Leftover;

/// A takeover until the guest goes on.
pub struct Resuming {
    /// The epoch that it goes on from.
    pub epoch: Epoch,
    /// The state of its devices, until it is loaded.
    pub devices: Option<Vec<u8>>,
    pub decided: Duration,
    /// What is to be given back later.
    pub leftover: Leftover,
}

/// How long a guest that was taken over has the processors before anything is done that can wait: memory
/// given back, a standby looked for and copied to. It is new to this host, translates or faults in all that it
/// touches, and clients wait for its first answers; here they had them within this time.
const SETTLES_WITHIN: Duration = Duration::from_millis(250);

/// A guest that has just been taken over.
struct Settling {
    until: Duration,
    _leftover: Leftover,
}

/// The life of an active member's guest on this host.
#[derive(Default)]
pub struct GuestLife {
    pub facts: Option<GuestFacts>,
    pub resuming: Option<Resuming>,
    /// The link to who offered the guest at a planned failover, until it runs here: its end would say that we died.
    pub offered_by: Option<LinkSender>,
    /// How long the takeover took, from the decision until the guest ran.
    pub resumed_in: Option<Duration>,
    settling: Option<Settling>,
    /// Since when it was left standing between epochs.
    stands_since: Option<Duration>,
    /// How often QEMU told what.
    pub qemu_events: BTreeMap<String, u64>,
}

impl GuestLife {
    /// Of a guest that stood by.
    pub fn resuming(facts: GuestFacts, resuming: Resuming, offered_by: Option<LinkSender>) -> Self {
        Self { facts: Some(facts), resuming: Some(resuming), offered_by, ..Self::default() }
    }

    /// It was stopped, and not for an epoch.
    pub fn stopped(&mut self) {
        self.stands_since = Some(now());
    }

    /// It goes on; tells how long it stood.
    pub fn continued(&mut self) -> Duration {
        if let Some(Resuming { decided, leftover, .. }) = self.resuming.take() {
            self.resumed_in = Some(now().saturating_sub(decided));
            self.settling = Some(Settling { until: now() + SETTLES_WITHIN, _leftover: leftover });
        }
        self.stands_since.take().map_or(Duration::ZERO, |since| now().saturating_sub(since))
    }

    /// Whether it needs the processors more than what can wait.
    pub fn is_busy(&self) -> bool {
        self.resuming.is_some() || self.settling.is_some()
    }

    /// When it has settled after a takeover; None: it has, or does not run yet.
    pub fn settles_at(&self) -> Option<Duration> {
        self.settling.as_ref().map(|settling| settling.until)
    }

    /// Note that it has settled, if it has by this moment; tells whether it had not before.
    pub fn settle(&mut self, now: Duration) -> bool {
        self.settling.take_if(|settling| settling.until <= now).is_some()
    }

    /// What of it is not as wanted, in sentences.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        self.facts.iter().flat_map(GuestFacts::remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_guest;

    #[test]
    fn a_guest_that_was_taken_over_has_the_processors_for_a_while() {
        let resuming = Resuming { epoch: Epoch(40), devices: None, decided: now(), leftover: Leftover::none() };
        let mut life = GuestLife::resuming(fake_guest::facts(), resuming, None);
        assert_eq!((life.is_busy(), life.settles_at()), (true, None), "it does not run yet");
        life.continued();
        let settles_at = life.settles_at().unwrap();
        let just_before = settles_at.saturating_sub(Duration::from_nanos(1));
        assert!(!life.settle(just_before) && life.is_busy());
        assert!(life.settle(settles_at) && !life.is_busy());
        assert!(!life.settle(settles_at), "once");
        life.stopped();
        life.continued();
        assert!(!life.is_busy(), "one that only stood is not new to the host");
    }
}
