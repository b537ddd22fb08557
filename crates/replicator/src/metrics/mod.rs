//! The status of a member and the distributions of its epochs in Prometheus' text format, over HTTP.
//!
//! A member that stands by tells what is true of it, too: else nobody would hear of its alarms, which its active member
//! does not know.

mod server;
mod text;

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::now;
use crate::figures::Distributions;
use crate::status::Status;

/// Prometheus asks every few seconds.
const PUBLISH_EVERY: Duration = Duration::from_millis(500);

/// Who has told nothing new for so long is stuck: what was true then is not told as if it still were, and Prometheus
/// sees that nobody answers.
const TOO_OLD: Duration = Duration::from_secs(10);

/// Why nobody can ask for the figures.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be served on {address}: {reason}")]
pub struct MetricsError {
    address: String,
    reason: String,
}

/// What is told to the next who asks.
pub struct Snapshot {
    /// How the member stands.
    pub status: Status,
    /// Of the epochs of a guest that runs here.
    pub distributions: Option<Distributions>,
}

/// The last that was told, and when.
#[derive(Default)]
struct Told(Option<(Duration, Snapshot)>);

impl Told {
    /// What is said at this moment; else why nothing.
    fn text(&self, at: Duration) -> Result<String, String> {
        match &self.0 {
            Some((told_at, snapshot)) if at < *told_at + TOO_OLD => Ok(text::of(snapshot)),
            Some(_) => Err(format!("the member has told nothing new for {} s: it is stuck", TOO_OLD.as_secs())),
            None => Err("the member has told nothing yet".to_owned()),
        }
    }
}

/// What a member tells, and where.
pub struct Metrics {
    address: String,
    is_served: bool,
    last: Arc<Mutex<Told>>,
    published_at: Duration,
}

impl Metrics {
    /// Figures that will be served at `address`.
    pub fn at(address: &str) -> Self {
        Self { address: address.to_owned(), is_served: false, last: Arc::default(), published_at: Duration::ZERO }
    }

    /// Answer until the process ends, if that is not done already.
    pub fn serve(&mut self) -> Result<(), MetricsError> {
        if self.is_served {
            return Ok(());
        }
        let failed = |reason: String| MetricsError { address: self.address.clone(), reason };
        let listener = TcpListener::bind(&self.address).map_err(|error| failed(error.to_string()))?;
        let last = Arc::clone(&self.last);
        let text = move || last.lock().unwrap_or_else(PoisonError::into_inner).text(now());
        server::serve(listener, Arc::new(text), server::ANSWERED_WITHIN).map_err(|error| failed(error.to_string()))?;
        self.is_served = true;
        Ok(())
    }

    /// When what was told is to be told anew.
    pub fn due_at(&self) -> Duration {
        self.published_at + PUBLISH_EVERY
    }

    /// Whether what was told is old by now.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.due_at()
    }

    /// Take over what is told from now on.
    pub fn publish(&mut self, snapshot: Snapshot, now: Duration) {
        self.published_at = now;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Told(Some((now, snapshot)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_stuck_does_not_go_on_to_tell_what_was_true_before() {
        let told = Told(Some((
            Duration::from_secs(100),
            Snapshot { status: Status { protected: true, ..Status::default() }, distributions: None },
        )));
        let at = |seconds| told.text(Duration::from_secs(seconds));
        assert!(at(109).unwrap().ends_with("# EOF\n"));
        assert!(at(110).unwrap_err().contains("stuck"));
        assert!(Told::default().text(Duration::ZERO).is_err(), "no text is not a text without alarms");
    }
}
