//! What somebody asks of a member that stands by.

use serde_json::{Value, json};
use stealtime_shipping::{Message, ProtocolVersion};
use stealtime_succession::{Epoch, StandbyInput, StandbyState};

use super::{End, Standby};
use crate::clock::nanoseconds;
use crate::control::{Command, Refusal, Request};
use crate::status::{Role, Status};
use crate::wording;

impl Standby {
    pub(super) fn answer(&mut self, request: Request) {
        let Request { command, answer } = request;
        let outcome = match command {
            Command::Status => Ok(json!(self.status())),
            Command::Stop => {
                self.ending = Some(End::Left);
                Ok(json!({"left": self.spec.machine.name}))
            }
            Command::Failover { force: true } if self.member.state() == StandbyState::Claiming => {
                self.tell(StandbyInput::ClaimForced);
                Ok(json!({"claims": self.spec.machine.name}))
            }
            Command::Failover { force: false } if self.member.state() == StandbyState::Eligible => self.call(),
            Command::Failover { .. } | Command::Detach | Command::Fault { .. } => Err(Refusal::new(
                format!("{} does not run here, it stands by", self.spec.machine.name),
                format!("ask on {}, where it runs", self.active.name),
            )),
        };
        let _ = answer.send(outcome);
    }

    /// Ask the active member for the machine.
    fn call(&self) -> Result<Value, Refusal> {
        let (vm, host) = (&self.spec.machine.name, &self.active.name);
        let ask_there = format!("ask on {host}, where it runs");
        if self.is_leaving() {
            let refusal = self.leaving();
            return Err(Refusal::new(refusal.to_string(), refusal.hint()));
        }
        let Some(sender) = &self.sender else {
            return Err(Refusal::new(format!("{host} cannot be asked for {vm}: there is no link"), ask_there));
        };
        if sender.version() < ProtocolVersion::NEWEST {
            let reason = format!("{host} cannot be asked for {vm} from here: its stealtime is older");
            return Err(Refusal::new(reason, ask_there));
        }
        let call = Message::Call { term: self.member.term() };
        sender.try_send(&call).map_err(|error| Refusal::new(wording::of_link(&error), ask_there))?;
        Ok(json!({"called": vm}))
    }

    pub(super) fn status(&self) -> Status {
        let committed = self.member.committed().unwrap_or(Epoch(0)).0;
        let leaves = self.is_leaving().then(|| self.leaving().to_string());
        let full_copy = self.full_copy.filter(|_| committed == 0);
        Status {
            vm: self.spec.machine.name.clone(),
            host: self.spec.host.clone(),
            member: self.me.to_string(),
            role: Role::Standby,
            protected: self.member.state() == StandbyState::Eligible,
            mode: self.spec.mode,
            term: self.member.term().0,
            epoch: self.staged.0,
            acknowledged: committed,
            full_copy,
            disks: self.spec.disk_paths(),
            standby: Some(self.active.clone()),
            tracker: self.facts.tracker.to_owned(),
            device_state: self.spec.device_state.name().to_owned(),
            register: self.registrar.name.clone(),
            refused_messages: self.member.refusals().wrong_term,
            since_unix_ns: self.since_unix_ns,
            pid: std::process::id(),
            qemu_pid: Some(self.facts.qemu_pid),
            register_age_ns: self.registrar.age().map(nanoseconds),
            register_went_back: self.registrar.went_back,
            certificates_end_in_s: self.watch.certificates.left_s(),
            alarms: self.events.alarms(),
            warnings: self.facts.remarks().into_iter().chain(self.warnings.iter().cloned()).chain(leaves).collect(),
            ..Status::default()
        }
    }
}
