//! A guest without a QEMU: it does at once what it is ordered, and a test sees what was done to it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stealtime_capture::RamFile;
use stealtime_outputhold::{LearnedAddresses, PortFault, RelayError, RelayEvent, ReleasedEpoch};
use stealtime_succession::{Epoch, OutputPolicy, OutputRule, Permit, Term};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::clock::now;
use crate::guest::{Guest, GuestEvent, GuestFacts, MachineError, Order};
use crate::spec::Spec;

/// Something that was done to the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    Boot,
    Load(Vec<u8>),
    /// And let it stand.
    LoadOnly(Vec<u8>),
    Announce,
    Continue,
    Stop,
    Kill,
    End,
    Link,
    FullCopy {
        term: Term,
        first: Epoch,
    },
    Go(Term),
    Rest,
    Last,
    Output(OutputPolicy),
    Release(Epoch),
    TellShutdown,
}

/// The guest of a member under test.
pub struct FakeGuest {
    deeds: UnboundedSender<Deed>,
    events: UnboundedSender<GuestEvent>,
    network: Arc<Mutex<Network>>,
}

/// What it takes for a relay.
struct Network {
    rule: OutputRule,
    permit: Permit,
    fault: Option<PortFault>,
}

/// The test's side of it.
pub struct Watcher {
    pub deeds: UnboundedReceiver<Deed>,
    pub events: UnboundedSender<GuestEvent>,
    network: Arc<Mutex<Network>>,
}

pub fn facts() -> GuestFacts {
    GuestFacts {
        qemu_version: "7.2.0".to_owned(),
        qemu_pid: 0,
        ram: Arc::new(RamFile::anonymous("fake", 1 << 20).unwrap()),
        ram_blocks: Vec::new(),
        tracker: "shadow",
        refused_trackers: Vec::new(),
    }
}

impl FakeGuest {
    /// One that is still to be started, and what will be heard of it.
    pub fn new() -> (Self, UnboundedReceiver<GuestEvent>, Watcher) {
        let (events, heard) = unbounded_channel();
        let (deeds, done) = unbounded_channel();
        let rule = OutputRule::new(OutputPolicy::Discard);
        let network = Arc::new(Mutex::new(Network { rule, permit: Permit::default(), fault: None }));
        let watcher = Watcher { deeds: done, events: events.clone(), network: Arc::clone(&network) };
        (Self { deeds, events, network }, heard, watcher)
    }

    fn did(&self, deed: Deed) {
        let _ = self.deeds.send(deed);
    }

    fn tell(&self, event: GuestEvent) {
        let _ = self.events.send(event);
    }
}

impl Watcher {
    /// The engine cuts an epoch, with all that this does to the output, and tells of it.
    pub fn cut(&self, epoch: Epoch, is_last: bool) {
        self.network.lock().unwrap().rule.cut(epoch);
        self.events.send(GuestEvent::Captured { epoch, is_last }).unwrap();
    }

    /// Break its port, or mend it.
    pub fn break_port(&self, fault: Option<PortFault>) {
        self.network.lock().unwrap().fault = fault;
    }

    /// Whether output of this epoch (none: of what was sent since the last cut) would leave now.
    pub fn may_leave(&self, epoch: Option<Epoch>) -> bool {
        let network = self.network.lock().unwrap();
        now() < network.permit.until(network.rule.standing()) && network.rule.may_leave(epoch)
    }
}

impl Guest for FakeGuest {
    fn boot(&mut self, _: &Spec) -> Result<(), MachineError> {
        self.network.lock().unwrap().rule.set_policy(OutputPolicy::Keep);
        self.did(Deed::Boot);
        self.tell(GuestEvent::Ready(facts()));
        Ok(())
    }

    fn order(&self, order: Order) {
        match order {
            Order::Link { .. } => self.did(Deed::Link),
            Order::FullCopy { term, first } => self.did(Deed::FullCopy { term, first }),
            Order::Go { term } => self.did(Deed::Go(term)),
            Order::Rest => self.did(Deed::Rest),
            Order::Last => self.did(Deed::Last),
            Order::StopGuest => {
                self.did(Deed::Stop);
                self.tell(GuestEvent::Stopped);
            }
            Order::ContinueGuest => {
                self.did(Deed::Continue);
                self.tell(GuestEvent::Continued);
            }
            // Loading takes as long as the test wants.
            Order::Load { state, runs: true } => self.did(Deed::Load(state)),
            Order::Load { state, runs: false } => self.did(Deed::LoadOnly(state)),
            Order::TellShutdown => self.did(Deed::TellShutdown),
            Order::Acknowledged(_)
            | Order::AwaitsCut { .. }
            | Order::CopyHeld { .. }
            | Order::DiskWanted(_)
            | Order::End => {}
        }
    }

    fn kill(&self) {
        self.did(Deed::Kill);
        self.tell(GuestEvent::Exited(ExitStatus::from_raw(9)));
    }

    fn end(&mut self) {
        self.did(Deed::End);
    }

    fn permit(&self, permit: Permit) {
        self.network.lock().unwrap().permit = permit;
    }

    fn set_output(&self, policy: OutputPolicy) -> Result<(), RelayError> {
        self.network.lock().unwrap().rule.set_policy(policy);
        self.did(Deed::Output(policy));
        Ok(())
    }

    fn release(&self, through: Epoch) -> Result<(), RelayError> {
        self.network.lock().unwrap().rule.acknowledge(through);
        self.did(Deed::Release(through));
        let released = ReleasedEpoch { epoch: through, frames: 0, bytes: 0, since_cut: Duration::ZERO };
        self.tell(GuestEvent::Relay(RelayEvent::EpochReleased(released)));
        Ok(())
    }

    fn announce(&self, _: &LearnedAddresses) -> Result<(), RelayError> {
        self.did(Deed::Announce);
        Ok(())
    }

    fn learned_addresses(&self) -> Result<LearnedAddresses, RelayError> {
        Ok(LearnedAddresses { ipv4: vec![[192, 0, 2, 10].into()], ..LearnedAddresses::default() })
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        self.network.lock().unwrap().fault.clone()
    }

    fn held(&self) -> (u64, u64) {
        (0, 0)
    }

    fn disk_fault(&self) -> Option<String> {
        None
    }
}
