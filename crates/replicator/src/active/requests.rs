//! Operators who wait for the outcome of what they asked for.

use serde_json::{Value, json};
use stealtime_succession::{ActiveEnding, FailoverRefused};
use tokio::sync::oneshot;

use crate::control::Refusal;

/// Where an answer goes.
pub type Answer = oneshot::Sender<Result<Value, Refusal>>;

/// Requests that this member cannot answer at once.
#[derive(Default)]
pub struct Requests {
    failovers: Vec<Answer>,
    stops: Vec<Answer>,
}

impl Requests {
    pub fn failover(&mut self, answer: Answer) {
        self.failovers.push(answer);
    }

    pub fn stop(&mut self, answer: Answer) {
        self.stops.push(answer);
    }

    /// There is no planned failover.
    pub fn refuse(&mut self, refused: FailoverRefused) {
        let refusal = Refusal::new(refused.to_string(), "see `stealtime protect status`");
        for answer in self.failovers.drain(..) {
            let _ = answer.send(Err(refusal.clone()));
        }
    }

    /// The member has come to its end; tells whether somebody hears it.
    pub fn end(&mut self, ending: &ActiveEnding) -> bool {
        let outcome = Ok(json!({"ended": ending.to_string()}));
        let moved = moved(ending).map_or(outcome.clone(), Err);
        let failovers = self.failovers.drain(..).map(|answer| answer.send(moved.clone()));
        let stopped = stopped(ending).map_or(outcome, Err);
        let stops = self.stops.drain(..).map(|answer| answer.send(stopped.clone()));
        failovers.chain(stops).flatten().count() > 0
    }
}

/// Why a machine that was asked to stop has not stopped with this member; None: it has.
fn stopped(ending: &ActiveEnding) -> Option<Refusal> {
    match ending {
        ActiveEnding::HandedOver { .. } | ActiveEnding::Superseded { .. } => {
            Some(Refusal::new(format!("it was not stopped: {ending}"), "stop it there"))
        }
        // With them it may run elsewhere.
        ActiveEnding::StoppedButOffered { .. } | ActiveEnding::StoppedButRegistered { heir: Some(_) } => {
            Some(Refusal { error: ending.to_string(), hint: ending.hint().map(str::to_owned) })
        }
        ActiveEnding::GuestGone { resigned: true } => Some(Refusal::new(ending.to_string(), "stop it there")),
        _ => None,
    }
}

/// Why a machine that was to move did not move as it was to; None: it has.
fn moved(ending: &ActiveEnding) -> Option<Refusal> {
    match ending {
        ActiveEnding::HandedOver { .. } => None,
        _ => Some(Refusal::new(
            format!("it was not handed over: {ending}"),
            "see `stealtime protect status` on its hosts",
        )),
    }
}
