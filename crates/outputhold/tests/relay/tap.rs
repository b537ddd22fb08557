//! A real TAP on a real bridge, seen from another network namespace.
//!
//! Both namespaces belong to threads of this test and end with it, whatever happens; nothing is made on the
//! host.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::rig::{CountingGate, GUEST, PATIENCE, Rig, frame};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use nix::unistd::gettid;
use stealtime_outputhold::{LearnedAddresses, ROUNDS, RelaySettings, Tap, TapError, TapSettings};
use stealtime_succession::{Epoch, OutputPolicy};

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Wait until what `ip -d link show` says of an interface contains this.
///
/// A link that comes up is taken into use by the kernel's link watch, up to a second later; until then a
/// bridge does not forward to it, and what is sent on it is dropped.
fn wait_for_link(interface: &str, fact: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let output = Command::new("ip").args(["-d", "link", "show", "dev", interface]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        if text.contains(fact) {
            return;
        }
        assert!(Instant::now() < end, "{interface} should be {fact}: {text}");
        std::thread::yield_now();
    }
}

/// Wait until an interface is gone.
///
/// Closing a TAP removes it at once, unless another thread is just starting a program: the child has all
/// descriptors until it is that program.
fn wait_until_gone(interface: &str) {
    let end = Instant::now() + PATIENCE;
    while if_nametoindex(interface).is_ok() {
        assert!(Instant::now() < end, "{interface} should be gone");
        std::thread::yield_now();
    }
}

/// A name that tells whose it is.
fn name(of: &str) -> String {
    format!("stt{}{of}", std::process::id())
}

/// Run on a thread in a new network namespace, as the host.
fn on_a_host(test: impl FnOnce() + Send + 'static) {
    let host = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace");
        test();
    });
    if let Err(panic) = host.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A machine on the same bridge: all that it hears, and a socket to speak.
struct Peer {
    ear: OwnedFd,
    mouth: UdpSocket,
}

impl Peer {
    /// Join the bridge of the calling thread's namespace from a namespace of its own.
    fn join(bridge: &str) -> Self {
        let (here, there) = (name("h"), name("p"));
        ip(&format!("link add {here} type veth peer name {there}"));
        ip(&format!("link set {here} master {bridge} up"));
        let (send_thread, thread) = mpsc::channel();
        let (moved, wait_until_moved) = mpsc::channel::<()>();
        let interface = there.clone();
        let peer = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            send_thread.send(gettid()).unwrap();
            wait_until_moved.recv().unwrap();
            let ear =
                socket::socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
                    .unwrap();
            setsockopt(&ear, sockopt::ReceiveTimeout, &TimeVal::new(60, 0)).unwrap();
            ip(&format!("address add 192.0.2.20/24 broadcast 192.0.2.255 dev {interface}"));
            ip(&format!("link set {interface} up"));
            wait_for_link(&interface, "state UP");
            let mouth = UdpSocket::bind("192.0.2.20:0").unwrap();
            mouth.set_broadcast(true).unwrap();
            Self { ear, mouth }
        });
        ip(&format!("link set {there} netns {}", thread.recv().unwrap()));
        moved.send(()).unwrap();
        let peer = peer.join().unwrap();
        wait_for_link(&here, "state forwarding");
        peer
    }

    /// The next frame of the guest.
    fn hears(&self) -> Vec<u8> {
        let mut buffer = vec![0; 2000];
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "a frame of the guest should have arrived");
            let length = socket::recv(self.ear.as_raw_fd(), &mut buffer, socket::MsgFlags::empty())
                .expect("a frame should have arrived");
            if buffer[..length].get(6..12) == Some(GUEST.0.as_slice()) {
                return buffer[..length].to_vec();
            }
        }
    }
}

fn bridge_and_tap() -> (String, Tap) {
    let bridge = name("b");
    ip(&format!("link add {bridge} type bridge"));
    ip(&format!("link set {bridge} up"));
    let settings = TapSettings { name: name("t"), bridge: Some(bridge.clone()), guest: Some(GUEST) };
    let tap = Tap::open(&settings).unwrap();
    wait_for_link(tap.name(), "state forwarding");
    (bridge, tap)
}

#[test]
#[ignore = "makes network namespaces: needs root"]
fn the_mtu_of_a_bridge_stays_when_a_guest_comes_and_goes() {
    on_a_host(|| {
        for mtu in [1400, 9000] {
            let (bridge, port) = (name("m"), name("o"));
            ip(&format!("link add {bridge} type bridge"));
            ip(&format!("link add {port} mtu {mtu} type veth peer name {}", name("q")));
            ip(&format!("link set {port} master {bridge} up"));
            ip(&format!("link set {bridge} up"));
            let has_mtu = |interface: &str| {
                let shown = Command::new("ip").args(["link", "show", interface]).output().unwrap();
                String::from_utf8(shown.stdout).unwrap().contains(&format!("mtu {mtu} "))
            };
            assert!(has_mtu(&bridge));
            let settings = TapSettings { name: name("t"), bridge: Some(bridge.clone()), guest: Some(GUEST) };
            let tap = Tap::open(&settings).unwrap();
            assert!(has_mtu(tap.name()) && has_mtu(&bridge), "{mtu}");
            drop(tap);
            assert!(has_mtu(&bridge), "{mtu}");
            ip(&format!("link delete {bridge}"));
            ip(&format!("link delete {port}"));
        }
    });
}

#[test]
#[ignore = "makes network namespaces: needs root"]
fn the_address_of_a_bridge_stays_when_a_guest_comes_and_goes() {
    on_a_host(|| {
        // A bridge has the lowest address of its ports. Who talks with its host would go on to write to the one before.
        let (bridge, port) = (name("m"), name("o"));
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("link add {port} address fe:99:01:02:03:04 type veth peer name {}", name("q")));
        ip(&format!("link set {port} master {bridge} up"));
        ip(&format!("link set {bridge} up"));
        let is_as_before = || {
            let shown = Command::new("ip").args(["link", "show", &bridge]).output().unwrap();
            String::from_utf8(shown.stdout).unwrap().contains("fe:99:01:02:03:04")
        };
        assert!(is_as_before());
        let settings = TapSettings { name: name("t"), bridge: Some(bridge.clone()), guest: Some(GUEST) };
        let tap = Tap::open(&settings).unwrap();
        assert!(is_as_before());
        drop(tap);
        assert!(is_as_before());
        ip(&format!("link delete {bridge}"));
        ip(&format!("link delete {port}"));
    });
}

#[test]
#[ignore = "makes network namespaces: needs root"]
fn frames_and_announcements_pass_a_bridge_and_the_tap_ends_with_the_relay() {
    on_a_host(|| {
        let (bridge, tap) = bridge_and_tap();
        let tap_name = tap.name().to_owned();
        let peer = Peer::join(&bridge);
        let described = Command::new("ip").args(["-d", "link", "show", &tap_name]).output().unwrap();
        let described = String::from_utf8(described.stdout).unwrap();
        for fact in ["mtu 1500", "fe:ff:00:12:34:56", "bridge_slave", "tun type tap pi off"] {
            assert!(described.contains(fact), "{fact} in {described}");
        }

        let (_, unused) = UnixDatagram::pair().unwrap();
        let mut rig = Rig::with_port(tap, unused, RelaySettings::new(GUEST), CountingGate::open());
        let arp = [
            [0xff; 6].as_slice(),
            &GUEST.0,
            &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1],
            &GUEST.0,
            &[192, 0, 2, 10, 0, 0, 0, 0, 0, 0, 192, 0, 2, 20],
        ]
        .concat();
        rig.guest_sends(&arp);
        rig.relay.drain_and_cut(Epoch(1)).unwrap();
        rig.relay.announce(&LearnedAddresses::default()).unwrap();
        rig.wait_until("it is announced", |statistics| statistics.announced.frames >= 2);
        rig.relay.acknowledge(Epoch(1)).unwrap();
        // Had the announcement not waited for an epoch of its own, it would have come first.
        assert_eq!(peer.hears()[..42], arp, "the request itself");
        rig.relay.set_policy(OutputPolicy::Free).unwrap();
        for round in ROUNDS {
            assert_eq!(peer.hears()[12..14], [0x80, 0x35], "round {round:?}");
            assert_eq!(peer.hears()[12..22], [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1], "round {round:?}");
        }

        // A greeting may be lost on a link that is just coming up, so it is repeated until it is heard.
        let was_heard = AtomicBool::new(false);
        let end = Instant::now() + PATIENCE;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !was_heard.load(Ordering::Relaxed) && Instant::now() < end {
                    peer.mouth.send_to(b"hello guest", "192.0.2.255:7777").unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            while !rig.guest_receives().ends_with(b"hello guest") {
                assert!(Instant::now() < end, "the kernel of the peer says other things, but no greeting comes");
            }
            was_heard.store(true, Ordering::Relaxed);
        });

        // What the driver refuses does not stop what follows; what is down only waits.
        rig.guest_sends(&[0; 5]);
        rig.guest_sends(&frame(1));
        assert_eq!(peer.hears()[..60], frame(1));
        assert_eq!(rig.relay.statistics().unwrap().hold.refused.frames, 1);
        ip(&format!("link set {tap_name} down"));
        rig.guest_sends(&frame(2));
        rig.wait_until("the frame waits", |statistics| statistics.port_refusals > 1);
        // The bridge does not forward at once, so the frame is repeated until it is heard, as any peer would
        // do.
        ip(&format!("link set {tap_name} up"));
        wait_for_link(&tap_name, "state forwarding");
        rig.guest_sends(&frame(2));
        assert_eq!(peer.hears()[..60], frame(2));

        assert!(if_nametoindex(tap_name.as_str()).is_ok());
        drop(rig);
        wait_until_gone(&tap_name);
    });
}

#[test]
#[ignore = "makes network namespaces: needs root"]
fn a_tap_that_somebody_deletes_is_told() {
    on_a_host(|| {
        let (_, tap) = bridge_and_tap();
        let tap_name = tap.name().to_owned();
        let (_, unused) = UnixDatagram::pair().unwrap();
        let rig = Rig::with_port(tap, unused, RelaySettings::new(GUEST), CountingGate::open());
        ip(&format!("link delete {tap_name}"));
        let error = rig.event(|event| match event {
            stealtime_outputhold::RelayEvent::PortLost(error) => Some(error.raw_os_error()),
            _ => None,
        });
        assert_eq!(error, Some(libc::EBADFD), "{:?}", error.map(io::Error::from_raw_os_error));
    });
}

#[test]
#[ignore = "makes network namespaces: needs root"]
fn what_is_in_the_way_of_a_tap_is_named() {
    on_a_host(|| {
        let settings = TapSettings { name: name("t"), ..TapSettings::default() };
        let tap = Tap::open(&settings).unwrap();
        let second = Tap::open(&settings).unwrap_err();
        assert!(matches!(&second, TapError::Exists(name) if *name == settings.name), "{second}");
        drop(tap);
        wait_until_gone(&settings.name);
        let lost = TapSettings { bridge: Some("nowhere".to_owned()), ..settings.clone() };
        let no_bridge = Tap::open(&lost).unwrap_err();
        assert!(matches!(&no_bridge, TapError::NoBridge(bridge) if bridge == "nowhere"), "{no_bridge}");
        let no_bridge = Tap::open(&TapSettings { bridge: Some("lo".to_owned()), ..settings.clone() }).unwrap_err();
        assert!(matches!(&no_bridge, TapError::NoBridge(bridge) if bridge == "lo"), "{no_bridge}");
        wait_until_gone(&settings.name);
    });
}

#[test]
fn names_that_are_none_are_refused_before_anything_is_made() {
    for wrong in ["", "a/b", "..", "a b", "tap%d", "sixteen-letters-"] {
        let error = Tap::open(&TapSettings { name: wrong.to_owned(), ..TapSettings::default() }).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{wrong:?} cannot name a TAP")), "{error}");
    }
}
