//! What is asked of an active member over its control socket.

use stealtime_succession::{ActiveInput, ActiveMessage};

use super::Active;
use crate::control::{Command, Request};

impl Active {
    pub(super) fn answer(&mut self, request: Request) {
        let Request { command, answer } = request;
        match command {
            Command::Status => {
                let status = self.status();
                let _ = answer.send(Ok(serde_json::json!(status)));
            }
            Command::Failover { .. } => {
                self.failover_waits.push(answer);
                self.tell(ActiveInput::FailoverRequested);
            }
            Command::Stop => {
                self.stop_waits.push(answer);
                self.tell(ActiveInput::StopRequested);
            }
            Command::Detach => {
                let _ = answer.send(Ok(self.detach()));
            }
            // Armed by the control socket itself.
            Command::Fault { .. } => drop(answer),
        }
    }

    /// Protect no longer; the machine goes on here.
    pub(super) fn detach(&mut self) -> serde_json::Value {
        self.spec.standby_hosts.clear();
        self.stop_seeking();
        // So that the standby does not try to take over what goes on here.
        self.send(&ActiveMessage::Bye { term: self.term() });
        self.give_up_link("it was asked to go on alone");
        serde_json::json!({"detached": self.spec.machine.name})
    }
}
