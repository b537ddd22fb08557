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

    /// What the relay does follows from the state machine, and from whether the engine has cut for the first time.
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
        if let Some(seeker) = self.seeker.take() {
            // It asks in a term that is over, in which nobody would take the machine.
            seeker.abort();
        }
        let hello = seek::hello(&self.spec, &self.me, self.term(), facts);
        let identity = self.spec.identity.clone();
        let qemu = self.spec.qemu.clone();
        let inputs = self.inputs.clone();
        self.seeker = Some(tokio::spawn(async move {
            let not_found = inputs.clone();
            let found = seek::seek(hosts, identity, qemu, hello, move |host, error| {
                let _ = not_found.send(Input::NotFound(host, error));
            })
            .await;
            let _ = inputs.send(Input::Found(Box::new(found)));
        }));
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
            // What was said last, such as that the other side shall take over, should arrive; a link that stands still
            // must not keep the encoder.
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
