//! From a connection to a standby that waits for its first epoch: who asks, whether this host can, and a
//! QEMU.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stealtime_outputhold::LearnedAddresses;
use stealtime_shipping::{
    Hello, LinkReceiver, LinkSender, LocalFacts, Message, Refusal as ShippingRefusal, RegisterLook, Welcome, judge,
    needed_bytes,
};
use stealtime_succession::{Epoch, MemberId, RegisterError, StandbyConfig, StandbyMember, StandbyState};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::leaves::LeaveWatching;
use super::port::{PortWatching, hear};
use super::watch::Watch;
use super::{Input, Outcome, Standby, StandbyError, read};
use crate::admission::{Admission, Admitted, Criteria};
use crate::assignment::wanted;
use crate::certificates::Certificates;
use crate::clock::{now, unix_ns};
use crate::disks::Notes;
use crate::events::{Event, EventLog};
use crate::guest::{GuestEvent, GuestFacts, MachineError};
use crate::host_config::HostConfig;
use crate::machine::{self, Machine};
use crate::member_folder::FolderError;
use crate::offers::spec_here;
use crate::reception::Caller;
use crate::registers::Registrar;
use crate::spec::Spec;
use crate::staging::Staging;
use crate::status::Peer;
use crate::trial_load::Trials;
use crate::{host_facts, leaving, member_folder, registers, signals, wording};

/// How long a machine may still be here of which it is said that it is elsewhere.
const LEFT_WITHIN: Duration = Duration::from_secs(2);

/// Serve a caller to its end.
pub async fn run(caller: Caller) -> Result<Outcome, StandbyError> {
    let Caller { config, hello, sender, receiver } = caller;
    match prepare(&config, &hello).await {
        Ok(prepared) => prepared.stand_by(sender, receiver, &hello).await,
        Err(StandbyError::Refused(refusal)) => {
            let _ = sender.send(&Message::Refuse { term: hello.term, refusal: *refusal.clone() }).await;
            let _ = sender.close().await;
            Err(StandbyError::Refused(refusal))
        }
        Err(error) => {
            let hint = match &error {
                StandbyError::Folder(FolderError::Io(_)) => "see that there is room on its disk",
                StandbyError::Machine(MachineError::Disks(error)) => error.hint().unwrap_or("see its log"),
                _ => "see the log of the host daemon there",
            };
            let refusal = ShippingRefusal::Other {
                reason: format!("{} cannot stand by: {}", config.name, wording::in_full(&error)),
                hint: hint.to_owned(),
            };
            let _ = sender.send(&Message::Refuse { term: hello.term, refusal }).await;
            let _ = sender.close().await;
            Err(error)
        }
    }
}

fn refused(refusal: ShippingRefusal) -> StandbyError {
    StandbyError::Refused(Box::new(refusal))
}

/// What this host's register has of the machine.
async fn look_into_register(spec: &Spec) -> Result<RegisterLook, StandbyError> {
    let vm = spec.machine.name.clone();
    let found = match registers::once(&spec.register, move |mut register| register.read(&vm)).await {
        Ok(found) => Ok(found.map(|found| found.record)),
        Err(error @ RegisterError::Setup(_)) => return Err(error.into()),
        Err(error) => Err(error.to_string()),
    };
    let is_here = member_folder::is_occupied(&spec.folder);
    Ok(RegisterLook { name: spec.register.in_words(), found, is_here })
}

/// Wait until nobody lives in the folder of the machine: after a planned failover the member that left it is on its
/// way out.
async fn await_left(config: &HostConfig, spec: &Spec) -> Result<(), StandbyError> {
    let until = now() + LEFT_WITHIN;
    while member_folder::is_occupied(&spec.folder) {
        if now() >= until {
            return Err(already_here(config, spec));
        }
        tokio::time::sleep(LEFT_WITHIN / 50).await;
    }
    Ok(())
}

/// A host that is to go down takes no machines.
fn stay_away(config: &HostConfig) -> Result<(), StandbyError> {
    if leaving::is_leaving(&config.folder) {
        return Err(refused(ShippingRefusal::Leaving { host: config.name.clone() }));
    }
    Ok(())
}

fn already_here(config: &HostConfig, spec: &Spec) -> StandbyError {
    refused(ShippingRefusal::AlreadyHere { host: config.name.clone(), vm: spec.machine.name.clone() })
}

/// What a machine has that was let in.
pub(super) struct Place {
    /// Of its folder.
    pub(super) lock: OwnedFd,
    pub(super) admitted: Admitted,
    /// Whether nothing was in the folder before.
    is_new: bool,
}

impl Place {
    /// Leave nothing of a machine that this host does not take after all: `status` would tell of it for ever.
    pub(super) fn leave_nothing(self, folder: &Path) {
        let Self { lock, admitted, is_new } = self;
        drop(admitted);
        if is_new {
            member_folder::leave_nothing(folder);
        }
        drop(lock);
    }
}

/// Let the machine in, or refuse it, which leaves nothing of it here but its place among those that wait.
async fn let_in(config: &HostConfig, hello: &Hello, spec: &Spec, facts: &LocalFacts) -> Result<Place, StandbyError> {
    let wanted = wanted(spec);
    await_left(config, spec).await?;
    let admission = Admission::begin(&config.folder, &wanted.vm).map_err(FolderError::from)?;
    // Again: QEMU was asked meanwhile.
    stay_away(config)?;
    let available_bytes = stealtime_memory::usable_bytes().saturating_sub(admission.promised_bytes());
    judge(hello, &wanted, &LocalFacts { available_bytes, ..facts.clone() }).map_err(refused)?;
    let criteria = Criteria { order: spec.copy_order, copies: config.copies };
    if let Err(busy) = admission.decide(criteria, now()).map_err(FolderError::from)? {
        let (host, vm) = (config.name.clone(), wanted.vm);
        wording::say(&format!("{vm} waits: {} machines are copied, and {} come before it", busy.copying, busy.before));
        return Err(refused(ShippingRefusal::Busy { host, vm, copies: config.copies }));
    }
    let is_new = !spec.folder.exists();
    let lock = match member_folder::enter(&spec.folder, &wanted.vm) {
        Err(FolderError::Occupied { .. }) => return Err(already_here(config, spec)),
        outcome => outcome?,
    };
    let admitted = admission.admit(needed_bytes(&wanted), criteria).map_err(FolderError::from)?;
    Ok(Place { lock, admitted, is_new })
}

/// A QEMU that waits.
struct Ready {
    welcome: Welcome,
    machine: Machine,
    heard: UnboundedReceiver<GuestEvent>,
    facts: GuestFacts,
    trials: Trials,
}

/// What is there before the first epoch comes.
struct Prepared {
    spec: Spec,
    active: MemberId,
    me: MemberId,
    ready: Ready,
    place: Place,
}

async fn prepare(config: &HostConfig, hello: &Hello) -> Result<Prepared, StandbyError> {
    let spec = spec_here(config, &hello.specification).map_err(StandbyError::Refused)?;
    stay_away(config)?;
    let me = member_folder::new_life(&config.name)?;
    let register = look_into_register(&spec).await?;
    let mut facts = host_facts::gather(config, &spec.machine, me.clone(), register);
    // QEMU's own word on its version comes later.
    facts.qemu_version.clone_from(&hello.qemu_version);
    judge(hello, &wanted(&spec), &facts).map_err(refused)?;
    let place = let_in(config, hello, &spec, &facts).await?;
    match start(config, hello, &spec, facts).await {
        Ok(ready) => Ok(Prepared { spec, active: hello.member.clone(), me, ready, place }),
        Err(refusal @ StandbyError::Refused(_)) => {
            place.leave_nothing(&spec.folder);
            Err(refusal)
        }
        Err(error) => Err(error),
    }
}

async fn start(config: &HostConfig, hello: &Hello, spec: &Spec, mut facts: LocalFacts) -> Result<Ready, StandbyError> {
    let (mut machine, mut heard) = Machine::new();
    machine.stand_by(spec)?;
    let guest = loop {
        match heard.recv().await {
            Some(GuestEvent::Ready(facts)) => break facts,
            Some(GuestEvent::NoGuest(error)) => return Err(StandbyError::Guest(wording::in_full(&error))),
            Some(event) => hear(event, StandbyState::Syncing)?,
            None => return Err(StandbyError::Guest("its thread ended".to_owned())),
        }
    };
    facts.ram_blocks = Some(guest.ram_blocks.clone());
    facts.qemu_version.clone_from(&guest.qemu_version);
    let welcome = judge(hello, &wanted(spec), &facts).map_err(refused)?;
    // Before the first epoch is waited for: what that holds of the guest's output waits as long.
    let settings = machine::trial_settings(spec);
    let trials = Trials::start(&spec.machine, settings, &config.folder, Arc::clone(&guest.ram))
        .await
        .map_err(MachineError::from)?;
    Ok(Ready { welcome, machine, heard, facts: guest, trials })
}

impl Prepared {
    async fn stand_by(
        self,
        sender: LinkSender,
        receiver: LinkReceiver,
        hello: &Hello,
    ) -> Result<Outcome, StandbyError> {
        let Self { spec, active, me, ready, place } = self;
        let Ready { welcome, machine, heard, facts, trials } = ready;
        let (to_inputs, inputs) = mpsc::unbounded_channel();
        let register = registers::open_again(&spec.register)?;
        let answers = to_inputs.clone();
        let registrar = Registrar::start(register, &spec.machine.name, &spec.timing, move |answer| {
            let _ = answers.send(Input::Register(answer));
        })
        .map_err(MachineError::from)?;
        let config = StandbyConfig {
            me: me.clone(),
            active: active.clone(),
            term: hello.term,
            mode: spec.mode,
            timing: spec.timing,
        };
        let listener = member_folder::listen(&spec)?;
        let (asking, requests) = mpsc::channel(16);
        tokio::spawn(crate::control::serve(listener, asking, spec.allow_faults));
        let endpoint = spec.standby_hosts.iter().find(|host| host.name == hello.host);
        let peer = Peer {
            name: hello.host.clone(),
            endpoint: endpoint.map_or_else(String::new, |host| host.endpoint.clone()),
        };
        let mut events = EventLog::new(&spec);
        events.add(&Event::Began);
        events.add(&Event::Linked { peer: active.to_string() });
        sender.send(&Message::Welcome(welcome)).await?;
        let to_conductor = to_inputs.clone();
        let content = (Arc::clone(&facts.ram), machine.disks(), spec.flush);
        let (staging, pieces) = Staging::start(content, hello.term, trials, move |event| {
            let _ = to_conductor.send(Input::Staging(event));
        })
        .map_err(MachineError::from)?;
        let reader = tokio::spawn(read(receiver, pieces, to_inputs.clone()));
        signals::on_termination(move || drop(to_inputs.send(Input::Terminate)));
        let watch = Watch::new(Certificates::of(&spec), spec.metrics.as_deref(), now());
        let notes = Notes::start(&spec).map_err(MachineError::from)?;
        let standby = Standby {
            member: StandbyMember::new(config, now()),
            staging,
            reader,
            spec,
            me,
            active: peer,
            sender: Some(sender),
            watch,
            registrar,
            machine,
            facts,
            staged: Epoch(0),
            full_copy: None,
            addresses: LearnedAddresses::default(),
            events,
            port: PortWatching::default(),
            since_unix_ns: unix_ns(),
            announced_claim: false,
            leaves: LeaveWatching::default(),
            warnings: Vec::new(),
            ending: None,
            place,
            notes,
        };
        standby.run(inputs, heard, requests).await
    }
}
