//! The machine on this host: its QEMU with the engine, the encoder, and the relay of its network.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use stealtime_capture::{self as capture, GuestError, GuestSettings, MachineSpec, PAGE_BYTES, Sockets};
use stealtime_outputhold::{
    BypassRules, HardwareAddress, HoldLimits, LearnedAddresses, PortFault, PortWatch, Relay, RelayError, RelaySettings,
    Tap, TapSettings,
};
use stealtime_succession::{Epoch, Mode, OutputPolicy, Permit};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::disks::Disks;
use crate::encoder::Encoder;
use crate::engine::{EngineHandle, EngineSettings, StagingPool};
use crate::gate::LeaseGate;
use crate::guest::{Guest, GuestEvent, MachineError, Order};
use crate::pacing::Pacing;
use crate::spec::Spec;

pub struct Machine {
    gate: Arc<LeaseGate>,
    events: UnboundedSender<GuestEvent>,
    running: Option<Running>,
}

struct Running {
    engine: EngineHandle,
    relay: Arc<Relay>,
    port: PortWatch,
    disks: Arc<Disks>,
}

type Start = fn(&MachineSpec, &GuestSettings, Sockets) -> Result<capture::Guest, GuestError>;

impl Machine {
    /// One that is still to be started, and what will be heard of it.
    pub fn new() -> (Self, UnboundedReceiver<GuestEvent>) {
        let (events, heard) = unbounded_channel();
        (Self { gate: Arc::default(), events, running: None }, heard)
    }

    /// Start a QEMU that waits for a state, and its network.
    ///
    /// A bridge forwards to a new port only when the kernel has noticed that it is up, after up to a second:
    /// a standby has its TAP before it needs it.
    pub fn stand_by(&mut self, spec: &Spec) -> Result<(), MachineError> {
        self.start(spec, OutputPolicy::Discard, capture::Guest::standby, Disks::open(spec, true)?)
    }

    /// Its disks here.
    pub fn disks(&self) -> Arc<Disks> {
        self.running.as_ref().map(|running| Arc::clone(&running.disks)).unwrap_or_default()
    }

    fn start(
        &mut self,
        spec: &Spec,
        policy: OutputPolicy,
        start: Start,
        (disks, of_qemu_disks): (Disks, Vec<OwnedFd>),
    ) -> Result<(), MachineError> {
        let disks = Arc::new(disks);
        let Netdev { ours, of_qemu } = Netdev::pair()?;
        let relay = Arc::new(self.start_relay(spec, policy, ours)?);
        // As many as may be in flight, so that an engine never waits for the encoder; and the guest never for
        // both.
        let (parcels, to_encode) = mpsc::sync_channel(spec.epochs_in_flight + 1);
        let (give_back, spare) = mpsc::channel();
        let ram_pages = spec.machine.memory_bytes / PAGE_BYTES as u64;
        let staged_pages = usize::try_from(ram_pages).unwrap_or(usize::MAX);
        let encoder = Encoder { ram_pages, parcels: to_encode, spare: give_back, events: self.events.clone() };
        encoder.start()?;
        let longest_hold = Duration::from_nanos(spec.longest_hold_ns);
        let min_interval = spec.min_interval_ns.map(Duration::from_nanos);
        let pacing = Pacing::new(spec.interval, spec.first_interval()).on_demand(min_interval);
        let settings = EngineSettings {
            device_state: spec.device_state,
            pacing: if spec.mode.gates_on_ack() { pacing.for_holds_of(longest_hold) } else { pacing },
            host_folder: spec.host_folder().to_owned(),
            longest_first_pause: Duration::from_nanos(spec.longest_first_pause_ns),
            longest_hold,
            qemu_deadline: Duration::from_nanos(spec.qemu_deadline_ns),
            in_flight_limit: spec.epochs_in_flight as u64,
            relay: Arc::clone(&relay),
            disks: Arc::clone(&disks),
            disk_copy_bytes_per_s: spec.disk_copy_bytes_per_s,
            staging: StagingPool::start(spare, spec.epochs_in_flight, staged_pages)?,
            parcels,
            events: self.events.clone(),
        };
        let (machine, guest_settings) = (spec.machine.clone(), guest_settings(spec));
        let sockets = Sockets { netdev: of_qemu, disks: of_qemu_disks };
        let engine = EngineHandle::start(settings, move || start(&machine, &guest_settings, sockets))?;
        let port = PortWatch::new(&spec.network.tap, spec.network.bridge.as_deref(), spec.host_folder());
        self.running = Some(Running { engine, relay, port, disks });
        Ok(())
    }

    fn start_relay(&self, spec: &Spec, policy: OutputPolicy, netdev: UnixStream) -> Result<Relay, MachineError> {
        let guest: HardwareAddress = spec.machine.mac.parse()?;
        let tap = Tap::open(&TapSettings {
            name: spec.network.tap.clone(),
            bridge: spec.network.bridge.clone(),
            guest: Some(guest),
        })?;
        let settings = RelaySettings {
            limits: HoldLimits { bytes: spec.hold_bytes, ..HoldLimits::default() },
            bypass: if spec.mode == Mode::NetBypass {
                BypassRules::new(spec.bypass.clone())
            } else {
                BypassRules::default()
            },
            policy,
            ..RelaySettings::new(guest)
        };
        let events = self.events.clone();
        let tell = move |event| drop(events.send(GuestEvent::Relay(event)));
        Ok(Relay::start(netdev, tap, Arc::<LeaseGate>::clone(&self.gate), settings, tell)?)
    }

    fn output(&self, call: impl FnOnce(&Relay) -> Result<(), RelayError>) -> Result<(), RelayError> {
        self.running.as_ref().map_or(Ok(()), |running| call(&running.relay))
    }
}

impl Guest for Machine {
    fn boot(&mut self, spec: &Spec) -> Result<(), MachineError> {
        self.start(spec, OutputPolicy::Keep, capture::Guest::boot, Disks::open(spec, false)?)
    }

    fn order(&self, order: Order) {
        if let Some(running) = &self.running {
            running.engine.order(order);
        }
    }

    fn kill(&self) {
        if let Some(running) = &self.running {
            running.engine.kill();
        }
    }

    fn end(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.engine.end();
        }
    }

    fn permit(&self, permit: Permit) {
        self.gate.permit(permit);
        if let Some(running) = &self.running {
            running.relay.wake();
        }
    }

    fn set_output(&self, policy: OutputPolicy) -> Result<(), RelayError> {
        self.output(|relay| relay.set_policy(policy))
    }

    fn release(&self, through: Epoch) -> Result<(), RelayError> {
        self.output(|relay| relay.acknowledge(through))
    }

    fn announce(&self, addresses: &LearnedAddresses) -> Result<(), RelayError> {
        self.output(|relay| relay.announce(addresses))
    }

    fn learned_addresses(&self) -> Result<LearnedAddresses, RelayError> {
        let running = self.running.as_ref().ok_or(RelayError::Ended)?;
        running.relay.learned_addresses()
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        self.running.as_mut().and_then(|running| running.port.look().or_else(|| running.relay.fault()))
    }

    fn held(&self) -> (u64, u64) {
        let statistics = self.running.as_ref().and_then(|running| running.relay.statistics().ok());
        statistics.map_or((0, 0), |it| (it.hold.held_frames as u64, it.hold.held_bytes as u64))
    }

    fn disk_fault(&self) -> Option<String> {
        self.running.as_ref().and_then(|running| running.disks.recorder.fault())
    }
}

/// Both ends of the socket that is the guest's network card.
pub struct Netdev {
    pub ours: UnixStream,
    pub of_qemu: OwnedFd,
}

impl Netdev {
    pub fn pair() -> io::Result<Self> {
        let (ours, of_qemu) = UnixStream::pair()?;
        Ok(Self { ours, of_qemu: of_qemu.into() })
    }
}

/// Names the library that is preloaded into QEMU, where it is not beside this program.
const LIBRARY_VARIABLE: &str = "STEALTIME_PAGETRACK";

fn guest_settings(spec: &Spec) -> GuestSettings {
    let mut settings = GuestSettings::new(&spec.qemu, &spec.folder);
    settings.tracker = spec.tracker;
    settings.console_bytes = spec.log_bytes;
    settings.user.clone_from(&spec.qemu_user);
    if let Some(library) = std::env::var_os(LIBRARY_VARIABLE) {
        settings.library = Some(library.into());
    }
    settings
}

/// How a QEMU is started that only tries out a state: in a folder of its own, so that its words are its own.
pub fn trial_settings(spec: &Spec) -> GuestSettings {
    GuestSettings { folder: spec.folder.join("trial"), ..guest_settings(spec) }
}
