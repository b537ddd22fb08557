//! What a conductor waits for besides its inputs.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::clock::now;

/// Wait until somebody has asked this process to end. It is asked once and for good: a standby that becomes
/// the active member meanwhile learns of it too.
async fn terminated() {
    static ASKED: OnceLock<watch::Receiver<bool>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| {
        let (tell, asked) = watch::channel(false);
        tokio::spawn(async move {
            first_signal().await;
            let _ = tell.send(true);
        });
        asked
    });
    if asked.clone().wait_for(|asked| *asked).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Call this when somebody asks this process to end.
pub fn on_termination(asked: impl FnOnce() + Send + 'static) {
    tokio::spawn(async move {
        terminated().await;
        asked();
    });
}

async fn first_signal() {
    match asked_to_end() {
        Ok(asked) => asked.await,
        // Then the default holds: the process ends at once, and fails closed.
        Err(_) => std::future::pending().await,
    }
}

/// From now on, be told when somebody asks this process to end; call it in a runtime.
pub fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Wait until this moment of [`now`].
pub async fn sleep_until(moment: Duration) {
    tokio::time::sleep(moment.saturating_sub(now()).min(LONGEST)).await;
}

/// Longer sleeps are cut: a clock that cannot hold them is of no use to anybody.
const LONGEST: Duration = Duration::from_secs(3600);
