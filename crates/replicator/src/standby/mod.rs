//! The member that stands by: it stages whole epochs, verifies and acknowledges them, writes them into the
//! memory of a QEMU that waits, and becomes the active member when it wins.

mod leaves;
mod port;
mod preparing;
mod requests;
mod watch;

use std::os::fd::OwnedFd;
use std::time::Duration;

use stealtime_outputhold::{LearnedAddresses, PortFault};
use stealtime_shipping::{
    Acknowledge, Confirmed, CopyHeld, Heartbeat, LinkError, LinkReceiver, LinkSender, Message, PAGE_BYTES, Protected,
    Refusal as ShippingRefusal, Resign,
};
use stealtime_succession::{
    Epoch, MemberId, Promotion, RegisterAnswer, RegisterError, StandbyAction, StandbyEnding, StandbyInput,
    StandbyMember, StandbyMessage, StandbyState, Term,
};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;

use crate::active::{Origin, Takeover};
use crate::alarms::AlarmKind;
use crate::clock::{nanoseconds, now};
use crate::control::Request;
use crate::disks::Notes;
use crate::events::{Event, EventLog};
use crate::guest::{Guest, GuestEvent, GuestFacts, MachineError};
use crate::machine::Machine;
use crate::member_folder::FolderError;
use crate::registers::Registrar;
use crate::spec::Spec;
use crate::staging::{Piece, Staging, StagingError, StagingEvent};
use crate::status::{FullCopy, Peer};
use crate::trial_load::TrialError;
use crate::{addresses, faults, signals, wording};

use leaves::LeaveWatching;
use port::{PortWatching, hear};
pub use preparing::run;

use preparing::Place;
use watch::Watch;

/// Why a standby ends without having stood by to the end.
#[derive(Debug, thiserror::Error)]
pub enum StandbyError {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("{0} (hint: {hint})", hint = .0.hint())]
    Refused(Box<ShippingRefusal>),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Staging(#[from] StagingError),
    #[error(transparent)]
    Trial(#[from] TrialError),
    #[error("the waiting QEMU is gone: {0}")]
    Guest(String),
    #[error("the guest would reach nobody from here: {0}")]
    Network(PortFault),
}

/// How a standby ended.
pub enum Outcome {
    /// It has won: go on as the active member.
    Won {
        spec: Box<Spec>,
        me: MemberId,
        machine: Box<Machine>,
        /// What will be heard of it.
        heard: UnboundedReceiver<GuestEvent>,
        origin: Origin,
        requests: mpsc::Receiver<Request>,
        /// Of the folder; to be kept.
        lock: OwnedFd,
    },
    /// It is not needed any more.
    Ended,
    /// It was asked to leave.
    Left,
}

enum Input {
    Message(Message),
    /// Part of an epoch came; it is with the staging thread.
    Traffic {
        term: Term,
    },
    Staging(StagingEvent),
    LinkClosed(LinkError),
    Register(RegisterAnswer),
    Terminate,
}

struct Standby {
    spec: Spec,
    me: MemberId,
    active: Peer,
    member: StandbyMember,
    sender: Option<LinkSender>,
    watch: Watch,
    registrar: Registrar,
    machine: Machine,
    facts: GuestFacts,
    staging: Staging,
    reader: JoinHandle<()>,
    staged: Epoch,
    full_copy: Option<FullCopy>,
    addresses: LearnedAddresses,
    events: EventLog,
    port: PortWatching,
    since_unix_ns: u64,
    announced_claim: bool,
    leaves: LeaveWatching,
    warnings: Vec<String>,
    ending: Option<End>,
    place: Place,
    notes: Notes,
}

enum End {
    Won(Promotion),
    Ended(StandbyEnding),
    Left,
    /// Others are let in before it.
    GaveWay(Box<ShippingRefusal>),
    /// It could not go on with the machine.
    Useless(Box<ShippingRefusal>),
}

/// How long the active member may take to hear why it is left.
const REFUSE_WITHIN: Duration = Duration::from_millis(200);

/// Tell the active member why it is left. It hears of that by its closed link, if by nothing else.
async fn refuse(sender: Option<LinkSender>, term: Term, refusal: &ShippingRefusal) {
    if let Some(sender) = sender {
        let refuse = Message::Refuse { term, refusal: refusal.clone() };
        let told = async { sender.send(&refuse).await.and(sender.close().await) };
        let _ = tokio::time::timeout(REFUSE_WITHIN, told).await;
    }
}

/// How a standby ends that could not go on with the machine. Not one that claims: the active member is given up by
/// then, so what is here may be all that is left of the machine, and whether it can be resumed is seen when
/// it is.
fn useless(state: StandbyState, reason: String, hint: &str) -> Option<End> {
    if state == StandbyState::Claiming {
        return None;
    }
    Some(End::Useless(Box::new(ShippingRefusal::Other { reason, hint: hint.to_owned() })))
}

async fn read(mut receiver: LinkReceiver, pieces: mpsc::Sender<Piece>, inputs: mpsc::UnboundedSender<Input>) {
    loop {
        let message = match receiver.receive().await {
            Ok(message) => message,
            Err(error) => {
                let _ = inputs.send(Input::LinkClosed(error));
                return;
            }
        };
        let term = message.term();
        let (piece, input) = match message {
            Message::EpochBegin(_)
            | Message::Pages(_)
            | Message::Devices(_)
            | Message::DiskWrites(_)
            | Message::DiskDigests(_)
            | Message::Comparison(_)
            | Message::EpochEnd(_) => (Some(Piece::Message(message)), Input::Traffic { term }),
            Message::Protected(_) => (Some(Piece::Term(term)), Input::Message(message)),
            message => (None, Input::Message(message)),
        };
        if inputs.send(input).is_err() {
            return;
        }
        // A thread that takes nothing more has told why, or is not wanted any more.
        if let Some(piece) = piece {
            let _ = pieces.send(piece).await;
        }
    }
}

impl Standby {
    async fn run(
        mut self,
        mut inputs: UnboundedReceiver<Input>,
        mut heard: UnboundedReceiver<GuestEvent>,
        mut requests: mpsc::Receiver<Request>,
    ) -> Result<Outcome, StandbyError> {
        while self.ending.is_none() {
            let moments = [self.member.deadline(), Some(self.port.look_at), Some(self.watch.next_at())];
            let deadline = moments.into_iter().flatten().min().unwrap_or(Duration::MAX);
            tokio::select! {
                biased;
                Some(event) = heard.recv() => hear(event, self.member.state())?,
                Some(input) = inputs.recv() => self.take(input)?,
                Some(request) = requests.recv() => self.answer(request),
                () = signals::sleep_until(deadline) => self.tell(StandbyInput::Tick),
            }
            self.look_at_port();
            self.look_whether_it_leaves();
            if self.ending.is_none() {
                self.look();
            }
        }
        let Self {
            spec,
            me,
            mut machine,
            facts,
            mut events,
            ending,
            staging,
            reader,
            addresses,
            place,
            sender,
            member,
            watch,
            ..
        } = self;
        // With the reader ends the way to the staging thread. An epoch that it still has is not ours: with
        // the inputs goes its question whether to commit, for whose answer it would wait for ever.
        reader.abort();
        let _ = reader.await;
        drop(inputs);
        match ending {
            Some(End::Won(promotion)) => {
                let decided = promotion.claimed_at;
                let (devices, leftover) = staging.finish().await;
                if devices.is_empty() {
                    return Err(StandbyError::Guest("its memory was not written to the end".to_owned()));
                }
                let (offered_by, metrics) = (sender, watch.metrics);
                let Place { lock, admitted, .. } = place;
                let promised = Some(admitted.promised);
                let takeover =
                    Takeover { promotion, facts, devices, addresses, decided, leftover, offered_by, metrics, promised };
                let origin = Origin::Takeover(Box::new(takeover));
                let machine = Box::new(machine);
                Ok(Outcome::Won { spec: Box::new(spec), me, machine, heard, origin, requests, lock })
            }
            Some(End::Ended(ending)) => {
                events.add(&Event::Left { reason: ending.to_string() });
                machine.end();
                Ok(Outcome::Ended)
            }
            Some(End::Useless(refusal)) => {
                events.add(&Event::Left { reason: refusal.to_string() });
                refuse(sender, member.term(), &refusal).await;
                machine.end();
                Err(StandbyError::Refused(refusal))
            }
            Some(End::GaveWay(refusal)) => {
                events.add(&Event::Left { reason: refusal.to_string() });
                refuse(sender, member.term(), &refusal).await;
                machine.end();
                place.leave_nothing(&spec.folder);
                Err(StandbyError::Refused(refusal))
            }
            Some(End::Left) | None => {
                events.add(&Event::Left { reason: "it was asked to leave".to_owned() });
                machine.end();
                Ok(Outcome::Left)
            }
        }
    }

    fn take(&mut self, input: Input) -> Result<(), StandbyError> {
        match input {
            Input::Message(message) => self.message(&message),
            Input::Traffic { term } => self.tell(StandbyInput::Traffic { term }),
            Input::Staging(event) => self.staging_told(event)?,
            Input::LinkClosed(error) => {
                self.events.add(&Event::LinkLost { reason: wording::of_link(&error) });
                self.tell(StandbyInput::LinkClosed);
            }
            Input::Register(answer) => {
                self.registrar.heard(&answer);
                self.tell(StandbyInput::Register(answer));
            }
            // What it holds may be all that is left of the machine; the active member that it becomes is
            // asked, too.
            Input::Terminate if self.member.state() == StandbyState::Claiming => {}
            Input::Terminate => self.ending = Some(End::Left),
        }
        Ok(())
    }

    fn message(&mut self, message: &Message) {
        let term = message.term();
        match *message {
            Message::Heartbeat(heartbeat) => {
                let sent = Duration::from_nanos(heartbeat.sent_ns);
                self.tell(StandbyInput::Heartbeat { term, sent });
            }
            Message::Protected(Protected { term }) => {
                self.tell(StandbyInput::Protected { term });
            }
            Message::Addresses(ref told) => self.addresses = addresses::learned(told.clone()),
            Message::Resign(_) if self.refuses_offer() => {}
            Message::Resign(Resign { term, last }) => self.tell(StandbyInput::Resign { term, last }),
            Message::Bye { term } => self.tell(StandbyInput::Bye { term }),
            ref other => self.events.add(&Event::Warning {
                text: format!("the active member sent {:?}, which it never should", other.kind()),
            }),
        }
    }

    fn staging_told(&mut self, event: StagingEvent) -> Result<(), StandbyError> {
        match event {
            StagingEvent::Verified { term, epoch, commit } => {
                self.staged = epoch;
                // With the copy in advance, the first one completes all pages.
                let full = self.member.committed().is_none();
                let actions = self.handle(StandbyInput::EpochVerified { term, epoch, full });
                // It is whole and ours whatever happens to the other side: what is still to be written needs
                // nobody.
                let _ = commit.send(self.member.committed() == Some(epoch));
                self.place.admitted.copied();
                self.act(actions);
            }
            StagingEvent::Progress { pages, total_pages } => {
                let bytes = |pages: u64| pages * PAGE_BYTES as u64;
                let disks = self.spec.bytes_to_copy() - self.spec.machine.memory_bytes;
                self.full_copy = Some(FullCopy { done_bytes: bytes(pages), total_bytes: bytes(total_pages) + disks });
                self.watch.copy_moves();
            }
            StagingEvent::DiskCompared { wanted, bytes } => {
                if let Some(copy) = &mut self.full_copy {
                    copy.done_bytes = copy.total_bytes.min(copy.done_bytes + bytes);
                }
                self.watch.disk_moves();
                self.pass_on(&Message::DiskWanted(wanted));
            }
            StagingEvent::CopyHeld { term } => {
                self.watch.copy_held();
                self.pass_on(&Message::CopyHeld(CopyHeld { term }));
            }
            // The memory holds the last committed epoch: it may still be needed.
            StagingEvent::Failed(error @ StagingError::Stage(_)) => {
                self.events.add(&Event::Warning { text: wording::in_full(&error) });
                self.act(vec![StandbyAction::CloseLink]);
                self.reader.abort();
                self.tell(StandbyInput::LinkClosed);
            }
            StagingEvent::Failed(
                error @ (StagingError::Ram(_)
                | StagingError::Disk(_)
                | StagingError::Currency(_)
                | StagingError::Medium(_)
                | StagingError::Compare(_)),
            ) => return Err(error.into()),
            StagingEvent::Failed(StagingError::Trial(error)) => {
                let text = wording::in_full(&error);
                self.end_as_useless(text, "could not resume it", "install the same QEMU package on both hosts");
            }
            StagingEvent::Failed(error @ StagingError::Differs { .. }) => {
                let hint =
                    "look for faulty memory or a faulty disk in the kernel's log of both hosts; all is copied anew";
                self.end_as_useless(wording::in_full(&error), "cannot go on with it", hint);
            }
            StagingEvent::Tried(outcome) => {
                let failed = outcome.err().map(|error| wording::in_full(&error));
                self.events.alarm(AlarmKind::Trial, failed);
            }
        }
        Ok(())
    }

    /// End: what is here is not what it should be.
    fn end_as_useless(&mut self, text: String, cannot: &str, hint: &str) {
        match useless(self.member.state(), format!("{} {cannot}: {text}", self.spec.host), hint) {
            Some(end) => self.ending = Some(end),
            None => self.events.add(&Event::Warning { text }),
        }
    }

    fn tell(&mut self, input: StandbyInput) {
        let actions = self.handle(input);
        self.act(actions);
    }

    fn handle(&mut self, input: StandbyInput) -> Vec<StandbyAction> {
        self.member.handle(now(), input)
    }

    fn act(&mut self, actions: Vec<StandbyAction>) {
        for action in actions {
            match action {
                StandbyAction::Register(request) => {
                    if self.member.state() == StandbyState::Claiming {
                        self.announce_claim();
                        faults::point("before-claim");
                    }
                    self.registrar.ask(request);
                }
                StandbyAction::RegisterWentBack { held, found } => {
                    self.registrar.went_back += 1;
                    self.events.add(&Event::RegisterWentBack { held, found });
                    let text = wording::of_register_that_went_back(held, found);
                    self.warnings = vec![format!(
                        "{text}; it waits for the member that held the machine: if that is dead, \
                         `stealtime protect failover {} --force` here",
                        self.spec.machine.name
                    )];
                }
                // See `staging_told`.
                StandbyAction::Commit(_) => {}
                StandbyAction::Send(message) => self.send(&message),
                StandbyAction::CloseLink => {
                    if let Some(sender) = self.sender.take() {
                        sender.abort();
                    }
                }
                StandbyAction::GoLive(promotion) => {
                    faults::point("after-claim");
                    self.ending = Some(End::Won(promotion));
                }
                StandbyAction::Exit(ending @ StandbyEnding::OtherRegister { .. }) => {
                    // Said to the active member, who tells it to the operator.
                    self.ending = Some(End::Useless(Box::new(ShippingRefusal::Other {
                        reason: ending.to_string(),
                        hint: "name the same register in VM.toml and in HOST.toml there".to_owned(),
                    })));
                }
                StandbyAction::Exit(ending) => self.ending = Some(End::Ended(ending)),
            }
        }
    }

    fn announce_claim(&mut self) {
        if !std::mem::replace(&mut self.announced_claim, true) {
            self.events.add(&Event::Claiming {
                term: self.member.term().next(),
                reason: "the active member is silent, or asked for it".to_owned(),
            });
        }
    }

    fn send(&mut self, message: &StandbyMessage) {
        let message = match *message {
            StandbyMessage::Echo { term, sent } => {
                let echo_ns = Some(nanoseconds(sent));
                Message::Heartbeat(Heartbeat { term, sent_ns: nanoseconds(now()), echo_ns })
            }
            StandbyMessage::Confirmed { term } => {
                // From here on this host may be the only one that has the machine.
                self.notes.stand_by(term);
                self.events.add(&Event::Protected { term, epoch: self.member.committed().unwrap_or(Epoch(0)) });
                let port_fault = self.port_fault();
                Message::Confirmed(Confirmed { term, port_fault })
            }
            StandbyMessage::Acknowledge { term, epoch } => {
                faults::point("before-acknowledge");
                Message::Acknowledge(Acknowledge { term, epoch })
            }
        };
        self.pass_on(&message);
        if matches!(message, Message::Acknowledge(_)) {
            faults::point("after-acknowledge");
        }
    }

    fn pass_on(&self, message: &Message) {
        // A link that fails is told by its reader.
        if let Some(sender) = &self.sender {
            let _ = sender.try_send(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_useless_standby_ends_unless_it_claims() {
        let reason = "b could not resume it: the state cannot be loaded";
        let end = |state| useless(state, reason.to_owned(), "install the same");
        assert!(end(StandbyState::Claiming).is_none(), "its memory may be all that is left");
        for state in [StandbyState::Syncing, StandbyState::Eligible] {
            let Some(End::Useless(refusal)) = end(state) else { panic!("{state:?}") };
            assert!(refusal.to_string().contains(reason));
        }
    }
}
