//! What the standby says, from when it was found until it is given up.

use std::time::Duration;

use stealtime_shipping::{Heartbeat, Message, Refusal};
use stealtime_succession::{ActiveInput, ActiveMessage};

use super::Active;
use super::seek::Found;
use crate::events::Event;
use crate::guest::Order;
use crate::{faults, wording};

impl Active {
    pub(super) fn found(&mut self, found: Found) {
        let Found { host, standby, delta, qemu_version, sender, receiver } = found;
        let ours = self.life.facts.as_ref().map(|facts| facts.qemu_version.as_str());
        let remarks = [
            wording::of_older_release(&host.name, sender.version()),
            wording::of_other_qemu(&host.name, qemu_version.as_deref(), ours),
        ];
        self.events.add(&Event::Linked { peer: standby.to_string() });
        self.events.withdraw("");
        self.guest.order(Order::Link { sender: sender.clone(), delta });
        self.link.open(host, remarks.into_iter().flatten().collect(), sender, receiver);
        self.tell(ActiveInput::StandbyConnected { standby });
    }

    pub(super) fn message(&mut self, message: Message) {
        match message {
            Message::Acknowledge(acknowledge) => {
                faults::point("on-acknowledge");
                let (term, epoch) = (acknowledge.term, acknowledge.epoch);
                let logged = self.epochs.acknowledged(epoch, self.spec.mode.gates_on_ack());
                self.tell(ActiveInput::Acknowledged { term, epoch });
                self.guest.order(Order::Acknowledged(epoch));
                self.check_log(logged);
            }
            Message::Heartbeat(Heartbeat { term, echo_ns: Some(echo_ns), .. }) => {
                let sent = Duration::from_nanos(echo_ns);
                self.link.echoed(sent);
                self.tell(ActiveInput::Echo { term, sent });
            }
            Message::Confirmed(confirmed) => {
                let term = confirmed.term;
                self.link.confirmed(confirmed);
                self.tell(ActiveInput::Confirmed { term });
            }
            // As the operator here may, too: whether it can be handed over is for the state machine to say.
            Message::Call { term } if term == self.member.term() && !self.link.is_leaving() => {
                self.tell(ActiveInput::FailoverRequested);
            }
            Message::Call { .. } => {}
            Message::Leaving(leaving) => self.standby_leaves(leaving.is_leaving),
            Message::DiskWanted(wanted) => self.guest.order(Order::DiskWanted(wanted)),
            Message::CopyHeld(held) => self.guest.order(Order::CopyHeld { term: held.term }),
            // The standby has found that it could not resume the guest, or its host is to go down.
            Message::Refuse { refusal, .. } => {
                let Some(host) = self.link.host().map(|host| host.name.clone()) else { return };
                let reason = format!("{host} refuses: {refusal} (hint: {})", refusal.hint());
                self.events.add(&Event::Refused { reason: reason.clone() });
                match refusal {
                    // It lives, and would claim what goes on here. Asked again it says the same, or has come back.
                    Refusal::Leaving { .. } => self.send(&ActiveMessage::Bye { term: self.member.term() }),
                    _ => self.seeker.leave_alone(host, reason.clone()),
                }
                self.give_up_link(reason);
            }
            other => {
                self.events.warn(format!("the standby sent {:?}, which it never should", other.kind()));
            }
        }
    }

    pub(super) fn give_up_link(&mut self, reason: String) {
        if self.link.host().is_some() {
            self.events.add(&Event::LinkLost { reason });
            self.tell(ActiveInput::LinkClosed);
        }
    }
}
