//! The member that runs the machine: it tells the state machine of `stealtime-succession` what happens, and
//! does what that says. All decisions are there; here are the threads, the sockets and the order of things.

mod asking;
mod doing;
mod hearing;
mod seek;
mod standing;

use std::collections::{BTreeMap, VecDeque};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use stealtime_outputhold::{LearnedAddresses, Policy, Relay};
use stealtime_shipping::{LinkError, LinkReceiver, LinkSender, Message};
use stealtime_succession::{
    ActiveAction, ActiveConfig, ActiveEnding, ActiveInput, ActiveMember, ActiveState, Epoch, MemberId,
    Promotion, RegisterAnswer, RegisterError, Term,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

use crate::clock::{nanoseconds, now, unix_ns};
use crate::control::{Refusal, Request};
use crate::engine::{GuestFacts, Order};
use crate::epoch_log::EpochLog;
use crate::events::{Event, EventLog};
use crate::figures::Figures;
use crate::gate::LeaseGate;
use crate::machine::{self, Machine, MachineError, MachineEvent, Switchboard};
use crate::metrics::{Metrics, MetricsError};
use crate::registers::{self, Registrar};
use crate::spec::{Spec, StandbyHost};
use crate::staging::Leftover;
use crate::status::{FullCopy, Peer};
use crate::{faults, signals, words};
use seek::{Found, SeekError, Unfit};

/// Why a member cannot even begin.
#[derive(Debug, thiserror::Error)]
pub enum ActiveError {
    /// There is nobody to decide.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The machine cannot be had.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The guest cannot be had.
    #[error("{0}")]
    Guest(String),
    /// Nobody could see the figures.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// A machine that stood by and has won.
pub struct Takeover {
    pub promotion: Promotion,
    /// Its QEMU, with the memory of the committed epoch.
    pub machine: Machine,
    /// What is known of it.
    pub facts: GuestFacts,
    /// Its network, closed so far.
    pub relay: Arc<Relay>,
    /// The gate of that network.
    pub gate: Arc<LeaseGate>,
    /// Whom its threads tell.
    pub switchboard: Arc<Switchboard>,
    /// The state of the devices of that epoch.
    pub devices: Vec<u8>,
    /// What the guest goes by on the network.
    pub addresses: LearnedAddresses,
    /// When it was decided.
    pub decided: Duration,
    /// What is to be given back later.
    pub leftover: Leftover,
}

/// A takeover until the guest goes on.
struct Resuming {
    decided: Duration,
    _leftover: Leftover,
}

/// How a member comes to be active.
pub enum Origin {
    /// It boots the machine.
    Boot {
        /// Also if the register says that it runs elsewhere.
        force: bool,
    },
    /// It goes on with a machine that stood by here.
    Takeover(Box<Takeover>),
}

enum Input {
    Register(RegisterAnswer),
    Machine(MachineEvent),
    Found { seeker: u64, found: Box<Found> },
    NotFound(StandbyHost, SeekError),
    Message { link: u64, message: Message },
    LinkClosed { link: u64, reason: LinkError },
    GuestExited(ExitStatus),
    Terminate,
}

/// How long a link may take to write what waits when it is closed.
const CLOSE_WITHIN: Duration = Duration::from_millis(200);

/// How long those who asked for the end have to take their answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);

/// The link to the standby.
struct OpenLink {
    number: u64,
    host: StandbyHost,
    sender: LinkSender,
    reader: AbortHandle,
}

/// The member that runs the guest.
pub struct Active {
    spec: Spec,
    me: MemberId,
    member: ActiveMember,
    inputs: mpsc::UnboundedSender<Input>,
    switchboard: Arc<Switchboard>,
    registrar: Registrar,
    gate: Arc<LeaseGate>,
    relay: Option<Arc<Relay>>,
    machine: Option<Machine>,
    facts: Option<GuestFacts>,
    seeker: Option<JoinHandle<()>>,
    /// The number of that one; what another one found is for nobody.
    seekers: u64,
    wants_standby: bool,
    /// Hosts that took the machine and then found that they could not resume it, until they can.
    unfit: BTreeMap<String, Unfit>,
    link: Option<OpenLink>,
    links: u64,
    last_echo: Option<Duration>,
    closing: Vec<JoinHandle<()>>,
    /// The output is held from the first cut of a session on, not from its beginning.
    awaits_first_cut: bool,
    full_copy_sent: u64,
    /// What the guest has gone by on the network, here and before.
    addresses: LearnedAddresses,
    /// Whether the standby knows them all.
    addresses_told: bool,
    failover_waits: Vec<oneshot::Sender<Result<serde_json::Value, Refusal>>>,
    stop_waits: Vec<oneshot::Sender<Result<serde_json::Value, Refusal>>>,
    figures: Figures,
    log: EpochLog,
    events: EventLog,
    warnings: VecDeque<String>,
    /// How often QEMU told what.
    qemu_events: BTreeMap<String, u64>,
    /// Since when the guest was left standing between epochs.
    stands_since: Option<Duration>,
    released: Epoch,
    resume: Option<Duration>,
    resuming: Option<Resuming>,
    register_name: String,
    register_went_back: u64,
    since_unix_ns: u64,
    metrics: Option<Metrics>,
    ending: Option<ActiveEnding>,
    fatal: Option<String>,
}

/// Run a member to its end.
pub async fn run(
    spec: Spec,
    me: MemberId,
    origin: Origin,
    requests: mpsc::Receiver<Request>,
) -> Result<ActiveEnding, ActiveError> {
    let (sender, inputs) = mpsc::unbounded_channel();
    let active = Active::new(spec, me, origin, sender)?;
    active.run(inputs, requests).await
}

impl Active {
    fn new(
        spec: Spec,
        me: MemberId,
        origin: Origin,
        inputs: mpsc::UnboundedSender<Input>,
    ) -> Result<Self, ActiveError> {
        let register = registers::open(&spec.register)?;
        let register_name = register.describe();
        let to_inputs = inputs.clone();
        let registrar = Registrar::start(register, spec.machine.name.clone(), move |answer| {
            let _ = to_inputs.send(Input::Register(answer));
        })
        .map_err(MachineError::from)?;
        let to_inputs = inputs.clone();
        let hearer: machine::Hearer = Box::new(move |happening| {
            let _ = to_inputs.send(Input::Machine(happening));
        });
        let (gate, switchboard) = match &origin {
            Origin::Boot { .. } => (Arc::new(LeaseGate::default()), Switchboard::new(hearer)),
            Origin::Takeover(takeover) => {
                takeover.switchboard.switch(hearer);
                (Arc::clone(&takeover.gate), Arc::clone(&takeover.switchboard))
            }
        };
        let config = ActiveConfig {
            me: me.clone(),
            mode: spec.mode,
            timing: spec.timing,
            epochs_in_flight: spec.epochs_in_flight as u64,
            force: matches!(origin, Origin::Boot { force: true }),
        };
        let member = match &origin {
            Origin::Boot { .. } => ActiveMember::new(config, now()),
            Origin::Takeover(takeover) => ActiveMember::promoted(config, takeover.promotion.clone(), now()),
        };
        let log = EpochLog::new(&spec.folder, spec.log_bytes);
        let events = EventLog::new(&spec);
        let metrics = spec.metrics.as_deref().map(Metrics::at);
        let mut active = Self {
            me,
            member,
            inputs,
            switchboard,
            registrar,
            gate,
            relay: None,
            machine: None,
            facts: None,
            seeker: None,
            seekers: 0,
            wants_standby: false,
            unfit: BTreeMap::new(),
            link: None,
            links: 0,
            last_echo: None,
            closing: Vec::new(),
            awaits_first_cut: false,
            full_copy_sent: 0,
            addresses: LearnedAddresses::default(),
            addresses_told: false,
            failover_waits: Vec::new(),
            stop_waits: Vec::new(),
            figures: Figures::default(),
            log,
            events,
            warnings: VecDeque::new(),
            qemu_events: BTreeMap::new(),
            stands_since: None,
            released: Epoch(0),
            resume: None,
            resuming: None,
            register_name,
            register_went_back: 0,
            since_unix_ns: unix_ns(),
            metrics,
            ending: None,
            fatal: None,
            spec,
        };
        match origin {
            Origin::Boot { .. } => {
                if let Some(metrics) = &mut active.metrics {
                    metrics.serve()?;
                }
                active.events.add(&Event::Began);
            }
            Origin::Takeover(takeover) => active.take_over(*takeover)?,
        }
        Ok(active)
    }

    /// Have the guest go on from the committed epoch: nothing comes before that.
    fn take_over(&mut self, takeover: Takeover) -> Result<(), ActiveError> {
        let Takeover { promotion, machine, facts, relay, devices, addresses, decided, leftover, .. } =
            takeover;
        self.gate.publish(&self.member.permit());
        relay.set_policy(Policy::Free).map_err(MachineError::from)?;
        machine.engine.order(Order::Load { state: devices, relay: Arc::clone(&relay) });
        relay.announce(&addresses).map_err(MachineError::from)?;
        self.addresses = addresses;
        self.events.add(&Event::Active { term: promotion.held.record.term, from: Some(promotion.epoch) });
        self.resuming = Some(Resuming { decided, _leftover: leftover });
        self.released = promotion.epoch;
        self.relay = Some(relay);
        self.machine = Some(machine);
        self.watch_guest(facts);
        Ok(())
    }

    async fn run(
        mut self,
        mut inputs: mpsc::UnboundedReceiver<Input>,
        mut requests: mpsc::Receiver<Request>,
    ) -> Result<ActiveEnding, ActiveError> {
        let terminated = self.inputs.clone();
        tokio::spawn(async move {
            signals::terminated().await;
            let _ = terminated.send(Input::Terminate);
        });
        self.tell(ActiveInput::Tick);
        while self.ending.is_none() && self.fatal.is_none() {
            let deadline = self.member.deadline().unwrap_or(Duration::MAX);
            tokio::select! {
                biased;
                () = signals::sleep_until(deadline) => self.tell(ActiveInput::Tick),
                Some(input) = inputs.recv() => self.take(input),
                Some(request) = requests.recv() => self.answer(request),
            }
            self.publish();
        }
        self.leave().await
    }

    async fn leave(mut self) -> Result<ActiveEnding, ActiveError> {
        self.gate.shut();
        self.kill_guest();
        self.close_link();
        for closing in self.closing.drain(..) {
            let _ = closing.await;
        }
        if let Some(mut machine) = self.machine.take() {
            let _ = tokio::task::spawn_blocking(move || machine.engine.end()).await;
        }
        if let Some(reason) = self.fatal {
            self.events.add(&Event::Left { reason: reason.clone() });
            return Err(ActiveError::Guest(reason));
        }
        let ending = self.ending.unwrap_or(ActiveEnding::Stopped);
        let reason = ending.to_string();
        self.events.add(&match &ending {
            ActiveEnding::Superseded { .. } | ActiveEnding::HandedOver { .. } => Event::Fenced { reason },
            _ => Event::Left { reason },
        });
        let mut somebody_waits = false;
        for waiting in self.failover_waits.drain(..).chain(self.stop_waits.drain(..)) {
            somebody_waits |= waiting.send(Ok(serde_json::json!({"ended": ending.to_string()}))).is_ok();
        }
        if somebody_waits {
            // With the runtime end the tasks that write the answers.
            tokio::time::sleep(ANSWER_WITHIN).await;
        }
        Ok(ending)
    }

    /// Tell the state machine, and do what it says.
    fn tell(&mut self, input: ActiveInput) {
        let before = self.member.state();
        let actions = self.member.handle(now(), input);
        let state = self.member.state();
        if state != before {
            let echo_age_ns = self.last_echo.map(|sent| nanoseconds(now().saturating_sub(sent)));
            self.events.add(&Event::State { state: format!("{state:?}"), echo_age_ns });
        }
        self.gate.publish(&self.member.permit());
        faults::set_protected(state == ActiveState::Protected);
        if let Some(relay) = &self.relay {
            relay.wake();
        }
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: ActiveAction) {
        match action {
            ActiveAction::Register(request) => {
                if self.member.state() == ActiveState::Naming {
                    faults::point("before-naming");
                }
                self.registrar.ask(request);
            }
            ActiveAction::BootGuest => self.boot(),
            ActiveAction::SeekStandby => self.seek(),
            ActiveAction::BeginEpochs { term, first } => {
                self.full_copy_sent = 0;
                self.order(Order::FullCopy { term, first });
            }
            ActiveAction::EndEpochs => {
                self.figures.forget_pending();
                self.order(Order::Rest);
            }
            ActiveAction::Output(_) => self.apply_policy(),
            ActiveAction::Release(epoch) => self.release(epoch),
            ActiveAction::DiscardHeld => self.set_relay_policy(Policy::Closed),
            ActiveAction::Send(message) => self.send(&message),
            ActiveAction::CloseLink => self.close_link(),
            ActiveAction::ShipLastEpoch => self.order(Order::Last),
            ActiveAction::StopGuest => self.order(Order::StopGuest),
            ActiveAction::ContinueGuest => self.order(Order::ContinueGuest),
            ActiveAction::KillGuest => self.kill_guest(),
            ActiveAction::RegisterWentBack { held, found } => {
                self.register_went_back += 1;
                self.events.add(&Event::RegisterWentBack { held, found });
                self.warn(words::of_register_that_went_back(held, found));
            }
            ActiveAction::FailoverRefused(refused) => {
                let refusal = Refusal::new(refused.to_string(), "see `stealtime protect status`");
                for waiting in self.failover_waits.drain(..) {
                    let _ = waiting.send(Err(refusal.clone()));
                }
            }
            ActiveAction::Exit(ending) => self.ending = Some(ending),
        }
    }

    fn term(&self) -> Term {
        self.member.term()
    }

    /// Remember what is not as wanted; tells whether it is new.
    fn warn(&mut self, text: String) -> bool {
        if self.warnings.contains(&text) {
            return false;
        }
        self.events.add(&Event::Warning { text: text.clone() });
        self.warnings.push_back(text);
        while self.warnings.len() > standing::WARNINGS {
            self.warnings.pop_front();
        }
        true
    }

    fn full_copy(&self) -> Option<FullCopy> {
        (self.member.state() == ActiveState::Syncing).then_some(FullCopy {
            done_bytes: self.full_copy_sent,
            total_bytes: self.spec.machine.memory_bytes,
        })
    }

    fn peer(&self) -> Option<Peer> {
        let host = &self.link.as_ref()?.host;
        Some(Peer { name: host.name.clone(), endpoint: host.endpoint.clone() })
    }
}

async fn read(mut receiver: LinkReceiver, link: u64, inputs: mpsc::UnboundedSender<Input>) {
    loop {
        let input = match receiver.receive().await {
            Ok(message) => Input::Message { link, message },
            Err(reason) => Input::LinkClosed { link, reason },
        };
        let is_over = matches!(input, Input::LinkClosed { .. });
        if inputs.send(input).is_err() || is_over {
            return;
        }
    }
}
