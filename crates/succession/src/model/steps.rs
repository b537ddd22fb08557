//! What can happen next.

use super::Fault;
use super::failures::Failure;
use super::watch::{Violation, must};
use super::world::{Arrived, Downstream, Link, Role, Told, Upstream, World};
use crate::{
    ActiveInput, ActiveMember, ActiveMessage, ActiveState, Epoch, MemberId, Record, RegisterAnswer, RegisterCall,
    RegisterOutcome, StandbyConfig, StandbyInput, StandbyMember, StandbyMessage, SwapOutcome, Term, Version, Versioned,
};

/// One thing that happens; numbers are of processes or links.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    Advance,
    Tick(usize),
    Connect(usize),
    ToStandby(usize),
    ToActive(usize),
    Apply(usize),
    ApplyLate,
    Answer(usize),
    Write(usize),
    Cut(usize),
    /// A member hears what its engine has told.
    Hear(usize),
    Release(usize),
    /// A standby has staged the next epoch that came.
    Stage(usize),
    /// A heartbeat comes before what was sent earlier.
    Overtake(usize),
    SwitchOver(usize),
    Leave(usize),
    /// Somebody asks for the end of the virtual machine.
    End(usize),
    /// The guest that was offered is loaded.
    Load(usize),
    /// A standby's host says that its process has ended.
    Vouch(usize),
    Fail(Failure),
}

impl World {
    /// All that can happen without a failure.
    pub fn ordinary_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.late.is_empty() {
            steps.push(Step::ApplyLate);
        }
        for (index, process) in self.processes.iter().enumerate() {
            if process.request.is_some() {
                steps.push(Step::Apply(index));
            }
            let deadline = match &process.role {
                _ if process.stopped => continue,
                Role::Gone => continue,
                Role::Active(member) => member.deadline(),
                Role::Standby(member) => member.deadline(),
            };
            if process.answer.is_some() {
                steps.push(Step::Answer(index));
            }
            if deadline.is_some_and(|deadline| deadline <= self.now(index)) {
                steps.push(Step::Tick(index));
            }
            if matches!(process.role, Role::Standby(_)) && !process.arrived.is_empty() {
                steps.push(Step::Stage(index));
            }
            if let Role::Active(member) = &process.role
                && self.is_vouched_for(member)
                && process.vouched.as_ref() != member.may_claim()
            {
                steps.push(Step::Vouch(index));
            }
            if let (Role::Active(member), Some(guest)) = (&process.role, &process.guest) {
                if guest.running && guest.frames.len() < 3 {
                    steps.push(Step::Write(index));
                }
                let may_cut = guest.running && guest.told.is_empty() && member.may_cut();
                if guest.first.is_some() && (guest.last_wanted || may_cut) {
                    steps.push(Step::Cut(index));
                }
                if !guest.told.is_empty() {
                    steps.push(Step::Hear(index));
                }
                let is_permitted = self.now(index) < member.permit().until(process.output.standing());
                let may_leave = |(epoch, _): &(Option<Epoch>, u64)| process.output.may_leave(*epoch);
                if is_permitted && guest.frames.front().is_some_and(may_leave) {
                    steps.push(Step::Release(index));
                }
                if process.loads {
                    steps.push(Step::Load(index));
                }
                if process.seeking && self.processes.len() < 12 {
                    steps.push(Step::Connect(index));
                }
            }
        }
        for (index, link) in self.links.iter().enumerate() {
            let hears = |process: usize| {
                !self.processes[process].stopped && !matches!(self.processes[process].role, Role::Gone)
            };
            if !link.to_standby.is_empty() && !link.cut_to_standby && hears(link.standby) {
                steps.push(Step::ToStandby(index));
                if link.heartbeat_behind_others().is_some() {
                    steps.push(Step::Overtake(index));
                }
            }
            // The engine tells of an epoch before it ships it, and the member hears all in one queue.
            let is_ahead = |message: &Upstream| {
                let Upstream::Message(StandbyMessage::Acknowledge { epoch, .. }) = message else {
                    return false;
                };
                let told = self.processes[link.active].guest.iter().flat_map(|guest| &guest.told);
                told.copied().any(|told| matches!(told, Told::Cut { epoch: waits, .. } if waits <= *epoch))
            };
            let is_next = link.to_active.front().is_some_and(|message| !is_ahead(message));
            if is_next && !link.cut_to_active && hears(link.active) {
                steps.push(Step::ToActive(index));
            }
        }
        steps
    }

    /// Whether a member waits for the register's word while the process of who may claim has ended.
    fn is_vouched_for(&self, member: &ActiveMember) -> bool {
        let waits = matches!(member.state(), ActiveState::Reclaiming | ActiveState::Fenced | ActiveState::Stopping);
        let has_ended = |standby: &MemberId| {
            let process = self.processes.iter().find(|process| process.me == *standby);
            process.is_some_and(|process| matches!(process.role, Role::Gone))
        };
        waits && member.may_claim().is_some_and(has_ended)
    }

    pub fn take(&mut self, step: Step) -> Result<(), Violation> {
        self.happen(step)?;
        self.check_exclusion()?;
        self.check_output()
    }

    fn happen(&mut self, step: Step) -> Result<(), Violation> {
        match step {
            Step::Advance => self.time += 1,
            Step::Tick(index) => match self.processes[index].role {
                Role::Active(_) => self.tell_active(index, ActiveInput::Tick)?,
                _ => self.tell_standby(index, StandbyInput::Tick, 0)?,
            },
            Step::Connect(index) => self.connect(index)?,
            Step::ToStandby(link) => self.deliver_to_standby(link)?,
            Step::ToActive(link) => self.deliver_to_active(link)?,
            Step::Apply(index) => self.apply(index)?,
            Step::ApplyLate => {
                let (by, request) = self.late.remove(0);
                if let RegisterCall::Swap { expected, wanted } = request.call {
                    self.swap(by, expected, wanted)?;
                }
            }
            Step::Answer(index) => {
                let Some(answer) = self.processes[index].answer.take() else { return Ok(()) };
                match self.processes[index].role {
                    Role::Active(_) => self.tell_active(index, ActiveInput::Register(answer))?,
                    _ => self.tell_standby(index, StandbyInput::Register(answer), 0)?,
                }
            }
            Step::Write(index) => {
                if let Some(guest) = &mut self.processes[index].guest {
                    guest.value += 1;
                    guest.frames.push_back((None, guest.value));
                }
            }
            Step::Cut(index) => self.cut(index),
            Step::Hear(index) => self.hear(index)?,
            Step::Release(index) => self.release(index)?,
            Step::Stage(index) => {
                let Some(arrived) = self.processes[index].arrived.pop_front() else { return Ok(()) };
                let Arrived { term, epoch, full, value } = arrived;
                self.tell_standby(index, StandbyInput::EpochVerified { term, epoch, full }, value)?;
            }
            Step::Overtake(link) => {
                let Some(place) = self.links[link].heartbeat_behind_others() else { return Ok(()) };
                if let Some(heartbeat) = self.links[link].to_standby.remove(place) {
                    self.links[link].to_standby.push_front(heartbeat);
                }
                self.deliver_to_standby(link)?;
            }
            Step::Leave(index) => self.tell_active(index, ActiveInput::LeaveRequested)?,
            Step::SwitchOver(index) => self.tell_active(index, ActiveInput::FailoverRequested)?,
            Step::End(index) => self.tell_active(index, ActiveInput::StopRequested)?,
            Step::Vouch(index) => {
                let Some(standby) = self.active(index).and_then(|member| member.may_claim().cloned()) else {
                    return Ok(());
                };
                self.processes[index].vouched = Some(standby.clone());
                self.tell_active(index, ActiveInput::StandbyOver { standby })?;
            }
            Step::Load(index) => {
                self.processes[index].loads = false;
                self.tell_active(index, ActiveInput::GuestLoaded)?;
            }
            Step::Fail(failure) => self.fail(failure)?,
        }
        Ok(())
    }

    /// A fresh standby on the next host.
    fn connect(&mut self, active: usize) -> Result<(), Violation> {
        let Some(member) = self.active(active) else { return Ok(()) };
        let (term, holder) = (member.term(), self.processes[active].me.clone());
        let host = if holder.host() == "alpha" { "beta" } else { "alpha" };
        if let Some((told_by, term, holder)) = self.refuses_for(host, term) {
            return self.tell_active(active, ActiveInput::Outranked { told_by, term, holder });
        }
        let standby = self.add(host, Role::Gone);
        let (me, mode, timing) = (self.processes[standby].me.clone(), self.mode, self.timing);
        let config = StandbyConfig { me: me.clone(), active: holder, term, mode, timing };
        let mut member = StandbyMember::new(config, self.now(standby));
        member.fault = self.fault;
        self.processes[standby].role = Role::Standby(member);
        self.processes[active].seeking = false;
        self.links.push(Link {
            active,
            standby,
            to_standby: [].into(),
            to_active: [].into(),
            cut_to_standby: false,
            cut_to_active: false,
        });
        self.tell_active(active, ActiveInput::StandbyConnected { standby: me })
    }

    /// Who holds the machine in a later term, by the register of a host that is asked to stand by for it; nobody lives
    /// on that host.
    fn refuses_for(&self, host: &str, asked: Term) -> Option<(String, Term, MemberId)> {
        let ours = self.register.as_ref().map(|current| &current.record);
        let found = if self.reads_another_register(host) { self.other_register.as_ref() } else { ours };
        let found = found.filter(|record| record.term > asked)?;
        let holder = found.holder.clone().filter(|holder| holder.host() != host)?;
        Some((host.to_owned(), found.term, holder))
    }

    fn deliver_to_standby(&mut self, link: usize) -> Result<(), Violation> {
        let standby = self.links[link].standby;
        let input = match self.links[link].to_standby.pop_front() {
            None => return Ok(()),
            Some(Downstream::Closed) => StandbyInput::LinkClosed,
            Some(Downstream::Epoch(arrived)) => {
                let Arrived { term, epoch, .. } = arrived;
                self.processes[standby].arrived.push_back(arrived);
                if !arrived.full && self.fault == Some(Fault::AcknowledgesOnReceipt) {
                    let acknowledge = StandbyMessage::Acknowledge { term, epoch };
                    self.links[link].to_active.push_back(Upstream::Message(acknowledge));
                }
                StandbyInput::Traffic { term }
            }
            Some(Downstream::Message(message)) => match message {
                ActiveMessage::Heartbeat { term, sent } => StandbyInput::Heartbeat { term, sent },
                ActiveMessage::Protected { term } => StandbyInput::Protected { term },
                ActiveMessage::Resign { term, last } => StandbyInput::Resign { term, last },
                ActiveMessage::Bye { term } => StandbyInput::Bye { term },
            },
        };
        self.tell_standby(standby, input, 0)
    }

    fn deliver_to_active(&mut self, link: usize) -> Result<(), Violation> {
        let active = self.links[link].active;
        let input = match self.links[link].to_active.pop_front() {
            None => return Ok(()),
            Some(Upstream::Closed) => ActiveInput::LinkClosed,
            Some(Upstream::Message(StandbyMessage::Echo { term, sent })) => ActiveInput::Echo { term, sent },
            Some(Upstream::Message(StandbyMessage::Acknowledge { term, epoch })) => {
                ActiveInput::Acknowledged { term, epoch }
            }
            Some(Upstream::Message(StandbyMessage::Confirmed { term })) => ActiveInput::Confirmed { term },
        };
        self.tell_active(active, input)
    }

    /// The register does what a process asks. This may be long after it was asked.
    pub(super) fn apply(&mut self, index: usize) -> Result<(), Violation> {
        let Some(request) = self.processes[index].request.take() else { return Ok(()) };
        let outcome = if self.processes[index].register_cut {
            RegisterOutcome::Unreachable { reason: String::new() }
        } else {
            match request.call {
                RegisterCall::Read if self.reads_another_register(self.processes[index].me.host()) => {
                    let version = Version(1);
                    RegisterOutcome::Read(self.other_register.clone().map(|record| Versioned { version, record }))
                }
                RegisterCall::Read => RegisterOutcome::Read(self.register.clone()),
                RegisterCall::Swap { .. } if self.takes_no_writes => {
                    RegisterOutcome::Unreachable { reason: "it is full".to_owned() }
                }
                RegisterCall::Swap { expected, wanted } => RegisterOutcome::Swap(self.swap(index, expected, wanted)?),
            }
        };
        self.processes[index].answer = Some(RegisterAnswer { id: request.id, outcome });
        Ok(())
    }

    fn swap(&mut self, by: usize, expected: Option<Version>, wanted: Record) -> Result<SwapOutcome, Violation> {
        if self.register.as_ref().map(|current| current.version) != expected {
            return Ok(SwapOutcome::Lost(self.register.clone()));
        }
        self.check_swap(by, &wanted)?;
        let same = |granted: &&mut Record| granted.holder == wanted.holder && granted.standby == wanted.standby;
        match self.granted.last_mut().filter(same) {
            Some(newest) => newest.clone_from(&wanted),
            None => self.granted.push(wanted.clone()),
        }
        Ok(SwapOutcome::Won(self.put(Some(wanted))))
    }

    /// Versions go on even where the register goes back (for etcd: `--bump-revision`).
    pub(super) fn put(&mut self, record: Option<Record>) -> Version {
        self.versions += 1;
        let version = Version(self.versions);
        self.register = record.map(|record| Versioned { version, record });
        version
    }

    fn cut(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let (Role::Active(member), Some(guest)) = (&process.role, &mut process.guest) else { return };
        let epoch = process.output.last_cut().next().max(guest.first.unwrap_or_default());
        let (term, value) = (member.term(), guest.value);
        let (full, last) = (guest.first == Some(epoch), std::mem::take(&mut guest.last_wanted));
        process.output.cut(epoch);
        for (of, _) in guest.frames.iter_mut().filter(|(of, _)| of.is_none()) {
            *of = Some(epoch);
        }
        guest.told.push_back(Told::Cut { epoch, last });
        if let Some(link) = self.links.iter_mut().rev().find(|link| link.active == index) {
            link.to_standby.push_back(Downstream::Epoch(Arrived { term, epoch, full, value }));
        }
    }

    fn hear(&mut self, index: usize) -> Result<(), Violation> {
        let told = self.processes[index].guest.as_mut().and_then(|guest| guest.told.pop_front());
        match told {
            None => Ok(()),
            Some(Told::Cut { epoch, last }) => self.tell_active(index, ActiveInput::EpochCut { epoch, last }),
            Some(Told::Failed { cut }) => {
                self.tell_active(index, ActiveInput::LinkClosed)?;
                self.tell_active(index, ActiveInput::EpochCut { epoch: cut, last: false })
            }
        }
    }

    fn release(&mut self, index: usize) -> Result<(), Violation> {
        let front = self.processes[index].guest.as_mut().and_then(|guest| guest.frames.pop_front());
        let Some((_, value)) = front else { return Ok(()) };
        self.check_release(index, value)?;
        self.seen = self.seen.max(value);
        Ok(())
    }

    /// Let everything happen in time, for so many ticks.
    pub fn run_punctually(&mut self, ticks: u32) -> Result<(), Violation> {
        self.run_without(ticks, |_| false)
    }

    /// Let everything happen in time, but for what is held back.
    pub fn run_without(&mut self, ticks: u32, held_back: fn(Step) -> bool) -> Result<(), Violation> {
        for _ in 0..ticks {
            self.settle(held_back)?;
            self.take(Step::Advance)?;
        }
        self.settle(held_back)
    }

    /// Let everything happen that can without time passing, one write and one cut of each guest among it, and one call
    /// of each member for a standby.
    fn settle(&mut self, held_back: fn(Step) -> bool) -> Result<(), Violation> {
        let mut done: Vec<Step> = Vec::new();
        let mut taken = 0;
        loop {
            let steps = self.ordinary_steps();
            let Some(step) = steps.into_iter().find(|step| !done.contains(step) && !held_back(*step)) else {
                return Ok(());
            };
            self.take(step)?;
            if matches!(step, Step::Write(_) | Step::Cut(_) | Step::Connect(_)) {
                done.push(step);
            }
            taken += 1;
            must!(taken < 1000, "no end of steps at tick {}, the last one is {step:?}", self.time);
        }
    }
}
