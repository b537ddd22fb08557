//! The engine, over a QEMU that answers as a test wants.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use stealtime_capture::{DeviceStateKind, GuestSettings, MachineSpec, QemuUser, TrackerKind};
use stealtime_outputhold::{HardwareAddress, Relay, RelaySettings};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::socket_port::SocketPort;
use super::*;
use crate::gate::LeaseGate;
use crate::guest::{Advance, GuestFacts};
use crate::machine::Netdev;
use crate::pacing::Pacing;
use crate::spec::Interval;
use crate::test_machine::machine;

#[path = "../../../outputhold/tests/relay/socket_port.rs"]
mod socket_port;

/// Long, as other tests may keep the processors busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// In which it is copied.
const TERM: Term = Term(4);

/// How long this QEMU may take to answer: long enough for what it does answer.
const DEADLINE: Duration = Duration::from_secs(1);

/// More than are copied within no time, see `rounds`.
const PAGES: u64 = 1024;

/// Answers each command, after what stands for BEFORE. With SIGUSR1 its guest stands by itself, for good.
const QEMU: &str = r#"#!/usr/bin/python3
import json, re, signal, socket, sys, time

if sys.argv[1] == "-L":
    sys.exit(print("FOLDER"))
words = " ".join(sys.argv)
monitor = socket.socket(fileno=int(re.search(r"id=qmp,fd=(\d+)", words)[1]))
size = int(re.search(r"-m size=(\d+)B", words)[1])
status = "running"

def say(**thing):
    monitor.sendall(json.dumps(thing).encode() + b"\n")

def tell(name, **data):
    say(event=name, data=data)

def stand_by_itself(*_):
    global status
    status = "internal-error"
    tell("STOP")

signal.signal(signal.SIGUSR1, stand_by_itself)
say(QMP={"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": []})
for line in monitor.makefile():
    command = json.loads(line)
    name, number = command["execute"], command["id"]
    answers = {
        "human-monitor-command": f"pc.ram 4 KiB 0x0 0x{size:x} 0x{size:x}\n",
        "qom-list": [],
        "query-block": [],
        "query-status": {"status": status, "running": status == "running"},
    }
    BEFORE
    say(**{"return": answers.get(name, {}), "id": number})
"#;

/// An engine whose guest stands by.
struct Bench {
    engine: EngineHandle,
    facts: GuestFacts,
    told: UnboundedReceiver<GuestEvent>,
    parcels: Receiver<Parcel>,
    relay: Arc<Relay>,
    folder: TempDir,
    /// Those of the copy in advance that were shipped.
    rounds: u8,
    /// What came instead of one.
    ahead: Option<Parcel>,
}

impl Bench {
    fn start(before: &str) -> Self {
        Self::start_with(before, |_| ())
    }

    /// With other settings than those here.
    fn start_with(before: &str, change: impl FnOnce(&mut EngineSettings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spec = prepare(folder.path(), before);
        let (events, mut told) = unbounded_channel();
        let relay = relay();
        let (parcels, taken) = mpsc::sync_channel(8);
        let mut settings = EngineSettings {
            device_state: DeviceStateKind::XenSave,
            // No round is as short.
            pacing: Pacing::new(Interval::FixedNs(1), Duration::from_nanos(1)),
            host_folder: folder.path().to_owned(),
            longest_first_pause: Duration::ZERO,
            longest_hold: Duration::from_secs(1),
            qemu_deadline: DEADLINE,
            in_flight_limit: 4,
            relay: Arc::clone(&relay),
            disks: Arc::default(),
            disk_copy_bytes_per_s: None,
            staging: StagingPool::start(mpsc::channel().1, 4, 1024).unwrap(),
            parcels,
            events,
        };
        change(&mut settings);
        // A user of its own could not enter the folder.
        let root = rustix::process::geteuid().is_root();
        let user = root.then(|| QemuUser { uid: 0, gid: 0, groups: Vec::new() });
        let guest_settings = GuestSettings {
            library: None,
            tracker: Some(TrackerKind::Shadow),
            user,
            ..GuestSettings::new(&folder.path().join("qemu"), folder.path())
        };
        let netdev = Netdev::pair().unwrap().of_qemu;
        let engine = EngineHandle::start(settings, move || Guest::standby(&spec, &guest_settings, netdev)).unwrap();
        let facts = match next(&mut told) {
            GuestEvent::Ready(facts) => facts,
            GuestEvent::NoGuest(error) => panic!("{error}"),
            _ => panic!("something else was told"),
        };
        Self { engine, facts, told, parcels: taken, relay, folder, rounds: 0, ahead: None }
    }

    /// Let the guest run, and begin to copy it.
    fn copy(&mut self, first: Epoch) {
        self.engine.order(Order::ContinueGuest);
        assert!(matches!(self.told(), GuestEvent::Continued));
        self.engine.order(Order::FullCopy { term: TERM, first });
    }

    /// What QEMU was told last: to stop the guest, or to let it go on.
    fn told_qemu(&self) -> String {
        fs::read_to_string(self.folder.path().join("told")).unwrap_or_default()
    }

    /// Nobody takes epochs any more: the guest runs, and is not stopped again.
    fn goes_on_for_good(&self) {
        self.engine.order(Order::Rest);
        self.awaits("cont");
        thread::sleep(Duration::from_millis(200));
        assert_eq!(self.told_qemu(), "cont");
    }

    fn awaits(&self, command: &str) {
        let began = Instant::now();
        while self.told_qemu() != command {
            assert!(began.elapsed() < PATIENCE, "QEMU was not told to `{command}`");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the guest was ever to stop.
    fn was_stopped(&self) -> bool {
        self.folder.path().join("stop").exists()
    }

    /// Be the line and the standby of a guest that writes all its memory in no time, for one round that takes so long,
    /// if there is one.
    fn ship_round(&mut self, takes: impl Fn(&Self) -> Duration) {
        let parcel = self.parcels.recv_timeout(Duration::from_millis(10)).ok();
        let Some(Parcel::Part { head, is_last: true, .. }) = parcel else {
            self.ahead = self.ahead.take().or(parcel);
            return;
        };
        self.rounds = self.rounds.wrapping_add(1);
        for page in 0..PAGES {
            self.facts.ram.write_page(page, &[self.rounds; PAGE_BYTES]).unwrap();
        }
        thread::sleep(takes(self));
        self.engine.order(Order::CopyHeld { term: head.term });
    }

    /// Ship rounds until that is over; gives how it went.
    fn ship_rounds(&mut self, takes: impl Fn(&Self) -> Duration) -> Advance {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "no end after {} rounds", self.rounds);
            self.ship_round(&takes);
            if let Ok(GuestEvent::Advanced(advance)) = self.told.try_recv() {
                return advance;
            }
        }
    }

    /// The next thing of some importance.
    fn told(&mut self) -> GuestEvent {
        loop {
            match next(&mut self.told) {
                GuestEvent::Noticed(_) | GuestEvent::Advanced(_) => {}
                told => return told,
            }
        }
    }

    /// These epochs are captured and no more; the output was cut at `last`.
    fn captures(&mut self, epochs: &[u64], last: u64) {
        for &number in epochs {
            let GuestEvent::Captured { epoch, is_last: false } = self.told() else { panic!("no {number}") };
            assert_eq!(epoch, Epoch(number));
            let parcel = self.ahead.take().map_or_else(|| self.parcels.recv_timeout(PATIENCE), Ok);
            let Ok(Parcel::Epoch { devices, row, .. }) = parcel else { panic!("{number} is not shipped") };
            assert_eq!((&devices[..], row.epoch), (&b"QEVM"[..], number));
        }
        thread::sleep(Duration::from_millis(100));
        assert!(self.parcels.try_recv().is_err(), "more than {epochs:?}");
        assert_eq!(self.relay.statistics().unwrap().hold.last_cut, Epoch(last));
    }
}

fn next(told: &mut UnboundedReceiver<GuestEvent>) -> GuestEvent {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match told.try_recv() {
            Ok(event) => return event,
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    panic!("nothing was told");
}

impl Drop for Bench {
    fn drop(&mut self) {
        // An engine that waits for the encoder hears that there is none.
        self.parcels = mpsc::sync_channel(0).1;
        self.engine.end();
    }
}

fn prepare(folder: &Path, before: &str) -> MachineSpec {
    let path = |name: &str| folder.join(name);
    for name in ["bios-256k.bin", "image"] {
        fs::write(path(name), "").unwrap();
    }
    let script = QEMU.replace("BEFORE", before).replace("FOLDER", &folder.display().to_string());
    fs::write(path("qemu"), script).unwrap();
    fs::set_permissions(path("qemu"), fs::Permissions::from_mode(0o755)).unwrap();
    MachineSpec { memory_bytes: PAGES * PAGE_BYTES as u64, ..machine(&path("image")) }
}

fn relay() -> Arc<Relay> {
    let (port, _) = UnixDatagram::pair().unwrap();
    port.set_nonblocking(true).unwrap();
    let settings = RelaySettings::new(HardwareAddress([0x52, 0x54, 0, 0, 0, 1]));
    let gate = Arc::new(LeaseGate::default());
    let netdev = Netdev::pair().unwrap().ours;
    Arc::new(Relay::start(netdev, SocketPort(port), gate, settings, |_| ()).unwrap())
}

#[test]
fn a_load_may_take_longer_than_an_answer() {
    let slow = "if name == 'cont': time.sleep(2); tell('MIGRATION', status='completed')";
    let mut bench = Bench::start(slow);
    bench.engine.order(Order::Load { state: b"QEVM".to_vec(), runs: true });
    match bench.told() {
        GuestEvent::Continued => {}
        GuestEvent::CaptureFailed { reason, .. } => panic!("{reason}"),
        _ => panic!("something else was told"),
    }
}

#[test]
fn after_a_load_qemu_is_given_up_as_soon_as_before() {
    let silent = "if name == 'cont': tell('MIGRATION', status='completed')\n    if name == 'stop': continue";
    let mut bench = Bench::start(silent);
    bench.engine.order(Order::Load { state: b"QEVM".to_vec(), runs: true });
    assert!(matches!(bench.told(), GuestEvent::Continued));
    bench.engine.order(Order::StopGuest);
    let GuestEvent::CaptureFailed { reason, is_lost, .. } = bench.told() else { panic!("it does not answer") };
    assert!(is_lost && reason.contains("within 1000 ms"), "{reason}");
}

#[test]
fn a_guest_of_which_qemu_says_nothing_is_lost() {
    let refuses = "if name == 'stop': say(error={'class': 'GenericError', 'desc': 'no'}, id=number)\n    \
                   if name in ('stop', 'query-status'): continue";
    let mut bench = Bench::start(refuses);
    bench.engine.order(Order::StopGuest);
    let GuestEvent::CaptureFailed { reason, is_lost, .. } = bench.told() else { panic!("it was refused") };
    assert!(is_lost && reason.contains("refused `stop`"), "{reason}");
}

#[test]
fn a_guest_that_stands_by_itself_is_noticed_between_rounds() {
    let mut bench = Bench::start("pass");
    bench.copy(Epoch(1));
    let began = Instant::now();
    let (reason, is_lost) = loop {
        assert!(began.elapsed() < PATIENCE, "nothing was noticed within {} rounds", bench.rounds);
        bench.ship_round(|bench| {
            if bench.rounds == 2 {
                let qemu = Pid::from_raw(i32::try_from(bench.facts.qemu_pid).unwrap()).unwrap();
                kill_process(qemu, Signal::USR1).unwrap();
            }
            Duration::ZERO
        });
        if let Ok(GuestEvent::CaptureFailed { reason, is_lost, .. }) = bench.told.try_recv() {
            break (reason, is_lost);
        }
    };
    assert!(is_lost && reason.contains("`internal-error`"), "{reason}");
}

/// Saves the state of no devices, and notes whether the guest is to run, and what it was told.
const SAVES: &str = "if name == 'xen-save-devices-state': open(command['arguments']['filename'], 'wb').write(b'QEVM')
    if name in ('stop', 'cont'):
        open('FOLDER/told', 'w').write(name)
        open('FOLDER/' + name, 'w').close()";

/// A guest whose first epoch is captured.
fn first_epoch() -> Bench {
    first_epoch_with(|_| ())
}

fn first_epoch_with(change: impl FnOnce(&mut EngineSettings)) -> Bench {
    let mut bench = Bench::start_with(SAVES, change);
    bench.copy(Epoch(3));
    assert!(matches!(bench.parcels.recv_timeout(PATIENCE), Ok(Parcel::Part { is_last: true, .. })));
    bench.engine.order(Order::CopyHeld { term: TERM });
    bench.captures(&[3], 3);
    bench
}

#[test]
fn a_guest_whose_next_epoch_has_no_room_stands_and_goes_on_as_soon_as_nothing_waits() {
    let mut bench = first_epoch();
    bench.awaits("stop");
    bench.engine.order(Order::Acknowledged(Epoch(3)));
    bench.engine.order(Order::Go { term: Term(5) });
    bench.captures(&[4, 5, 6, 7], 7);
    bench.awaits("stop");
    bench.engine.order(Order::Acknowledged(Epoch(4)));
    bench.captures(&[8], 8);
    bench.awaits("stop");
    // Nobody takes epochs any more.
    bench.engine.order(Order::Rest);
    bench.awaits("cont");
}

#[test]
fn a_guest_does_not_run_on_while_a_register_that_is_slow_is_to_name_its_standby() {
    let mut bench = first_epoch();
    bench.awaits("stop");
    bench.engine.order(Order::Acknowledged(Epoch(3)));
    thread::sleep(Duration::from_millis(200));
    assert_eq!(bench.told_qemu(), "stop", "what it writes would all be in the next epoch");
    bench.engine.order(Order::Go { term: Term(5) });
    bench.captures(&[4, 5, 6, 7], 7);
}

#[test]
fn a_guest_goes_on_when_its_standby_is_not_named_after_all() {
    let bench = first_epoch();
    bench.engine.order(Order::Acknowledged(Epoch(3)));
    bench.awaits("stop");
    bench.goes_on_for_good();
}

#[test]
fn what_was_not_captured_cannot_be_acknowledged() {
    let mut bench = first_epoch();
    bench.engine.order(Order::Acknowledged(Epoch(99)));
    bench.engine.order(Order::Go { term: Term(5) });
    bench.captures(&[4, 5, 6, 7], 7);
}

/// A line over which a round of this guest takes longer than an acknowledgement may.
const SLOW: Duration = Duration::from_millis(200);

fn slow_line(longest_first_pause: Duration, longest_hold: Duration) -> Bench {
    let mut bench = Bench::start_with(SAVES, |settings| {
        (settings.longest_first_pause, settings.longest_hold) = (longest_first_pause, longest_hold);
    });
    bench.copy(Epoch(3));
    bench
}

#[test]
fn a_guest_that_writes_more_than_is_shipped_is_held_back_before_its_output_is() {
    let mut bench = slow_line(PATIENCE, SLOW * 3 / 2);
    let advance = bench.ship_rounds(|bench| if bench.was_stopped() { Duration::ZERO } else { SLOW });
    assert!(advance.goes_on && !advance.converges && advance.took < SLOW, "{advance:?}");
    assert!(advance.held_back > Duration::ZERO, "{advance:?}");
    let said = advance.remark(PATIENCE).unwrap();
    assert!(said.contains("although the guest was held back for"), "{said}");
    bench.captures(&[3], 3);
}

#[test]
fn a_guest_whose_output_would_wait_for_too_long_stays_unprotected_and_runs() {
    let ms = Duration::from_millis;
    let mut bench = slow_line(ms(100), ms(40));
    let advance = bench.ship_rounds(|_| ms(120));
    assert!(!advance.goes_on && advance.pause < ms(100) && advance.took > ms(100), "{advance:?}");
    assert!(advance.held_back > Duration::ZERO, "that was tried: {advance:?}");
    let said = advance.remark(ms(100)).unwrap();
    assert!(said.contains("longer than 100 ms, so it stays unprotected"), "{said}");
    bench.awaits("cont");
    bench.captures(&[], 0);
    assert_eq!(bench.told_qemu(), "cont", "it is left alone");
}

#[test]
fn a_guest_that_is_held_back_while_it_is_copied_runs_as_soon_as_nobody_takes_it() {
    let mut bench = slow_line(PATIENCE, SLOW * 3 / 2);
    let began = Instant::now();
    while !bench.was_stopped() {
        assert!(began.elapsed() < PATIENCE, "it is not held back");
        bench.ship_round(|_| SLOW);
    }
    // It has just been told to stop again, for a while.
    bench.awaits("cont");
    bench.awaits("stop");
    bench.goes_on_for_good();
}

#[test]
fn output_that_waits_has_the_next_epoch_captured_and_each_cut_is_asked_for_once() {
    let hour = Duration::from_secs(3_600);
    let mut bench = first_epoch_with(|settings| {
        let pacing = Pacing::new(Interval::FixedNs(nanoseconds(hour)), hour);
        settings.pacing = pacing.on_demand(Some(Duration::from_millis(1)));
        // It is acknowledged late here, for which fewer would be on their way.
        settings.longest_hold = PATIENCE;
    });
    // What is asked for while it is not known who stands by is not forgotten.
    bench.engine.order(Order::AwaitsCut { after: Epoch(3) });
    bench.captures(&[], 3);
    bench.engine.order(Order::Go { term: TERM });
    bench.captures(&[4], 4);
    // The cut of epoch 4 was behind this output: it waits for nothing more.
    bench.engine.order(Order::AwaitsCut { after: Epoch(3) });
    bench.captures(&[], 4);
    bench.engine.order(Order::AwaitsCut { after: Epoch(4) });
    bench.captures(&[5], 5);
    // There is no room for a fourth one, and there is once one is acknowledged.
    bench.engine.order(Order::AwaitsCut { after: Epoch(5) });
    bench.captures(&[6], 6);
    bench.engine.order(Order::AwaitsCut { after: Epoch(6) });
    bench.captures(&[], 6);
    bench.engine.order(Order::Acknowledged(Epoch(3)));
    bench.captures(&[7], 7);
}

#[test]
fn epochs_follow_a_copy_each_told_before_it_is_shipped_and_no_more_than_may_be_in_flight() {
    let mut bench = Bench::start(SAVES);
    bench.copy(Epoch(3));
    let Ok(Parcel::Part { head, pages, is_last: true }) = bench.parcels.recv_timeout(PATIENCE) else {
        panic!("no copy")
    };
    assert_eq!((head.full, pages.len() as u64), (true, PAGES));
    assert_eq!(bench.relay.statistics().unwrap().hold.last_cut, Epoch(0), "nothing is cut before");
    bench.engine.order(Order::CopyHeld { term: Term(4) });
    bench.captures(&[3], 3);
    bench.engine.order(Order::Go { term: Term(5) });
    bench.captures(&[4, 5, 6], 6);
    bench.engine.order(Order::Acknowledged(Epoch(3)));
    bench.captures(&[7], 7);
    bench.engine.order(Order::Rest);
    bench.engine.order(Order::Acknowledged(Epoch(7)));
    bench.captures(&[], 7);
}
