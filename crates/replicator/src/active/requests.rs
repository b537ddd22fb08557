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
        let answers = self.failovers.drain(..).chain(self.stops.drain(..));
        answers.filter_map(|answer| answer.send(Ok(json!({"ended": ending.to_string()}))).ok()).count() > 0
    }
}
