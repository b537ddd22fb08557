//! What the state machine says, done.

use std::sync::Arc;
use std::time::Duration;

use stealtime_outputhold::{LearnedAddresses, Policy};
use stealtime_shipping::{Addresses, Heartbeat, Message, Protected, Resign};
use stealtime_succession::{ActiveInput, ActiveMessage, ActiveState, Epoch, OutputPolicy};

use super::{Active, CLOSE_WITHIN, Input, seek};
use crate::clock::nanoseconds;
use crate::engine::{GuestFacts, Order};
use crate::events::Event;
use crate::machine::{Machine, MachineError, Netdev, start_relay};
use crate::{faults, machine};

impl Active {
    pub(super) fn send(&mut self, message: &ActiveMessage) {
        let message = match *message {
            ActiveMessage::Heartbeat { term, sent } => {
                Message::Heartbeat(Heartbeat { term, sent_ns: nanoseconds(sent), echo_ns: None })
            }
            ActiveMessage::Protected { term } => {
                let since = self.member.acknowledged_epoch().unwrap_or_default();
                self.events.add(&Event::Protected { term, epoch: since });
                if let Some(link) = &self.link {
                    self.unfit.remove(&link.host.name);
                }
                Message::Protected(Protected { term })
            }
            ActiveMessage::Resign { term, last } => Message::Resign(Resign { term, last }),
            ActiveMessage::Bye { term } => Message::Bye { term },
        };
        let Some(link) = &self.link else { return };
        if let Err(reason) = link.sender.try_send(&message) {
            let _ = self.inputs.send(Input::LinkClosed { link: link.number, reason });
        } else if let Message::Protected(Protected { term }) = message {
            // Epochs of the new term come after the message that begins it.
            self.order(Order::Go { term });
        }
    }

    /// Tell the standby what the guest goes by on the network, if it does not know.
    pub(super) fn tell_addresses(&mut self) {
        let (Some(link), Some(relay)) = (&self.link, &self.relay) else { return };
        // A relay that has ended tells so itself.
        let Ok(learned) = relay.learned_addresses() else { return };
        let known = self.addresses.clone();
        self.addresses.merge(&learned);
        if self.addresses_told && self.addresses == known {
            return;
        }
        let LearnedAddresses { ipv4, ipv6 } = self.addresses.clone();
        let message = Message::Addresses(Addresses { term: self.member.term(), ipv4, ipv6 });
        // A link that fails is told by its reader.
        self.addresses_told = link.sender.try_send(&message).is_ok();
    }

    pub(super) fn release(&mut self, epoch: Epoch) {
        faults::point("before-release");
        if let Some(relay) = &self.relay
            && let Err(error) = relay.acknowledge(epoch)
        {
            self.warn(format!("{epoch} was not released: {error}"));
        }
    }

    /// What the relay does follows from the state machine, and from whether the engine has cut for the first
    /// time.
    pub(super) fn apply_policy(&mut self) {
        let waits = self.awaits_first_cut && self.member.state() == ActiveState::Syncing;
        let policy = match self.member.permit().policy {
            OutputPolicy::Hold if waits => Policy::Free,
            // Nothing passes the gate then, but what is held is kept: a term alone may still be granted.
            OutputPolicy::Hold | OutputPolicy::Closed => Policy::Hold,
            OutputPolicy::Free => Policy::Free,
        };
        self.set_relay_policy(policy);
    }

    pub(super) fn set_relay_policy(&mut self, policy: Policy) {
        if let Some(relay) = &self.relay
            && let Err(error) = relay.set_policy(policy)
        {
            self.warn(error.to_string());
        }
    }

    pub(super) fn boot(&mut self) {
        if let Err(error) = self.try_boot() {
            self.fatal = Some(error.to_string());
        }
    }

    pub(super) fn try_boot(&mut self) -> Result<(), MachineError> {
        let Netdev { ours, of_qemu } = Netdev::pair()?;
        let relay =
            Arc::new(start_relay(&self.spec, Policy::Free, ours, Arc::clone(&self.gate), &self.switchboard)?);
        self.machine = Some(Machine::boot(&self.spec, of_qemu, Arc::clone(&relay), &self.switchboard)?);
        self.relay = Some(relay);
        Ok(())
    }

    pub(super) fn watch_guest(&mut self, facts: GuestFacts) {
        faults::set_guest(i32::try_from(facts.qemu_pid).unwrap_or(0));
        for text in facts.remarks() {
            self.events.add(&Event::Warning { text });
        }
        let inputs = self.inputs.clone();
        let watched = machine::watch(facts.exit.clone(), move |status| {
            let _ = inputs.send(Input::GuestExited(status));
        });
        if let Err(error) = watched {
            self.fatal = Some(format!("QEMU cannot be watched: {error}"));
        }
        self.facts = Some(facts);
        if self.wants_standby {
            self.seek();
        }
    }

    pub(super) fn seek(&mut self) {
        self.wants_standby = true;
        if self.resuming.is_some() {
            // A guest that is to resume needs the processors more.
            return;
        }
        let Some(facts) = &self.facts else { return };
        let others = self.spec.standby_hosts.iter().filter(|host| host.name != self.spec.host);
        let mut hosts: Vec<_> = others
            .map(|host| {
                (host.clone(), self.unfit.get(&host.name).map_or(Duration::ZERO, |unfit| unfit.until))
            })
            .collect();
        // Those that never refused first, in their order of preference.
        hosts.sort_by_key(|(_, not_before)| *not_before);
        if hosts.is_empty() {
            return;
        }
        let hello = seek::hello(&self.spec, &self.me, self.term(), facts);
        // The one before asks in a term that is over, in which nobody would take the machine.
        self.stop_seeking();
        let seeker = self.seekers;
        let identity = self.spec.identity.clone();
        let qemu = self.spec.qemu.clone();
        let inputs = self.inputs.clone();
        self.seeker = Some(tokio::spawn(async move {
            let not_found = inputs.clone();
            let found = seek::seek(hosts, identity, qemu, hello, move |host, error| {
                let _ = not_found.send(Input::NotFound(host, error));
            })
            .await;
            let _ = inputs.send(Input::Found { seeker, found: Box::new(found) });
        }));
    }

    /// Stop the seeker, and take nothing any more that it has found.
    pub(super) fn stop_seeking(&mut self) {
        self.seekers += 1;
        if let Some(seeker) = self.seeker.take() {
            seeker.abort();
        }
    }

    pub(super) fn give_up_link(&mut self, reason: &str) {
        if self.link.is_some() {
            self.events.add(&Event::LinkLost { reason: reason.to_owned() });
            self.tell(ActiveInput::LinkClosed);
        }
    }

    pub(super) fn close_link(&mut self) {
        self.last_echo = None;
        let Some(link) = self.link.take() else { return };
        link.reader.abort();
        self.closing.push(tokio::spawn(async move {
            // What was said last, such as that the other side shall take over, should arrive; a link that
            // stands still must not keep the encoder.
            let _ = tokio::time::timeout(CLOSE_WITHIN, link.sender.close()).await;
            link.sender.abort();
        }));
    }

    pub(super) fn kill_guest(&mut self) {
        if let Some(facts) = &self.facts {
            machine::kill(&facts.pidfd);
        }
    }

    pub(super) fn order(&self, order: Order) {
        if let Some(machine) = &self.machine {
            machine.engine.order(order);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use stealtime_shipping::{Endpoint, Link, LinkError, LinkReceiver, Listener, accept, connect};
    use stealtime_succession::MemberId;
    use tokio::sync::mpsc;

    use super::super::{Found, Origin};
    use super::*;
    use crate::spec::{Spec, StandbyHost};
    use crate::test_machine::machine;

    fn spec(folder: &Path) -> Spec {
        let spec = json!({
            "version": crate::spec::VERSION,
            "machine": machine(Path::new("/boot/image")),
            "qemu": "/no/qemu",
            "host": "a",
            "standby_hosts": [],
            "mode": "net",
            "interval": {"fixed_ns": 100_000_000},
            "bypass": [],
            "tracker": null,
            "device_state": "xen-save",
            "network": {"tap": "tap-phone", "bridge": null},
            "register": {"file": folder},
            "timing": {
                "heartbeat_interval_ns": 25_000_000,
                "active_deadline_ns": 120_000_000,
                "standby_timeout_ns": 200_000_000,
                "register_deadline_ns": 2_000_000_000_u64,
            },
            "identity": null,
            "folder": folder,
            "longest_first_pause_ns": 1_000_000_000,
            "epochs_in_flight": 4,
            "hold_bytes": 64 << 20,
            "metrics": null,
        });
        serde_json::from_value(spec).unwrap()
    }

    /// A standby that was found, and its side of the link.
    async fn found(folder: &Path) -> (Box<Found>, LinkReceiver) {
        let endpoint = Endpoint::Unix(folder.join("standby.sock"));
        let listener = Listener::bind(&endpoint).await.unwrap();
        let there = async { accept(listener.accept().await.unwrap(), None).await };
        let (ours, theirs) = tokio::join!(connect(&endpoint, None), there);
        let (sender, receiver) = Link::split(ours.unwrap());
        let host = StandbyHost { name: "b".to_owned(), endpoint: endpoint.to_string() };
        let found = Found { host, standby: MemberId::new("b", 1), delta: true, sender, receiver };
        (Box::new(found), theirs.unwrap().split().1)
    }

    #[tokio::test]
    async fn what_a_seeker_found_that_was_stopped_is_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, _inputs) = mpsc::unbounded_channel();
        let me = MemberId::new("a", 1);
        let mut active = Active::new(spec(folder.path()), me, Origin::Boot { force: false }, sender).unwrap();
        active.stop_seeking();
        let stopped = active.seekers;
        // It waits in the queue when the next seeker is started.
        let (late, mut standby) = found(folder.path()).await;
        active.stop_seeking();
        active.take(Input::Found { seeker: stopped, found: late });
        assert_eq!(active.links, 0, "the link of another term was taken");
        let end = standby.receive().await.unwrap_err();
        assert!(matches!(end, LinkError::Closed { .. }), "{end}");
        let (in_time, _standby) = found(folder.path()).await;
        active.take(Input::Found { seeker: active.seekers, found: in_time });
        assert_eq!(active.links, 1);
    }
}
