//! Carries out what members ask for.

use super::watch::Violation;
use super::world::{Downstream, Guest, Role, Told, Upstream, World};
use crate::{
    ActiveAction, ActiveEnding, ActiveInput, ActiveMember, Epoch, OutputPolicy, Promotion, StandbyAction, StandbyInput,
};

impl World {
    pub fn tell_active(&mut self, index: usize, input: ActiveInput) -> Result<(), Violation> {
        let now = self.now(index);
        let Role::Active(member) = &mut self.processes[index].role else { return Ok(()) };
        for action in member.handle(now, input) {
            self.carry_active(index, action)?;
        }
        Ok(())
    }

    /// Tell a standby. `value` is the content of the epoch that it is told of.
    pub fn tell_standby(&mut self, index: usize, input: StandbyInput, value: u64) -> Result<(), Violation> {
        let now = self.now(index);
        let Role::Standby(member) = &mut self.processes[index].role else { return Ok(()) };
        for action in member.handle(now, input) {
            self.carry_standby(index, action, value)?;
        }
        Ok(())
    }

    fn carry_active(&mut self, index: usize, action: ActiveAction) -> Result<(), Violation> {
        let process = &mut self.processes[index];
        match action {
            ActiveAction::Register(request) => {
                assert!(process.request.is_none() && process.answer.is_none(), "one request at a time");
                process.request = Some(request);
            }
            ActiveAction::BootGuest => process.guest = Some(Guest::with_value(0)),
            ActiveAction::LoadGuest => {
                process.guest = process.copy.map(|(_, value)| Guest { running: false, ..Guest::with_value(value) });
                process.loads = true;
            }
            ActiveAction::ResumeGuest => {
                process.guest = process.copy.map(|(_, value)| Guest::with_value(value));
                let resumed = process.copy.map(|(_, value)| (index, value));
                self.check_run(index)?;
                self.resumed = resumed;
                self.close_downstream_of(index);
            }
            ActiveAction::SeekStandby => process.seeking = true,
            ActiveAction::CeaseSeeking | ActiveAction::LeaveAlone { .. } => process.seeking = false,
            ActiveAction::Output(policy) => {
                process.output.set_policy(policy);
                if let (OutputPolicy::Discard, Some(guest)) = (policy, &mut process.guest) {
                    guest.frames.clear();
                }
            }
            ActiveAction::Release(epoch) => process.output.acknowledge(epoch),
            ActiveAction::RegisterWentBack { .. } | ActiveAction::FailoverRefused(_) => {}
            ActiveAction::Send(message) => {
                if let Some(link) = self.links.iter_mut().rev().find(|link| link.active == index) {
                    link.to_standby.push_back(Downstream::Message(message));
                }
            }
            ActiveAction::CloseLink => self.close_upstream_of(index),
            ActiveAction::Exit(ending) => {
                let is_over =
                    matches!(ending, ActiveEnding::Stopped | ActiveEnding::StoppedButRegistered { heir: None });
                if is_over {
                    self.check_end(index)?;
                }
                self.ended |= is_over;
                self.unregistered |= matches!(
                    ending,
                    ActiveEnding::StoppedButRegistered { heir: Some(_) } | ActiveEnding::StoppedButOffered { .. }
                );
                self.processes[index].role = Role::Gone;
                self.close_downstream_of(index);
            }
            ActiveAction::KillGuest => process.guest = None,
            ActiveAction::BeginEpochs { .. }
            | ActiveAction::EndEpochs
            | ActiveAction::ShipLastEpoch
            | ActiveAction::StopGuest
            | ActiveAction::ContinueGuest => {
                if action == ActiveAction::ContinueGuest {
                    self.check_continue(index)?;
                }
                let process = &mut self.processes[index];
                if let Some(guest) = &mut process.guest {
                    carry_guest(guest, process.output.last_cut(), &action);
                }
            }
        }
        Ok(())
    }

    fn carry_standby(&mut self, index: usize, action: StandbyAction, value: u64) -> Result<(), Violation> {
        match action {
            StandbyAction::Register(request) => {
                let process = &mut self.processes[index];
                assert!(process.request.is_none() && process.answer.is_none(), "one request at a time");
                process.request = Some(request);
            }
            StandbyAction::RegisterWentBack { .. } => {}
            StandbyAction::Commit(epoch) => self.processes[index].copy = Some((epoch, value)),
            StandbyAction::Send(message) => {
                if let Some(link) = self.links.iter_mut().find(|link| link.standby == index) {
                    link.to_active.push_back(Upstream::Message(message));
                }
            }
            StandbyAction::CloseLink => self.close_downstream_of(index),
            StandbyAction::GoLive(promotion) => self.go_live(index, promotion)?,
            StandbyAction::Exit(_) => {
                self.processes[index].role = Role::Gone;
                self.close_downstream_of(index);
            }
        }
        Ok(())
    }

    fn go_live(&mut self, index: usize, promotion: Promotion) -> Result<(), Violation> {
        self.check_resume(index, &promotion)?;
        let mut member = ActiveMember::promoted(self.active_config(index, false), promotion, self.now(index));
        member.fault = self.fault;
        self.processes[index].role = Role::Active(member);
        self.tell_active(index, ActiveInput::Tick)
    }

    /// The active member's end: it reads nothing more, the other reads what was sent and then the end.
    pub fn close_upstream_of(&mut self, index: usize) {
        for link in self.links.iter_mut().filter(|link| link.active == index) {
            link.to_active.clear();
            link.cut_to_active = true;
            if link.to_standby.back() != Some(&Downstream::Closed) {
                link.to_standby.push_back(Downstream::Closed);
            }
        }
    }

    pub fn close_downstream_of(&mut self, index: usize) {
        for link in self.links.iter_mut().filter(|link| link.standby == index) {
            link.to_standby.clear();
            link.cut_to_standby = true;
            if link.to_active.back() != Some(&Upstream::Closed) {
                link.to_active.push_back(Upstream::Closed);
            }
        }
    }
}

fn carry_guest(guest: &mut Guest, last_cut: Epoch, action: &ActiveAction) {
    match action {
        ActiveAction::BeginEpochs { first, .. } if *first <= last_cut => {
            guest.told.push_back(Told::Failed { cut: last_cut });
        }
        ActiveAction::BeginEpochs { first, .. } => guest.first = Some(*first),
        ActiveAction::EndEpochs => (guest.first, guest.last_wanted) = (None, false),
        ActiveAction::ShipLastEpoch => (guest.running, guest.last_wanted) = (false, true),
        ActiveAction::StopGuest => guest.running = false,
        ActiveAction::ContinueGuest => guest.running = true,
        other => unreachable!("{other:?} is not for the guest"),
    }
}
