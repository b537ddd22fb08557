//! A relay between two sockets: the test is QEMU on one side and the network on the other.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use stealtime_outputhold::{FramePort, Gate, HardwareAddress, Relay, RelayEvent, RelaySettings};
use stealtime_succession::Standing;

use crate::socket_port::SocketPort;

pub const GUEST: HardwareAddress = HardwareAddress([0x52, 0x54, 0, 0x12, 0x34, 0x56]);

/// Nothing here takes as long, not even on a machine with much else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A gate that lets so many frames through.
pub struct CountingGate(AtomicI64);

impl CountingGate {
    pub fn open() -> Arc<Self> {
        Self::for_frames(i64::MAX)
    }

    pub fn for_frames(count: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(count)))
    }

    pub fn set(&self, count: i64) {
        self.0.store(count, Ordering::SeqCst);
    }
}

impl Gate for CountingGate {
    fn may_release(&self, _: Standing) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) > 0
    }
}

pub struct Rig {
    pub relay: Relay,
    pub qemu: UnixStream,
    pub network: UnixDatagram,
    pub events: Receiver<RelayEvent>,
}

impl Rig {
    pub fn start(settings: RelaySettings, gate: Arc<dyn Gate>) -> Self {
        let (port, network) = UnixDatagram::pair().unwrap();
        port.set_nonblocking(true).unwrap();
        network.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::with_port(SocketPort(port), network, settings, gate)
    }

    pub fn with_port(
        port: impl FramePort + 'static,
        network: UnixDatagram,
        settings: RelaySettings,
        gate: Arc<dyn Gate>,
    ) -> Self {
        let (netdev, qemu) = UnixStream::pair().unwrap();
        qemu.set_read_timeout(Some(PATIENCE)).unwrap();
        let (sender, events) = mpsc::channel();
        let on_event = move |event| drop(sender.send(event));
        let relay = Relay::start(netdev, port, gate, settings, on_event).unwrap();
        Self { relay, qemu, network, events }
    }

    pub fn guest_sends(&mut self, frame: &[u8]) {
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        self.qemu.write_all(&[&length, frame].concat()).unwrap();
    }

    /// The next frame that the guest gets.
    pub fn guest_receives(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.qemu.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.qemu.read_exact(&mut frame).unwrap();
        frame
    }

    /// The next frame that leaves.
    pub fn network_receives(&self) -> Vec<u8> {
        let mut buffer = vec![0; 70_000];
        let length = self.network.recv(&mut buffer).expect("a frame should have left");
        buffer.truncate(length);
        buffer
    }

    /// Nothing has left that was not received.
    pub fn network_is_silent(&self) -> bool {
        self.network.set_nonblocking(true).unwrap();
        let received = self.network.recv(&mut [0; 1]);
        self.network.set_nonblocking(false).unwrap();
        received.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Wait until the relay's numbers are so.
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&stealtime_outputhold::RelayStatistics) -> bool) {
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let statistics = self.relay.statistics().unwrap();
            if is_so(&statistics) {
                return;
            }
            assert!(std::time::Instant::now() < end, "{what}: {statistics:?}");
            std::thread::yield_now();
        }
    }

    /// The next event that `choose` takes.
    pub fn event<T>(&self, choose: impl Fn(&RelayEvent) -> Option<T>) -> T {
        loop {
            let event = self.events.recv_timeout(PATIENCE).expect("the event should have come");
            if let Some(chosen) = choose(&event) {
                return chosen;
            }
        }
    }
}

/// A frame of the guest with a number in it.
pub fn frame(number: u32) -> Vec<u8> {
    let mut frame = [[0x52, 0x54, 0, 0, 0, 1], GUEST.0].concat();
    frame.extend_from_slice(&[0x88, 0xb5]);
    frame.extend_from_slice(&number.to_be_bytes());
    frame.resize(60, 0);
    frame
}
