//! The engine's thread as others hold it: how it is started with its guest, told what to do, and ended.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};
use stealtime_capture::{DeviceState, DeviceStateKind, ExitWatch, Guest, GuestError, parse_blocks};
use stealtime_outputhold::Relay;
use tokio::sync::mpsc::UnboundedSender;

use super::Engine;
use super::staging_pool::StagingPool;
use crate::disks::Disks;
use crate::encoder::Parcel;
use crate::guest::{CaptureError, GuestEvent, GuestFacts, Order};
use crate::pacing::Pacing;
use crate::thread_priority;

/// What the thread is started with.
pub struct EngineSettings {
    pub device_state: DeviceStateKind,
    pub pacing: Pacing,
    /// Where members of this host agree on who stops its guest when.
    pub host_folder: PathBuf,
    /// How long the first whole epoch may take until its standby has it, where pages are written faster than they are
    /// shipped. This is held against an estimate, how long the last round took: it may take longer in the end.
    pub longest_first_pause: Duration,
    /// How long output may wait for its acknowledgement: a guest that writes more than the standby takes in that
    /// time is held back.
    pub longest_hold: Duration,
    /// How long QEMU may take to answer once it has started.
    pub qemu_deadline: Duration,
    /// How many epochs may be captured and not acknowledged.
    pub in_flight_limit: u64,
    /// The guest's output.
    pub relay: Arc<Relay>,
    /// The guest's disks.
    pub disks: Arc<Disks>,
    /// How fast they are copied at most.
    pub disk_copy_bytes_per_s: Option<NonZeroU64>,
    /// What pages are copied into.
    pub staging: StagingPool,
    pub parcels: SyncSender<Parcel>,
    pub events: UnboundedSender<GuestEvent>,
}

pub struct EngineHandle {
    orders: Sender<Order>,
    thread: Option<thread::JoinHandle<()>>,
    /// The process of QEMU, once there is one.
    qemu: Arc<OnceLock<OwnedFd>>,
}

impl EngineHandle {
    /// Start the thread, which makes the guest by `make` and then takes orders.
    pub fn start(
        settings: EngineSettings,
        make: impl FnOnce() -> Result<Guest, GuestError> + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, orders) = mpsc::channel();
        let qemu = Arc::new(OnceLock::new());
        let of_thread = Arc::clone(&qemu);
        let thread = thread::Builder::new().name("engine".to_owned()).spawn(move || {
            // QEMU is nobody special, also if this process is.
            thread_priority::reset();
            let made = made(make, settings.device_state, settings.qemu_deadline);
            thread_priority::raise();
            let events = settings.events.clone();
            match made.and_then(|made| Engine::new(made, settings, orders, &of_thread)) {
                Ok(engine) => engine.run(),
                // Nobody is left to hear it if the member has ended.
                Err(error) => drop(events.send(GuestEvent::NoGuest(error))),
            }
        })?;
        Ok(Self { orders: sender, thread: Some(thread), qemu })
    }

    /// Kill QEMU at once, whatever the thread is waiting for.
    pub fn kill(&self) {
        if let Some(qemu) = self.qemu.get() {
            kill_qemu(qemu);
        }
    }

    /// Tell it what to do; an engine that failed has told so.
    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// End the guest, and wait until it is gone.
    pub fn end(&mut self) {
        self.order(Order::End);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it happened, and the guest died with it.
            let _ = thread.join();
        }
    }
}

pub(super) type Made = (Guest, Box<dyn DeviceState>, GuestFacts);

fn made(
    make: impl FnOnce() -> Result<Guest, GuestError>,
    kind: DeviceStateKind,
    qemu_deadline: Duration,
) -> Result<Made, CaptureError> {
    let mut guest = make()?;
    // It had longer to start.
    guest.qmp.set_timeout(qemu_deadline);
    let mut devices = guest.device_state(kind)?;
    devices.prepare(&mut guest.qmp)?;
    let blocks = parse_blocks(&guest.qmp.execute_human("info ramblock")?).map_err(GuestError::from)?;
    let facts = GuestFacts {
        qemu_version: guest.qmp.version(),
        qemu_pid: guest.process().pid(),
        ram: Arc::clone(&guest.ram),
        ram_blocks: blocks
            .into_iter()
            .map(|block| stealtime_shipping::RamBlock { name: block.name, bytes: block.used_bytes })
            .collect(),
        tracker: guest.tracked.tracker_name(),
        refused_trackers: guest.refused_trackers.iter().map(ToString::to_string).collect(),
    };
    Ok((guest, devices, facts))
}

/// Tell when a QEMU has ended, and how.
pub(super) fn watch(exit: ExitWatch, events: UnboundedSender<GuestEvent>) -> io::Result<()> {
    let ended = move || drop(events.send(GuestEvent::Exited(exit.wait())));
    thread::Builder::new().name("qemu-watch".to_owned()).spawn(ended).map(drop)
}

/// Kill a QEMU at once, whatever its engine is waiting for.
pub fn kill_qemu(pidfd: &impl AsFd) {
    // If it is gone, that is what was wanted.
    let _ = pidfd_send_signal(pidfd.as_fd(), Signal::KILL);
}
