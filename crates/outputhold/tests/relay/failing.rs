//! The relay whose port or gate fails.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use crate::rig::{CountingGate, GUEST, Rig, frame};
use crate::socket_port::SocketPort;
use stealtime_outputhold::{FramePort, PortFault, RelayError, RelayEvent, RelaySettings};
use stealtime_succession::{Epoch, OutputPolicy, Standing};

/// A port whose writes fail in a given way.
struct FailingPort {
    port: SocketPort,
    errors: Vec<i32>,
}

impl std::os::fd::AsFd for FailingPort {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl FramePort for FailingPort {
    fn read_frame(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.port.read_frame(buffer)
    }

    fn write_frame(&mut self, frame: &[u8]) -> std::io::Result<()> {
        match self.errors.pop() {
            Some(code) => Err(std::io::Error::from_raw_os_error(code)),
            None => self.port.write_frame(frame),
        }
    }
}

fn rig_that_fails_first_with(errors: &[i32]) -> Rig {
    let (port, network) = UnixDatagram::pair().unwrap();
    port.set_nonblocking(true).unwrap();
    network.set_read_timeout(Some(crate::rig::PATIENCE)).unwrap();
    let port = FailingPort { port: SocketPort(port), errors: errors.to_vec() };
    let settings = RelaySettings { policy: OutputPolicy::Free, ..RelaySettings::new(GUEST) };
    Rig::with_port(port, network, settings, CountingGate::open())
}

#[test]
fn passing_troubles_of_the_port_delay_and_a_frame_it_can_never_take_is_left_out() {
    let mut rig = rig_that_fails_first_with(&[libc::EINVAL, libc::EIO, libc::ENOMEM, libc::ENOBUFS]);
    rig.guest_sends(&frame(1));
    rig.guest_sends(&frame(2));
    assert_eq!(rig.network_receives(), frame(2));
    let statistics = rig.relay.statistics().unwrap();
    assert_eq!((statistics.port_refusals, statistics.hold.refused.frames), (4, 1), "{statistics:?}");
}

#[test]
fn a_port_that_is_gone_is_told_once_and_nothing_leaves_any_more() {
    let mut rig = rig_that_fails_first_with(&[libc::EBADFD]);
    rig.guest_sends(&frame(1));
    let error = rig.event(|event| match event {
        RelayEvent::PortLost(error) => Some(error.raw_os_error()),
        _ => None,
    });
    assert_eq!(error, Some(libc::EBADFD));
    assert_eq!(rig.relay.fault(), Some(PortFault::TapLost), "also when another interface has its name");
    rig.guest_sends(&frame(2));
    rig.wait_until("it is held", |statistics| statistics.hold.held_frames == 2);
    assert!(rig.network_is_silent());
}

/// A gate that panics: as good as a failed assertion on the relay's thread.
struct FailingGate;

impl stealtime_outputhold::Gate for FailingGate {
    fn may_release(&self, _: Standing) -> bool {
        panic!("a gate that fails, on purpose")
    }
}

#[test]
fn a_failed_assertion_ends_the_relay_and_nothing_leaves() {
    let settings = RelaySettings { policy: OutputPolicy::Free, ..RelaySettings::new(GUEST) };
    let mut rig = Rig::start(settings, Arc::new(FailingGate));
    rig.guest_sends(&frame(1));
    rig.event(|event| matches!(event, RelayEvent::Ended).then_some(()));
    assert!(matches!(rig.relay.acknowledge(Epoch(1)), Err(RelayError::Ended)));
    assert_eq!(rig.relay.fault(), Some(PortFault::RelayEnded));
    assert!(rig.network_is_silent());
}
