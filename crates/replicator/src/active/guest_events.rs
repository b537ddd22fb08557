//! What is heard of the guest, and what the state machine is told of it.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use stealtime_capture::{Notice, Shutdown};
use stealtime_outputhold::RelayEvent;
use stealtime_succession::{ActiveInput, ActiveState};

use super::Active;
use crate::alarms::AlarmKind;
use crate::clock::{nanoseconds, now};
use crate::events::Event;
use crate::guest::{Advance, GuestEvent, Order};
use crate::{faults, wording};

impl Active {
    pub(super) fn hear(&mut self, event: GuestEvent) {
        match event {
            GuestEvent::Ready(facts) => {
                self.life.facts = Some(facts);
                self.tell_remarks();
                self.seek();
                self.guest.order(Order::ContinueGuest);
                self.events.add(&Event::Active { term: self.member.term(), from: None });
            }
            GuestEvent::NoGuest(error) => self.end = Some(Err(wording::in_full(&error))),
            GuestEvent::Advanced(advance) => self.advanced(&advance),
            GuestEvent::DisksCopied { compared_bytes, copied_bytes } => {
                self.events.add(&Event::DisksCopied { compared_bytes, copied_bytes });
            }
            GuestEvent::Captured { epoch, is_last } => {
                self.epochs.captured(epoch, now());
                self.tell(ActiveInput::EpochCut { epoch, last: is_last });
                // A relay that has ended tells so itself.
                if let Ok(learned) = self.guest.learned_addresses() {
                    self.link.tell_addresses(self.member.term(), &learned);
                }
            }
            GuestEvent::CaptureFailed { reason, cut, is_lost } => {
                self.events.warn(format!("an epoch was not captured: {reason}"));
                let someone_has_it = match self.member.state() {
                    // The standby goes on from what it acknowledged: better than to wait for what does not
                    // come.
                    ActiveState::Protected | ActiveState::Draining => is_lost,
                    // Who offered it has it still.
                    ActiveState::Arriving => true,
                    _ => false,
                };
                if someone_has_it {
                    return self.guest.kill();
                }
                self.give_up_link(reason);
                // Without a session this only counts it: the output is never cut at a number twice.
                self.tell(ActiveInput::EpochCut { epoch: cut, last: false });
            }
            GuestEvent::PartShipped { raw_bytes } => self.epochs.copied_bytes += raw_bytes,
            GuestEvent::EpochShipped { row, at } => self.epochs.shipped(row, at),
            GuestEvent::ShippingFailed(reason) => self.give_up_link(reason),
            GuestEvent::Loaded => self.tell(ActiveInput::GuestLoaded),
            GuestEvent::Stopped => {
                self.life.stopped();
                self.events.add(&Event::GuestStopped { reason: format!("{:?}", self.member.state()) });
            }
            GuestEvent::Continued => {
                self.epochs.figures.stood(self.life.continued());
                self.events.add(&Event::GuestContinued);
            }
            GuestEvent::Noticed(notice) => self.noticed(notice),
            GuestEvent::Shutdown(shutdown) => self.shut_down(shutdown.as_ref()),
            GuestEvent::Exited(status) => self.exited(status),
            GuestEvent::Relay(event) => self.relay_told(event),
        }
    }

    /// Load the committed epoch; the guest stands.
    pub(super) fn load(&mut self) {
        if let Some(state) = self.life.resuming.as_mut().and_then(|resuming| resuming.devices.take()) {
            self.guest.order(Order::Load { state, runs: false });
        }
    }

    /// Have the guest go on from the committed epoch, and tell the network.
    pub(super) fn resume(&mut self) {
        let Some(resuming) = &mut self.life.resuming else { return };
        let epoch = resuming.epoch;
        let order = resuming.devices.take().map(|state| Order::Load { state, runs: true });
        self.guest.order(order.unwrap_or(Order::ContinueGuest));
        // Who offered the guest learns by its end that it runs here.
        self.life.offered_by = None;
        if let Err(error) = self.guest.announce(self.link.addresses()) {
            self.events.warn(error.to_string());
        }
        self.events.add(&Event::Active { term: self.member.term(), from: Some(epoch) });
        self.tell_remarks();
    }

    fn tell_remarks(&mut self) {
        for text in self.life.remarks() {
            self.events.add(&Event::Warning { text });
        }
    }

    fn advanced(&mut self, advance: &Advance) {
        let Advance { rounds, pages, took, held_back, converges, .. } = *advance;
        self.epochs.figures.stood(held_back);
        self.events.add(&Event::CopiedInAdvance { rounds, pages, took_ns: nanoseconds(took), converges });
        self.events.withdraw(Advance::DOES_NOT_CONVERGE);
        let longest_first_pause = Duration::from_nanos(self.spec.longest_first_pause_ns);
        if let Some(remark) = advance.remark(longest_first_pause) {
            self.events.warn(remark);
        }
    }

    fn noticed(&mut self, notice: Notice) {
        let name = match notice {
            Notice::Panicked => {
                self.events.add(&Event::GuestPanicked);
                self.events.alarm(AlarmKind::Guest, Some("the guest's kernel has panicked".to_owned()));
                "GUEST_PANICKED".to_owned()
            }
            Notice::Reset => {
                self.events.add(&Event::GuestReset);
                self.events.alarm(AlarmKind::Guest, None);
                self.events.warn("the guest began anew: it rebooted, or its processor was reset by a fault".to_owned());
                "RESET".to_owned()
            }
            Notice::Told { name } => name,
            // The engine tells so as a failure.
            Notice::Stands { .. } => return,
        };
        *self.life.qemu_events.entry(name).or_default() += 1;
    }

    /// QEMU ends well when the guest powers off, and when somebody on the host ends it: it has said which.
    /// Else it was killed, or fell.
    fn exited(&mut self, status: ExitStatus) {
        if status.success() {
            self.guest.order(Order::TellShutdown);
        } else {
            self.tell(ActiveInput::GuestGone);
        }
    }

    /// Only the guest itself ends the machine: what befalls its QEMU on this host is for the standby to mend.
    fn shut_down(&mut self, shutdown: Option<&Shutdown>) {
        if shutdown.is_some_and(|shutdown| shutdown.by_guest) {
            return self.tell(ActiveInput::StopRequested);
        }
        let reason = shutdown.map_or("without a word", |shutdown| shutdown.reason.as_str());
        self.events.warn(format!("QEMU was ended on this host ({reason}), not by its guest"));
        self.tell(ActiveInput::GuestGone);
    }

    fn relay_told(&mut self, event: RelayEvent) {
        match event {
            RelayEvent::EpochReleased(released) => {
                faults::point("after-release");
                let logged = self.epochs.released(released.epoch, released.since_cut, now());
                self.check_log(logged);
            }
            RelayEvent::AwaitsCut { after } => self.guest.order(Order::AwaitsCut { after }),
            RelayEvent::HoldFull { frames, bytes } => {
                self.events.warn(format!(
                    "the hold is full ({frames} frames, {bytes} bytes): the guest's output waits in QEMU"
                ));
            }
            // QEMU is gone, which its process tells.
            RelayEvent::OutputClosed => {}
            RelayEvent::OutputBroken(error) => {
                self.events.warn(format!("the guest's output cannot be read: {error}"));
                self.guest.kill();
            }
            // Seen by who looks at the port; the error says why.
            RelayEvent::PortLost(error) => {
                self.events.warn(format!("the TAP cannot be used: {error}"));
            }
            RelayEvent::Ended => {
                // Nothing can leave any more: better that somebody else takes over.
                self.events.warn("the relay of the network has ended".to_owned());
                self.guest.kill();
            }
        }
    }

    pub(super) fn check_log(&mut self, logged: io::Result<()>) {
        if let Err(error) = logged {
            self.events.warn(format!("epochs.csv cannot be written: {error}"));
        }
    }
}
