//! The guest's port on the host of a standby: nothing leaves by it before a failover, and then it is all that the guest
//! has.

use std::time::Duration;

use stealtime_outputhold::{PortFault, RelayEvent};
use stealtime_shipping::{Confirmed, Message};
use stealtime_succession::StandbyState;

use super::{Standby, StandbyError};
use crate::alarms::AlarmKind;
use crate::clock::now;
use crate::guest::{Guest, GuestEvent};
use crate::wording;

/// How often it is looked at. It matters after a failover only, and a host has many standbys.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is known of it.
#[derive(Default)]
pub(super) struct PortWatching {
    /// When it is looked at next.
    pub look_at: Duration,
    /// Why the guest would reach nobody, as it was told last.
    fault: Option<String>,
}

/// The active member shall look for another standby now, not when it is needed. A standby that claims goes on without a
/// network: what it holds may be all that is left of the machine.
pub(super) fn hear(event: GuestEvent, state: StandbyState) -> Result<(), StandbyError> {
    match event {
        GuestEvent::CaptureFailed { reason, .. } => Err(StandbyError::Guest(reason)),
        GuestEvent::Exited(status) => Err(StandbyError::Guest(status.to_string())),
        // Whether it has a network is seen by who looks at its port.
        GuestEvent::Relay(_) if state == StandbyState::Claiming => Ok(()),
        GuestEvent::Relay(RelayEvent::Ended) => Err(StandbyError::Network(PortFault::RelayEnded)),
        GuestEvent::Relay(RelayEvent::OutputBroken(_)) => Err(StandbyError::Network(PortFault::OutputBroken)),
        _ => Ok(()),
    }
}

impl Standby {
    /// Raise the alarm if the guest would reach nobody from here, and tell the active member of news.
    pub(super) fn look_at_port(&mut self) {
        if now() < self.port.look_at {
            return;
        }
        self.port.look_at = now() + LOOK_EVERY;
        let before = self.port.fault.clone();
        let port_fault = self.port_fault();
        if port_fault == before {
            return;
        }
        // It says that our register names us, too, which it does only if that was seen lately.
        let age = self.registrar.age().filter(|_| self.member.state() == StandbyState::Eligible);
        if age.is_some_and(|age| age < self.spec.timing.standby_look_interval()) {
            let term = self.member.term();
            self.pass_on(&Message::Confirmed(Confirmed { term, port_fault }));
        }
    }

    /// Why the guest would reach nobody from here now, if that is so.
    pub(super) fn port_fault(&mut self) -> Option<String> {
        let fault = self.machine.port_fault();
        let text = fault.as_ref().map(|fault| wording::of_port_of_standby(fault, std::process::id()));
        self.events.alarm(AlarmKind::Port, text);
        self.port.fault = fault.map(|fault| fault.to_string());
        self.port.fault.clone()
    }
}

#[cfg(test)]
mod tests {
    use stealtime_outputhold::FramingError;

    use super::*;

    #[test]
    fn a_standby_without_a_relay_ends_unless_it_claims() {
        let faults = || [RelayEvent::Ended, RelayEvent::OutputBroken(FramingError::Oversize { length: 1 << 31 })];
        for state in [StandbyState::Syncing, StandbyState::Named, StandbyState::Eligible] {
            for event in faults() {
                let error = hear(GuestEvent::Relay(event), state).unwrap_err().to_string();
                assert!(error.starts_with("the guest would reach nobody from here: "), "{error}");
            }
        }
        for event in faults() {
            assert!(hear(GuestEvent::Relay(event), StandbyState::Claiming).is_ok(), "it may be all that is left");
        }
        let closed = GuestEvent::Relay(RelayEvent::OutputClosed);
        assert!(hear(closed, StandbyState::Eligible).is_ok(), "its QEMU has ended, which is told by itself");
    }
}
