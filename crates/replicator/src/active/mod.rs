//! The member that runs the machine: it tells the state machine of `stealtime-succession` what happens, and
//! does what that says. All decisions are there; here are the threads, the sockets and the order of things.

mod epochs;
mod guest_events;
mod inquire;
mod leaves;
mod life;
mod link;
mod peer;
mod requests;
mod seek;
mod status;
#[cfg(test)]
mod tests;
mod watch;

use std::time::Duration;

use serde_json::json;
use stealtime_outputhold::LearnedAddresses;
use stealtime_shipping::{Heartbeat, LinkError, LinkSender, Message, Protected, Resign};
use stealtime_succession::{
    ActiveAction, ActiveConfig, ActiveEnding, ActiveInput, ActiveMember, ActiveMessage, ActiveState, Epoch, MemberId,
    Permit, Promotion, Register, RegisterAnswer, RegisterError,
};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::admission::Promised;
use crate::certificates::Certificates;
use crate::clock::{nanoseconds, now, unix_ns};
use crate::control::{Command, Request};
use crate::disks::Notes;
use crate::events::{Event, EventLog};
use crate::guest::{Guest, GuestEvent, GuestFacts, MachineError, Order};
use crate::metrics::{Metrics, MetricsError};
use crate::registers::{self, Registrar};
use crate::spec::{Spec, StandbyHost};
use crate::staging::Leftover;
use crate::{faults, signals, wording};
use epochs::Epochs;
use inquire::Inquiry;
use life::{GuestLife, Resuming};
use link::StandbyLink;
use requests::Requests;
use seek::{Found, SeekError, Seeker};
use watch::PortWatching;

/// Why a member cannot even begin.
#[derive(Debug, thiserror::Error)]
pub enum ActiveError {
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("{0}")]
    Guest(String),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
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

/// A machine that stood by and has won: its guest has the memory of the committed epoch, and nothing leaves.
pub struct Takeover {
    pub promotion: Promotion,
    pub facts: GuestFacts,
    /// The state of the devices of that epoch.
    pub devices: Vec<u8>,
    /// What the guest goes by on the network.
    pub addresses: LearnedAddresses,
    pub decided: Duration,
    /// What is to be given back later.
    pub leftover: Leftover,
    /// The link to who offered it, at a planned failover.
    pub offered_by: Option<LinkSender>,
    /// What the standby told to Prometheus, and where; the member goes on there.
    pub metrics: Option<Metrics>,
    /// What is promised to the machine on this host.
    pub promised: Option<Promised>,
}

enum Input {
    Register(RegisterAnswer),
    Found {
        seeker: u64,
        found: Box<Found>,
    },
    NotFound(StandbyHost, SeekError),
    Message {
        link: u64,
        message: Message,
    },
    LinkClosed {
        link: u64,
        reason: LinkError,
    },
    /// Its host says that this standby has ended.
    StandbyOver(MemberId),
    Terminate,
}

/// How long those who asked for the end have to take their answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);

/// The member that runs the guest.
struct Active {
    spec: Spec,
    me: MemberId,
    member: ActiveMember,
    registrar: Registrar,
    guest: Box<dyn Guest>,
    life: GuestLife,
    epochs: Epochs,
    link: StandbyLink,
    seeker: Seeker,
    inquiry: Option<Inquiry>,
    /// It was asked to leave this host, and the state machine was not told yet.
    is_to_leave: bool,
    certificates: Certificates,
    port: PortWatching,
    inputs: UnboundedSender<Input>,
    requests: Requests,
    events: EventLog,
    metrics: Option<Metrics>,
    promised: Option<Promised>,
    notes: Notes,
    since_unix_ns: u64,
    /// How it came to its end, or why it failed.
    end: Option<Result<ActiveEnding, String>>,
}

/// Run a member to its end. `heard` is what will be heard of the guest.
pub async fn run(
    spec: Spec,
    me: MemberId,
    guest: (Box<dyn Guest>, UnboundedReceiver<GuestEvent>),
    origin: Origin,
    requests: mpsc::Receiver<Request>,
) -> Result<ActiveEnding, ActiveError> {
    let register = match &origin {
        Origin::Boot { .. } => registers::once(&spec.register, Ok).await?,
        // The guest stands meanwhile.
        Origin::Takeover(_) => registers::open_again(&spec.register)?,
    };
    let (guest, heard) = guest;
    let (to_inputs, inputs) = unbounded_channel();
    let terminated = to_inputs.clone();
    signals::on_termination(move || drop(terminated.send(Input::Terminate)));
    Active::new(spec, me, register, guest, origin, &to_inputs)?.run(inputs, heard, requests).await
}

impl Active {
    fn new(
        spec: Spec,
        me: MemberId,
        register: Box<dyn Register>,
        guest: Box<dyn Guest>,
        origin: Origin,
        inputs: &UnboundedSender<Input>,
    ) -> Result<Self, ActiveError> {
        let answers = inputs.clone();
        let answered = move |answer| drop(answers.send(Input::Register(answer)));
        let registrar = Registrar::start(register, &spec.machine.name, &spec.timing, answered);
        let registrar = registrar.map_err(MachineError::from)?;
        let config = ActiveConfig {
            me: me.clone(),
            mode: spec.mode,
            timing: spec.timing,
            epochs_in_flight: spec.epochs_in_flight as u64,
            force: matches!(origin, Origin::Boot { force: true }),
        };
        let mut events = EventLog::new(&spec);
        let (member, life, addresses, metrics, promised) = match origin {
            Origin::Boot { .. } => {
                let mut metrics = spec.metrics.as_deref().map(Metrics::at);
                if let Some(metrics) = &mut metrics {
                    metrics.serve()?;
                }
                events.add(&Event::Began);
                let promised = Promised::to(&spec.folder, spec.machine.memory_bytes);
                let promised = promised.map_err(|error| events.warn(format!("no memory is promised to it: {error}")));
                let member = ActiveMember::new(config, now());
                (member, GuestLife::default(), LearnedAddresses::default(), metrics, promised.ok())
            }
            Origin::Takeover(takeover) => {
                let Takeover {
                    promotion,
                    facts,
                    devices,
                    addresses,
                    decided,
                    leftover,
                    offered_by,
                    metrics,
                    mut promised,
                } = *takeover;
                if let Some(promised) = &mut promised {
                    promised.needs(spec.machine.memory_bytes);
                }
                let resuming = Resuming { epoch: promotion.epoch, devices: Some(devices), decided, leftover };
                let life = GuestLife::resuming(facts, resuming, offered_by);
                (ActiveMember::promoted(config, promotion, now()), life, addresses, metrics, promised)
            }
        };
        let released = life.resuming.as_ref().map_or(Epoch(0), |resuming| resuming.epoch);
        Ok(Self {
            epochs: Epochs::new(&spec, released),
            link: StandbyLink::new(inputs.clone(), addresses),
            seeker: Seeker::new(inputs.clone()),
            inquiry: None,
            is_to_leave: false,
            certificates: Certificates::of(&spec),
            port: PortWatching::default(),
            inputs: inputs.clone(),
            requests: Requests::default(),
            notes: Notes::start(&spec).map_err(MachineError::from)?,
            since_unix_ns: unix_ns(),
            end: None,
            spec,
            me,
            member,
            registrar,
            guest,
            life,
            events,
            metrics,
            promised,
        })
    }

    async fn run(
        mut self,
        mut inputs: UnboundedReceiver<Input>,
        mut heard: UnboundedReceiver<GuestEvent>,
        mut requests: mpsc::Receiver<Request>,
    ) -> Result<ActiveEnding, ActiveError> {
        self.tell(ActiveInput::Tick);
        self.leave_if_the_host_does();
        while self.end.is_none() {
            // What nothing tells is looked at, and how it stands told, also while nothing happens.
            let moments = [self.member.deadline(), self.life.settles_at(), Some(self.port.look_at())];
            let deadline = moments.into_iter().flatten().min().unwrap_or(Duration::MAX);
            tokio::select! {
                // An epoch is heard of before its acknowledgement, which came later.
                biased;
                () = signals::sleep_until(deadline) => self.tell(ActiveInput::Tick),
                Some(event) = heard.recv() => self.hear(event),
                Some(input) = inputs.recv() => self.take(input),
                Some(request) = requests.recv() => self.answer(request),
            }
            if self.life.settle(now()) {
                self.seek();
            }
            self.heed_leaving();
            self.raise_alarms();
            self.publish();
        }
        self.leave().await
    }

    async fn leave(mut self) -> Result<ActiveEnding, ActiveError> {
        let mut guest = self.guest;
        guest.permit(Permit::default());
        guest.kill();
        self.link.close();
        self.link.ended().await;
        let _ = tokio::task::spawn_blocking(move || guest.end()).await;
        let ending = match self.end.unwrap_or(Ok(ActiveEnding::Stopped)) {
            Ok(ending) => ending,
            Err(reason) => {
                self.events.add(&Event::Left { reason: reason.clone() });
                return Err(ActiveError::Guest(reason));
            }
        };
        let reason = ending.to_string();
        self.events.add(&match &ending {
            ActiveEnding::Superseded { .. } | ActiveEnding::HandedOver { .. } => Event::Fenced { reason },
            _ => Event::Left { reason },
        });
        if self.requests.end(&ending) {
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
            let echo_age_ns = self.link.echo_age_ns();
            self.events.add(&Event::State { state: format!("{state:?}"), echo_age_ns });
        }
        if state == ActiveState::Protected && before == ActiveState::Confirming {
            self.protected();
        }
        if self.life.facts.is_some() {
            self.notes.hold(self.member.term());
        }
        self.inquire(state);
        self.guest.permit(self.member.permit());
        faults::set_protected(state == ActiveState::Protected);
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
            ActiveAction::BootGuest => {
                if let Err(error) = self.guest.boot(&self.spec) {
                    self.end = Some(Err(error.to_string()));
                }
            }
            ActiveAction::LoadGuest => self.load(),
            ActiveAction::ResumeGuest => self.resume(),
            ActiveAction::SeekStandby => {
                self.seeker.is_wanted = true;
                self.seek();
            }
            ActiveAction::CeaseSeeking => {
                self.seeker.is_wanted = false;
                self.seeker.stop();
            }
            ActiveAction::LeaveAlone { host, found } => self.leave_alone(host, found),
            ActiveAction::BeginEpochs { term, first } => {
                self.epochs.copied_bytes = 0;
                self.guest.order(Order::FullCopy { term, first });
            }
            ActiveAction::EndEpochs => {
                self.epochs.end();
                self.guest.order(Order::Rest);
            }
            ActiveAction::Output(policy) => {
                self.epochs.output(policy, now());
                if let Err(error) = self.guest.set_output(policy) {
                    self.events.warn(error.to_string());
                }
            }
            ActiveAction::Release(epoch) => {
                faults::point("before-release");
                if let Err(error) = self.guest.release(epoch) {
                    self.events.warn(format!("{epoch} was not released: {error}"));
                }
            }
            ActiveAction::Send(message) => self.send(&message),
            ActiveAction::CloseLink => {
                // Who looked for another standby in place of this one.
                self.seeker.stop();
                self.link.close();
            }
            ActiveAction::ShipLastEpoch => self.guest.order(Order::Last),
            ActiveAction::StopGuest => self.guest.order(Order::StopGuest),
            ActiveAction::ContinueGuest => self.guest.order(Order::ContinueGuest),
            ActiveAction::KillGuest => self.guest.kill(),
            ActiveAction::RegisterWentBack { held, found } => {
                self.registrar.went_back += 1;
                self.events.add(&Event::RegisterWentBack { held, found });
                self.events.warn(wording::of_register_that_went_back(held, found));
            }
            ActiveAction::FailoverRefused(refused) => self.requests.refuse(refused),
            ActiveAction::Exit(ending) => {
                self.end.get_or_insert(Ok(ending));
            }
        }
    }

    /// A standby could take the machine over from here on.
    fn protected(&mut self) {
        let (term, epoch) = (self.member.term(), self.member.acknowledged_epoch().unwrap_or_default());
        self.events.add(&Event::Protected { term, epoch });
        if let Some(host) = self.link.host() {
            self.seeker.is_fit(&host.name);
        }
    }

    /// Look for a standby, if one is wanted and the guest is known; not while that needs the processors more.
    fn seek(&mut self) {
        if let (true, false, Some(facts)) = (self.seeker.is_wanted, self.life.is_busy(), &self.life.facts) {
            // Who looks for a standby holds the machine.
            let Some(held) = self.member.held() else { return };
            let hello = seek::hello(&self.spec, &self.me, held, facts);
            self.seeker.start(&self.spec, hello, None);
        }
    }

    fn send(&mut self, message: &ActiveMessage) {
        let message = match *message {
            ActiveMessage::Heartbeat { term, sent } => {
                Message::Heartbeat(Heartbeat { term, sent_ns: nanoseconds(sent), echo_ns: None })
            }
            ActiveMessage::Protected { term } => Message::Protected(Protected { term }),
            ActiveMessage::Resign { term, last } => Message::Resign(Resign { term, last }),
            ActiveMessage::Bye { term } => Message::Bye { term },
        };
        if self.link.send(&message)
            && let Message::Protected(Protected { term }) = message
        {
            // Epochs of the new term come after the message that begins it.
            self.guest.order(Order::Go { term });
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Register(answer) => {
                self.registrar.heard(&answer);
                self.tell(ActiveInput::Register(answer));
            }
            Input::Found { seeker, found } if self.seeker.takes(seeker) => match self.link.host() {
                None => self.found(*found),
                Some(_) => self.replace_standby(*found),
            },
            Input::NotFound(host, error) => self.not_found(&host, &error),
            Input::Message { link, message } if self.link.is(link) => self.message(message),
            Input::LinkClosed { link, reason } if self.link.is(link) => {
                self.give_up_link(wording::of_link(&reason));
            }
            // Of another seeker or link; with what was found goes its link.
            Input::Found { .. } | Input::Message { .. } | Input::LinkClosed { .. } => {}
            Input::StandbyOver(standby) => {
                self.events.add(&Event::StandbyOver { standby: standby.to_string() });
                self.tell(ActiveInput::StandbyOver { standby });
            }
            Input::Terminate => self.leave_host(),
        }
    }

    /// This process is to end, and its host perhaps too: that is no reason for the machine to end.
    fn leave_host(&mut self) {
        let state = self.member.state();
        let why = match self.link.host().filter(|_| self.link.is_leaving()) {
            Some(standby) => Some(format!("{} is to go down, too", standby.name)),
            None => (state != ActiveState::Protected).then(|| format!("it is {state:?}")),
        };
        if let Some(why) = why {
            self.events.warn(format!(
                "{} was asked to leave while {why}: it does when a standby can take the machine; \
                 `stealtime protect stop` ends the machine",
                self.spec.host
            ));
        }
        self.is_to_leave = true;
    }

    fn answer(&mut self, request: Request) {
        let Request { command, answer } = request;
        match command {
            Command::Status => drop(answer.send(Ok(json!(self.status())))),
            Command::Failover { .. } if self.link.is_leaving() => drop(answer.send(Err(self.would_go_down()))),
            Command::Failover { .. } => {
                self.requests.failover(answer);
                self.tell(ActiveInput::FailoverRequested);
            }
            Command::Stop => {
                self.requests.stop(answer);
                self.tell(ActiveInput::StopRequested);
            }
            Command::Detach => {
                self.detach();
                let _ = answer.send(Ok(json!({"detached": self.spec.machine.name})));
            }
            // Armed by the control socket itself.
            Command::Fault { .. } => drop(answer),
        }
    }

    /// Protect no longer; the machine goes on here.
    fn detach(&mut self) {
        self.spec.standby_hosts.clear();
        self.seeker.stop();
        // So that the standby does not try to take over what goes on here.
        self.send(&ActiveMessage::Bye { term: self.member.term() });
        self.give_up_link("it was asked to go on alone".to_owned());
    }
}
