//! The machine on this host: its QEMU with the engine, the encoder, and the relay of its network.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};
use stealtime_capture::{ExitWatch, Guest, GuestSettings, PAGE_BYTES};
use stealtime_outputhold::{
    BypassRules, HardwareAddress, HardwareAddressError, HoldLimits, Policy, Relay, RelayError, RelayEvent,
    RelaySettings, Tap, TapError, TapSettings,
};
use stealtime_succession::Mode;

use crate::encoder::{Encoder, EncoderEvent};
use crate::engine::{EngineEvent, EngineHandle, EngineSettings};
use crate::gate::LeaseGate;
use crate::pacing::Pacing;
use crate::spec::Spec;

/// Why a machine cannot be had here.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The hardware address is none.
    #[error(transparent)]
    Address(#[from] HardwareAddressError),
    /// There is no TAP.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// The relay does not start.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// Out of threads, sockets or descriptors.
    #[error("out of resources of the host: {0}")]
    Host(#[from] io::Error),
}

/// An event of a part of a machine.
pub enum MachineEvent {
    Engine(EngineEvent),
    Encoder(EncoderEvent),
    Relay(RelayEvent),
}

/// Who is told what happens; it changes when a machine that stood by becomes active.
pub struct Switchboard(Mutex<Hearer>);

/// Hears the events.
pub type Hearer = Box<dyn Fn(MachineEvent) + Send>;

impl Switchboard {
    pub fn new(hearer: Hearer) -> Arc<Self> {
        Arc::new(Self(Mutex::new(hearer)))
    }

    /// Tell another one from now on.
    pub fn switch(&self, hearer: Hearer) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hearer;
    }

    fn tell(&self, happening: MachineEvent) {
        (self.0.lock().unwrap_or_else(PoisonError::into_inner))(happening);
    }
}

/// A machine with its threads.
pub struct Machine {
    /// Takes orders for the guest.
    pub engine: EngineHandle,
}

impl Machine {
    /// Start a QEMU that will boot; its output goes to `relay`.
    pub fn boot(
        spec: &Spec,
        netdev: OwnedFd,
        relay: Arc<Relay>,
        switchboard: &Arc<Switchboard>,
    ) -> Result<Self, MachineError> {
        let settings = Self::parts(spec, Some(relay), switchboard)?;
        let (machine, guest_settings) = (spec.machine.clone(), guest_settings(spec));
        let engine = EngineHandle::start(settings, move || Guest::boot(&machine, &guest_settings, netdev))?;
        Ok(Self { engine })
    }

    /// Start a QEMU that waits for a state; and our end of its network.
    pub fn stand_by(spec: &Spec, switchboard: &Arc<Switchboard>) -> Result<(Self, UnixStream), MachineError> {
        let netdev = Netdev::pair()?;
        let settings = Self::parts(spec, None, switchboard)?;
        let (machine, guest_settings) = (spec.machine.clone(), guest_settings(spec));
        let engine =
            EngineHandle::start(settings, move || Guest::standby(&machine, &guest_settings, netdev.of_qemu))?;
        Ok((Self { engine }, netdev.ours))
    }

    fn parts(
        spec: &Spec,
        relay: Option<Arc<Relay>>,
        switchboard: &Arc<Switchboard>,
    ) -> Result<EngineSettings, MachineError> {
        // As many as may be in flight, so that an engine never waits for the encoder; and the guest never for
        // both.
        let (parcels, to_encode) = mpsc::sync_channel(spec.epochs_in_flight + 1);
        let (give_back, spare) = mpsc::channel();
        let board = Arc::clone(switchboard);
        let encoder = Encoder {
            ram_pages: spec.machine.memory_bytes / PAGE_BYTES as u64,
            parcels: to_encode,
            spare: give_back,
            told: Box::new(move |sent| board.tell(MachineEvent::Encoder(sent))),
        };
        encoder.start()?;
        let board = Arc::clone(switchboard);
        let settings = EngineSettings {
            device_state: spec.device_state,
            pacing: Pacing::new(spec.interval, spec.first_interval()),
            host_folder: spec.folder.parent().unwrap_or(&spec.folder).to_owned(),
            longest_first_pause: Duration::from_nanos(spec.longest_first_pause_ns),
            qemu_deadline: Duration::from_nanos(spec.qemu_deadline_ns),
            in_flight_limit: spec.epochs_in_flight as u64,
            holds_output: spec.mode.gates_on_ack(),
            relay,
            spare,
            parcels,
            told: Box::new(move |told| board.tell(MachineEvent::Engine(told))),
        };
        Ok(settings)
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

/// Make the TAP and start the relay; nothing leaves until the gate opens.
///
/// A bridge forwards to a new port only when the kernel has noticed that it is up, after up to a second: a
/// standby has its TAP before it needs it, with [`Policy::Closed`].
pub fn start_relay(
    spec: &Spec,
    policy: Policy,
    netdev: UnixStream,
    gate: Arc<LeaseGate>,
    switchboard: &Arc<Switchboard>,
) -> Result<Relay, MachineError> {
    let guest: HardwareAddress = spec.machine.mac.parse()?;
    let tap = Tap::open(&TapSettings {
        name: spec.network.tap.clone(),
        bridge: spec.network.bridge.clone(),
        guest: Some(guest),
        ..TapSettings::default()
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
    let board = Arc::clone(switchboard);
    Ok(Relay::start(netdev, tap, gate, settings, move |event| board.tell(MachineEvent::Relay(event)))?)
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

/// Tell when a QEMU has ended, and how.
pub fn watch(exit: ExitWatch, ended: impl FnOnce(ExitStatus) + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("qemu-watch".to_owned()).spawn(move || ended(exit.wait()))?;
    Ok(())
}

/// Kill a QEMU at once, whatever its engine is waiting for.
pub fn kill(pidfd: &impl AsFd) {
    // If it is gone, that is what was wanted.
    let _ = pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
}
