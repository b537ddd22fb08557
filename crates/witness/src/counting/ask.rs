//! One question to a counter: its state, a check of its memory, a reboot, the end.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use stealtime_console::document::{OVER_THRESHOLD, print_json};
use thiserror::Error;

use crate::counter::protocol::{Answer, Operation, Outcome, Request};
use crate::counting::settings::{Ask, Question};
use crate::counting::wire::{Effort, TcpWire, Wire, WireError};
use crate::silence::Moment;

const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    #[error("no answer over TCP from {address} within {}", humantime::format_duration(*wait))]
    NoAnswer { address: SocketAddr, wait: Duration },
    #[error("the counter at {address} did not answer")]
    Wire { address: SocketAddr, source: WireError },
    #[error("the counter at {0} refused: it reboots a machine, or powers it off, only as its first process")]
    Refused(SocketAddr),
}

/// `stealtime-agent ask`
pub fn run(ask: &Ask) -> anyhow::Result<ExitCode> {
    let operation = match ask.question {
        Question::Status => Operation::Status,
        Question::Check => Operation::Check,
        Question::Reboot => Operation::Reboot,
        Question::PowerOff => Operation::PowerOff,
    };
    let state = patient_question(ask.address, operation, ask.wait)?;
    print_json(&state)?;
    Ok(if state.mismatches > 0 { ExitCode::from(OVER_THRESHOLD) } else { ExitCode::SUCCESS })
}

/// Asks, and asks again where the machine went down, as for a reboot, before it answered what changes nothing.
fn patient_question(address: SocketAddr, operation: Operation, wait: Duration) -> Result<Answer, AskError> {
    let changes_nothing = matches!(operation, Operation::Status | Operation::Check);
    let deadline = Instant::now() + wait;
    loop {
        let answer = question(address, operation, deadline.saturating_duration_since(Instant::now()));
        match answer {
            Err(AskError::Wire { source: WireError::Closed | WireError::Kernel(_), .. })
                if changes_nothing && Instant::now() + AGAIN_AFTER < deadline =>
            {
                thread::sleep(AGAIN_AFTER);
            }
            Err(AskError::NoAnswer { .. }) => return Err(AskError::NoAnswer { address, wait }),
            told => return told,
        }
    }
}

/// Asks over a connection of its own.
pub fn question(address: SocketAddr, operation: Operation, wait: Duration) -> Result<Answer, AskError> {
    let deadline = Instant::now() + wait;
    let stop = || Instant::now() >= deadline;
    let lost = |source| AskError::Wire { address, source };
    let none = || AskError::NoAnswer { address, wait };
    let connected = TcpWire::connect(address, false, &stop).map_err(|error| lost(error.into()))?;
    let mut wire = connected.ok_or_else(none)?;
    let request = Request { operation, client: 0, sequence: 0, sent_ns: Moment::now().monotonic_ns };
    let answer = wire.exchange(&request, &stop, &mut Effort::default()).map_err(lost)?.ok_or_else(none)?;
    if answer.outcome == Outcome::Refused {
        return Err(AskError::Refused(address));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;
    use crate::counter::protocol::REQUEST_BYTES;

    /// A counter whose machine goes down before it answers: how often it is asked within the time.
    fn asked_in_vain(operation: Operation) -> usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asking = thread::spawn(move || patient_question(address, operation, Duration::from_millis(500)));
        let mut times = 0;
        listener.set_nonblocking(true).unwrap();
        while !asking.is_finished() {
            if let Ok((mut connection, _)) = listener.accept() {
                connection.set_nonblocking(false).unwrap();
                // Who has no time left may hang up before.
                times += usize::from(connection.read_exact(&mut [0; REQUEST_BYTES]).is_ok());
            }
            thread::sleep(Duration::from_millis(1));
        }
        asking.join().unwrap().unwrap_err();
        times
    }

    #[test]
    fn who_goes_down_is_asked_again_only_for_what_changes_nothing() {
        assert!(asked_in_vain(Operation::Status) > 1);
        assert_eq!(asked_in_vain(Operation::Reboot), 1);
    }
}
