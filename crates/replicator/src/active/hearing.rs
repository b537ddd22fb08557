//! What an active member hears, from its threads, its link and its guest, and what the state machine is told
//! of it.

use std::process::ExitStatus;
use std::time::Duration;

use stealtime_capture::{Notice, Shutdown};
use stealtime_outputhold::RelayEvent;
use stealtime_shipping::{Heartbeat, Message, Refusal};
use stealtime_succession::{ActiveInput, ActiveState, Epoch};

use super::seek::{self, Found, SeekError, Unfit};
use super::{Active, Input, OpenLink, Resuming, read};
use crate::clock::{nanoseconds, now};
use crate::encoder::EncoderEvent;
use crate::engine::{Advance, EngineEvent, Order};
use crate::events::Event;
use crate::faults;
use crate::machine::MachineEvent;
use crate::words;

/// What the warning begins with, which goes when rounds become short.
const DOES_NOT_CONVERGE: &str = "the copy in advance does not converge";

impl Active {
    pub(super) fn take(&mut self, input: Input) {
        match input {
            Input::Register(answer) => self.tell(ActiveInput::Register(answer)),
            Input::Machine(MachineEvent::Engine(told)) => self.engine_told(told),
            Input::Machine(MachineEvent::Encoder(sent)) => self.encoder_told(sent),
            Input::Machine(MachineEvent::Relay(event)) => self.relay_told(event),
            Input::Found { seeker, found } => {
                // It may have waited here when its seeker was stopped; with it goes its link.
                if seeker == self.seekers {
                    self.found(*found);
                }
            }
            Input::NotFound(host, error) => {
                let what = match &error {
                    SeekError::Link(_) => format!("{} is no standby now: {error}", host.name),
                    SeekError::Refused { .. } | SeekError::Odd { .. } => error.to_string(),
                };
                if self.warn(what.clone()) {
                    self.events.add(&Event::Refused { reason: what });
                }
            }
            Input::Message { link, message } => {
                if self.link.as_ref().is_some_and(|open| open.number == link) {
                    self.message(message);
                }
            }
            Input::LinkClosed { link, reason } => {
                if self.link.as_ref().is_some_and(|open| open.number == link) {
                    self.events.add(&Event::LinkLost { reason: words::of_link(&reason) });
                    self.tell(ActiveInput::LinkClosed);
                }
            }
            Input::GuestExited(status) => self.guest_exited(status),
            Input::Terminate => self.leave_host(),
        }
    }

    /// This process is to end, and its host perhaps too: that is no reason for the machine to end.
    fn leave_host(&mut self) {
        let state = self.member.state();
        if state != ActiveState::Protected {
            self.warn(format!(
                "{} was asked to leave while it is {state:?}: it does when a standby can take the machine; \
                 `stealtime protect stop` ends the machine",
                self.spec.host
            ));
        }
        self.tell(ActiveInput::LeaveRequested);
    }

    /// QEMU ends well when the guest powers off, and when somebody on the host ends it: it has said which.
    /// Else it was killed, or fell.
    pub(super) fn guest_exited(&mut self, status: ExitStatus) {
        if status.success() {
            self.order(Order::TellShutdown);
        } else {
            self.tell(ActiveInput::GuestGone);
        }
    }

    /// Only the guest itself ends the machine: what befalls its QEMU on this host is for the standby to mend.
    pub(super) fn shut_down(&mut self, shutdown: Option<&Shutdown>) {
        if shutdown.is_some_and(|shutdown| shutdown.by_guest) {
            return self.tell(ActiveInput::StopRequested);
        }
        let reason = shutdown.map_or("without a word", |shutdown| shutdown.reason.as_str());
        self.warn(format!("QEMU was ended on this host ({reason}), not by its guest"));
        self.tell(ActiveInput::GuestGone);
    }

    pub(super) fn message(&mut self, message: Message) {
        match message {
            Message::Acknowledge(acknowledge) => {
                faults::point("on-acknowledge");
                let (term, epoch) = (acknowledge.term, acknowledge.epoch);
                self.figures.acknowledged(epoch, now());
                self.tell(ActiveInput::Acknowledged { term, epoch });
                self.order(Order::Acknowledged(epoch));
                if !self.spec.mode.gates_on_ack() {
                    // Its output left long ago.
                    self.complete(epoch, Duration::ZERO);
                }
            }
            Message::Heartbeat(Heartbeat { term, echo_ns: Some(echo_ns), .. }) => {
                let sent = Duration::from_nanos(echo_ns);
                self.last_echo = Some(sent);
                self.tell(ActiveInput::Echo { term, sent });
            }
            Message::CopyHeld(held) => self.order(Order::CopyHeld { term: held.term }),
            Message::Refuse { refusal, .. } => self.standby_refused(&refusal),
            other => {
                self.warn(format!("the standby sent {:?}, which it never should", other.kind()));
            }
        }
    }

    /// The standby has found that it could not resume the guest: another one is looked for first.
    fn standby_refused(&mut self, refusal: &Refusal) {
        let Some(host) = self.link.as_ref().map(|link| link.host.name.clone()) else { return };
        let reason = format!("{host} refuses: {refusal} (hint: {})", refusal.hint());
        self.events.add(&Event::Refused { reason: reason.clone() });
        self.unfit.insert(host, Unfit { reason: reason.clone(), until: now() + seek::REST });
        self.give_up_link(&reason);
    }

    pub(super) fn engine_told(&mut self, told: EngineEvent) {
        match told {
            EngineEvent::Ready(facts) => {
                self.watch_guest(facts);
                self.order(Order::ContinueGuest);
                self.events.add(&Event::Active { term: self.term(), from: None });
            }
            EngineEvent::NoGuest(error) => self.fatal = Some(words::in_full(&error)),
            EngineEvent::GuestContinued => {
                if let Some(since) = self.stands_since.take() {
                    self.figures.stood(now().saturating_sub(since));
                }
                if let Some(Resuming { decided, .. }) = self.resuming.take() {
                    self.resume = Some(now().saturating_sub(decided));
                    if self.wants_standby {
                        self.seek();
                    }
                }
                self.events.add(&Event::GuestContinued);
            }
            EngineEvent::GuestStopped => {
                self.stands_since = Some(now());
                self.events.add(&Event::GuestStopped { reason: format!("{:?}", self.member.state()) });
            }
            EngineEvent::Advanced(advance) => self.advanced(&advance),
            EngineEvent::Captured { epoch, is_last } => {
                self.awaits_first_cut = false;
                self.tell(ActiveInput::EpochCut { epoch, last: is_last });
                // The engine held the output at the first cut; meanwhile the session may have ended.
                self.apply_policy();
                self.tell_addresses();
            }
            EngineEvent::Shutdown(shutdown) => self.shut_down(shutdown.as_ref()),
            EngineEvent::Noticed(notice) => self.noticed(notice),
            EngineEvent::Failed { reason, cut, is_lost } => {
                self.warn(format!("an epoch was not captured: {reason}"));
                if is_lost && matches!(self.member.state(), ActiveState::Protected | ActiveState::Draining) {
                    // The standby goes on from what it acknowledged: better than to wait for what does not
                    // come.
                    self.kill_guest();
                    return;
                }
                self.give_up_link(&reason);
                // Without a session this only counts it: the output is never cut at a number twice.
                self.tell(ActiveInput::EpochCut { epoch: cut, last: false });
            }
        }
    }

    fn advanced(&mut self, advance: &Advance) {
        let Advance { rounds, pages, took, pause, converges, goes_on } = *advance;
        self.events.add(&Event::CopiedInAdvance { rounds, pages, took_ns: nanoseconds(took), converges });
        self.warnings.retain(|text| !text.starts_with(DOES_NOT_CONVERGE));
        if converges {
            return;
        }
        let what = format!(
            "{DOES_NOT_CONVERGE}: {pages} pages are written while as many are shipped, which takes {} ms; for the first \
             epoch the guest stands for some {} ms",
            took.as_millis(),
            pause.as_millis()
        );
        let limit = Duration::from_nanos(self.spec.longest_first_pause_ns).as_millis();
        let hint = "have it write less, or give a faster link or a larger `longest_first_pause`";
        self.warn(if goes_on {
            what
        } else {
            format!(
                "{what}, longer than {limit} ms, so it stays unprotected and is tried again (hint: {hint})"
            )
        });
    }

    fn noticed(&mut self, notice: Notice) {
        let name = match notice {
            Notice::Panicked => {
                self.events.add(&Event::GuestPanicked);
                self.warn("the guest's kernel has panicked".to_owned());
                "GUEST_PANICKED".to_owned()
            }
            Notice::Reset => {
                self.events.add(&Event::GuestReset);
                self.warn(
                    "the guest began anew: it rebooted, or its processor was reset by a fault".to_owned(),
                );
                "RESET".to_owned()
            }
            Notice::Told { name } => name,
            // The engine tells so as a failure.
            Notice::Stands { .. } => return,
        };
        *self.qemu_events.entry(name).or_default() += 1;
    }

    pub(super) fn encoder_told(&mut self, sent: EncoderEvent) {
        match sent {
            EncoderEvent::Part { raw_bytes } => self.full_copy_sent += raw_bytes,
            EncoderEvent::Epoch { row, at } => self.figures.shipped(row, at),
            EncoderEvent::Failed(reason) => self.give_up_link(&reason),
        }
    }

    pub(super) fn relay_told(&mut self, event: RelayEvent) {
        match event {
            RelayEvent::EpochReleased(released) => {
                faults::point("after-release");
                self.released = released.epoch;
                self.complete(released.epoch, released.since_cut);
            }
            RelayEvent::HoldFull { frames, bytes } => {
                self.warn(format!(
                    "the hold is full ({frames} frames, {bytes} bytes): the guest's output waits in QEMU"
                ));
            }
            // QEMU is gone, which its process tells.
            RelayEvent::OutputClosed => {}
            RelayEvent::OutputBroken(error) => {
                self.warn(format!("the guest's output cannot be read: {error}"));
                self.kill_guest();
            }
            RelayEvent::PortLost(error) => {
                self.warn(format!("the TAP is gone, so nothing reaches the network: {error}"));
            }
            RelayEvent::Ended => {
                // Nothing can leave any more: better that somebody else takes over.
                self.warn("the relay of the network has ended".to_owned());
                self.kill_guest();
            }
        }
    }

    /// The rows of these epochs are complete.
    pub(super) fn complete(&mut self, epoch: Epoch, held: Duration) {
        for row in self.figures.released(epoch, held) {
            if let Err(error) = self.log.add(&row) {
                self.warn(format!("epochs.csv cannot be written: {error}"));
            }
        }
    }

    pub(super) fn found(&mut self, found: Found) {
        self.seeker = None;
        let Found { host, standby, delta, sender, receiver } = found;
        self.links += 1;
        let number = self.links;
        let reader = tokio::spawn(read(receiver, number, self.inputs.clone())).abort_handle();
        self.events.add(&Event::Linked { peer: standby.to_string() });
        self.warnings.clear();
        self.order(Order::Link { sender: sender.clone(), delta });
        self.link = Some(OpenLink { number, host, sender, reader });
        self.addresses_told = false;
        self.wants_standby = false;
        self.awaits_first_cut = true;
        self.tell(ActiveInput::StandbyConnected { standby });
    }
}
