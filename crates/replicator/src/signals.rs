//! What a conductor waits for besides its inputs.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::clock::now;

/// Wait until somebody asks this process to end.
pub async fn terminated() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Then the default holds: the process ends at once, and fails closed.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Wait until this moment of [`now`].
pub async fn sleep_until(moment: Duration) {
    tokio::time::sleep(moment.saturating_sub(now()).min(LONGEST)).await;
}

/// Longer sleeps are cut: a clock that cannot hold them is of no use to anybody.
const LONGEST: Duration = Duration::from_secs(3600);
