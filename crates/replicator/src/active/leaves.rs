//! Hosts that are to go down: this one, which the guest is to leave, and that of its standby, to which it is not to
//! move.
//!
//! The standby is kept until another host was found that takes the machine, and is given up then: a member has one
//! standby at a time. The guest is unprotected for as long as it is copied to the next one.

use std::time::Duration;

use stealtime_shipping::Message;
use stealtime_succession::{ActiveInput, ActiveMessage, ActiveState};

use super::Active;
use super::seek::{self, Found};
use crate::control::Refusal;
use crate::events::Event;
use crate::{leaving, wording};

/// How long a host that was only asked may take to hear that it is not needed.
const CLOSE_WITHIN: Duration = Duration::from_millis(200);

impl Active {
    /// The standby's host is to go down, or stays after all.
    pub(super) fn standby_leaves(&mut self, is_leaving: bool) {
        let Some(host) = self.link.host().map(|host| host.name.clone()) else { return };
        self.link.leaves(is_leaving);
        if is_leaving {
            let text = wording::of_leaving_standby(&host, self.has_others(&host));
            self.events.add(&Event::Warning { text });
        } else {
            self.seeker.stop();
        }
    }

    /// Do what follows from it that hosts are to go down.
    pub(super) fn heed_leaving(&mut self) {
        if !self.link.is_leaving() {
            // The state machine goes with the next standby, or this one.
            if std::mem::take(&mut self.is_to_leave) {
                self.tell(ActiveInput::LeaveRequested);
            }
        } else if self.member.state() == ActiveState::Protected && !self.seeker.is_seeking() {
            self.seek_another();
        }
    }

    /// Look for a host that takes the place of a standby that is to go down, while that one is kept. A host compares
    /// its register with what is held here, so that it is asked while no standby is being named.
    fn seek_another(&mut self) {
        let (Some(held), Some(facts), Some(host)) = (self.member.held(), &self.life.facts, self.link.host()) else {
            return;
        };
        // A standby on a host that is to go down is more than one that the register would not name.
        if self.member.may_name() && self.has_others(&host.name) {
            let hello = seek::hello(&self.spec, &self.me, held, facts);
            self.seeker.start(&self.spec, hello, Some(&host.name));
        }
    }

    /// Whether there are hosts for the machine but this one and another one.
    pub(super) fn has_others(&self, than: &str) -> bool {
        self.spec.standby_hosts.iter().any(|host| host.name != self.spec.host && host.name != than)
    }

    /// A host would take the machine: give up the standby that is to go down, and ask again. What that host was asked
    /// was in a term that is over then.
    pub(super) fn replace_standby(&mut self, found: Found) {
        let Found { host, sender, receiver, .. } = found;
        let term = self.member.term();
        tokio::spawn(async move {
            let told = async { sender.send(&Message::Bye { term }).await.and(sender.close().await) };
            let _ = tokio::time::timeout(CLOSE_WITHIN, told).await;
            drop(receiver);
        });
        if !self.link.is_leaving() || self.member.state() != ActiveState::Protected {
            return;
        }
        // Who stands by is not to claim what goes on here.
        self.send(&ActiveMessage::Bye { term });
        let before = self.link.host().map_or_else(String::new, |host| host.name.clone());
        self.give_up_link(format!("{before} is to go down, and {} would take its place", host.name));
    }

    /// A guest that was taken over on a host that is to go down is to leave it: whoever asked the members here to leave
    /// may have asked before it came.
    pub(super) fn leave_if_the_host_does(&mut self) {
        if self.life.resuming.is_some() && leaving::is_leaving(self.spec.host_folder()) {
            self.leave_host();
        }
    }

    /// Why there is no planned failover now.
    pub(super) fn would_go_down(&self) -> Refusal {
        let host = self.link.host().map_or("the standby's host", |host| host.name.as_str());
        Refusal::new(
            format!("{host} is to go down, and {} would go down with it", self.spec.machine.name),
            format!("wait for another standby, or, if {host} is to stay: `stealtime protect leave --back` there"),
        )
    }
}
