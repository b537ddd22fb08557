//! What can break, and what is mended.

use super::watch::Violation;
use super::world::{Downstream, Process, Role, Upstream, World};
use crate::{ActiveInput, MemberId, Record, RegisterAnswer, RegisterOutcome, SwapOutcome};

/// What breaks, or is mended.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// The process is killed; its connections are closed.
    Kill(usize),
    /// The host loses power; nobody is told.
    PowerOff(usize),
    /// SIGSTOP stops this member.
    Stop(usize),
    /// SIGCONT lets it go on.
    Continue(usize),
    /// The link is cut in both directions, or in one.
    CutBoth(usize),
    CutToStandby(usize),
    CutToActive(usize),
    /// The connection is reset: both are told.
    Reset(usize),
    /// The register answers a process no more, or again.
    HideRegister(usize),
    ShowRegister(usize),
    /// It can be read, and takes no writes any more, or again.
    FillRegister,
    EmptyRegister,
    /// A request is applied, but its answer is lost.
    LoseAnswer(usize),
    /// A request is given up, and applied later.
    DelayRequest(usize),
    /// The guest's process ends.
    KillGuest(usize),
    /// The register is put back to an earlier state, the last but so many, or to nothing.
    GoBack(usize),
    EraseRegister,
}

/// How far back a register goes.
const EARLIER_STATES: usize = 3;

impl World {
    /// All that can break now.
    pub fn failures(&self) -> Vec<Failure> {
        let mut failures = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            if matches!(process.role, Role::Gone) {
                continue;
            }
            failures.extend([Failure::Kill(index), Failure::PowerOff(index)]);
            failures.push(if process.stopped { Failure::Continue(index) } else { Failure::Stop(index) });
            let hidden = process.register_cut;
            failures.push(if hidden { Failure::ShowRegister(index) } else { Failure::HideRegister(index) });
            if process.request.is_some() && !hidden {
                failures.extend([Failure::LoseAnswer(index), Failure::DelayRequest(index)]);
            }
            if process.guest.is_some() {
                failures.push(Failure::KillGuest(index));
            }
        }
        for (index, link) in self.links.iter().enumerate() {
            if !link.cut_to_active && !link.cut_to_standby {
                let cuts = [Failure::CutBoth, Failure::CutToStandby, Failure::CutToActive, Failure::Reset];
                failures.extend(cuts.map(|cut| cut(index)));
            }
        }
        let earlier =
            (1..=EARLIER_STATES.min(self.granted.len().saturating_sub(1))).filter(|back| self.may_go_back(*back));
        failures.extend(earlier.map(Failure::GoBack));
        if !self.granted.is_empty() && self.all_turned_away_are_gone() {
            failures.push(Failure::EraseRegister);
        }
        failures
    }

    /// Members must outlive a register that goes back. That one who was turned away stays away cannot be
    /// asked of them if the register has forgotten it: so each of these has learned it, or is dead.
    fn all_turned_away_are_gone(&self) -> bool {
        let holder = self.granted.last().and_then(|newest| newest.holder.as_ref());
        // One that was stopped hears later that its claim was won.
        let won = |process: &Process| {
            let outcome = process.answer.as_ref().map(|answer| &answer.outcome);
            matches!(outcome, Some(RegisterOutcome::Swap(SwapOutcome::Won(_))))
        };
        let believes = |process: &Process| matches!(process.role, Role::Active(_)) || won(process);
        self.processes.iter().all(|process| !believes(process) || holder == Some(&process.me))
    }

    /// Nor may anybody live whom that state names, and a newer one does not.
    fn may_go_back(&self, back: usize) -> bool {
        let (newest, older) = (self.granted.last(), &self.granted[self.granted.len() - 1 - back]);
        let named = |record: &Record| record.holder.iter().chain(&record.standby).cloned().collect::<Vec<_>>();
        let newest = newest.map(named).unwrap_or_default();
        let lives = |member: &MemberId| {
            let process = self.processes.iter().find(|process| process.me == *member);
            process.is_some_and(|process| !matches!(process.role, Role::Gone))
        };
        self.all_turned_away_are_gone() && named(older).iter().all(|member| newest.contains(member) || !lives(member))
    }

    pub(super) fn fail(&mut self, failure: Failure) -> Result<(), Violation> {
        let mends = matches!(failure, Failure::Continue(_) | Failure::ShowRegister(_) | Failure::EmptyRegister);
        self.failures += u32::from(!mends);
        match failure {
            Failure::Kill(index) => {
                self.close_upstream_of(index);
                self.close_downstream_of(index);
                self.bury(index);
            }
            Failure::PowerOff(index) => {
                for link in self.links.iter_mut().filter(|link| link.active == index || link.standby == index) {
                    (link.cut_to_standby, link.cut_to_active) = (true, true);
                }
                self.bury(index);
            }
            Failure::Stop(index) => self.processes[index].stopped = true,
            Failure::Continue(index) => self.processes[index].stopped = false,
            Failure::CutBoth(link) => {
                (self.links[link].cut_to_standby, self.links[link].cut_to_active) = (true, true);
            }
            Failure::CutToStandby(link) => self.links[link].cut_to_standby = true,
            Failure::CutToActive(link) => self.links[link].cut_to_active = true,
            Failure::Reset(link) => {
                self.links[link].to_standby = [Downstream::Closed].into();
                self.links[link].to_active = [Upstream::Closed].into();
            }
            Failure::HideRegister(index) => self.processes[index].register_cut = true,
            Failure::ShowRegister(index) => self.processes[index].register_cut = false,
            Failure::FillRegister => self.takes_no_writes = true,
            Failure::EmptyRegister => self.takes_no_writes = false,
            Failure::LoseAnswer(index) => {
                self.apply(index)?;
                if let Some(answer) = &mut self.processes[index].answer {
                    answer.outcome = RegisterOutcome::Unreachable { reason: String::new() };
                }
            }
            Failure::DelayRequest(index) => {
                if let Some(request) = self.processes[index].request.take() {
                    let outcome = RegisterOutcome::Unreachable { reason: String::new() };
                    self.processes[index].answer = Some(RegisterAnswer { id: request.id, outcome });
                    self.late.push((index, request));
                }
            }
            Failure::KillGuest(index) => {
                self.processes[index].guest = None;
                self.processes[index].loads = false;
                self.tell_active(index, ActiveInput::GuestGone)?;
            }
            Failure::GoBack(back) => {
                let older = self.granted[self.granted.len() - 1 - back].clone();
                self.put(Some(older));
            }
            Failure::EraseRegister => {
                self.put(None);
            }
        }
        Ok(())
    }

    /// A process is no more. A request that it made may still arrive at the register.
    fn bury(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.role = Role::Gone;
        process.guest = None;
        process.answer = None;
    }
}
