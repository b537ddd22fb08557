//! The thread that moves frames between QEMU's socket and the port, and its handle.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use stealtime_succession::{Epoch, OutputPolicy};
use thiserror::Error;

use crate::addresses::{HardwareAddress, LearnedAddresses};
use crate::bypass::BypassRules;
use crate::framing::{InputQueue, OutputReader};
use crate::hold::{Hold, HoldError, HoldLimits};
use crate::outlet::{Gate, Outlet};
use crate::port::FramePort;
use crate::port_watch::PortFault;
use crate::relay_event::RelayEvent;
use crate::relay_state::{DrainedCut, Interest, Ready, RelayState};
use crate::statistics::{RelayStatistics, Traffic};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelaySettings {
    pub guest: HardwareAddress,
    /// What may be held before QEMU's socket is no longer read.
    pub limits: HoldLimits,
    /// Input that waits for QEMU before the port is no longer read.
    pub input_bytes: usize,
    /// Flows that need not wait.
    pub bypass: BypassRules,
    /// What happens to output at first.
    pub policy: OutputPolicy,
}

impl RelaySettings {
    /// Everything held, the usual limits, and 256 KiB of input: about what the TAP's own queue holds.
    pub fn new(guest: HardwareAddress) -> Self {
        Self {
            guest,
            limits: HoldLimits::default(),
            input_bytes: 256 << 10,
            bypass: BypassRules::default(),
            policy: OutputPolicy::Hold,
        }
    }
}

/// A relay that cannot do what it was asked.
#[derive(Debug, Error)]
pub enum RelayError {
    #[error("the relay of the guest's network has ended, so nothing that it held can leave")]
    Ended,
    #[error(transparent)]
    Hold(#[from] HoldError),
    #[error("the relay of the guest's network cannot start: {0}")]
    Start(#[source] io::Error),
}

struct Shared {
    state: Mutex<RelayState>,
    /// Threads that wait for the state. The relay steps back for them at the next frame: a cut is asked for
    /// while the guest stands still.
    callers: AtomicUsize,
    no_caller: Condvar,
    wake: EventFd,
    is_stopping: AtomicBool,
    has_ended: AtomicBool,
    on_event: Box<dyn Fn(RelayEvent) + Send + Sync>,
}

/// The handle of the thread. With it ends the thread, and with the thread everything that is held.
pub struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Start the thread. `on_event` is called on it, or on the thread of a call, and must not call the relay.
    pub fn start(
        netdev: UnixStream,
        port: impl FramePort + 'static,
        gate: Arc<dyn Gate>,
        settings: RelaySettings,
        on_event: impl Fn(RelayEvent) + Send + Sync + 'static,
    ) -> Result<Self, RelayError> {
        netdev.set_nonblocking(true).map_err(RelayError::Start)?;
        // The thread waits on descriptors of its own while others use the state.
        let netdev_to_poll = OwnedFd::from(netdev.try_clone().map_err(RelayError::Start)?);
        let port_to_poll = port.as_fd().try_clone_to_owned().map_err(RelayError::Start)?;
        let wake = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| RelayError::Start(error.into()))?;
        let state = RelayState {
            netdev,
            guest: settings.guest,
            reader: OutputReader::default(),
            hold: Hold::new(settings.limits, settings.bypass, settings.policy),
            outlet: Outlet::new(Box::new(port), gate),
            input: InputQueue::new(settings.input_bytes),
            addresses: LearnedAddresses::default(),
            announcement: None,
            events: Vec::new(),
            origin: Instant::now(),
            output_ended: false,
            output_fault: None,
            input_ended: false,
            full_was_told: false,
            awaits_cut_after: None,
            input_traffic: Traffic::default(),
            input_dropped: Traffic::default(),
            announced: Traffic::default(),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            callers: AtomicUsize::new(0),
            no_caller: Condvar::new(),
            wake,
            is_stopping: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            on_event: Box::new(on_event),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || run(&of_thread, netdev_to_poll.as_fd(), port_to_poll.as_fd()))
            .map_err(RelayError::Start)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Take all output that QEMU has written, and close the epoch with it. To be called while the guest is
    /// stopped.
    ///
    /// # Errors
    /// [`RelayError::Hold`] if the epoch is not above the last; [`RelayError::Ended`].
    pub fn drain_and_cut(&self, epoch: Epoch) -> Result<DrainedCut, RelayError> {
        Ok(self.call(|state| state.drain_and_cut(epoch))??)
    }

    /// Let the output of all epochs up to `through` leave: the standby holds them.
    ///
    /// # Errors
    /// [`RelayError::Hold`] if `through` was never cut; [`RelayError::Ended`].
    pub fn acknowledge(&self, through: Epoch) -> Result<(), RelayError> {
        self.call(|state| state.hold.acknowledge(through))??;
        self.wake();
        Ok(())
    }

    /// Set what happens to output from now on. When this returns, nothing leaves any more against the new
    /// policy.
    pub fn set_policy(&self, policy: OutputPolicy) -> Result<(), RelayError> {
        self.call(|state| state.set_policy(policy))?;
        self.wake();
        Ok(())
    }

    /// Tell the network, in several rounds, that the guest is here, with these addresses and those learned.
    ///
    /// A closed relay announces nothing, and closing it ends an announcement: set the policy first.
    pub fn announce(&self, addresses: &LearnedAddresses) -> Result<(), RelayError> {
        self.call(|state| state.announce(addresses))?;
        self.wake();
        Ok(())
    }

    /// Addresses that the guest has claimed so far: to be sent to the standby, which announces them.
    pub fn learned_addresses(&self) -> Result<LearnedAddresses, RelayError> {
        self.call(|state| state.addresses.clone())
    }

    /// What was counted up to now.
    pub fn statistics(&self) -> Result<RelayStatistics, RelayError> {
        self.call(|state| state.statistics())
    }

    /// Why the guest reaches nobody any more, whatever its port is like.
    pub fn fault(&self) -> Option<PortFault> {
        self.call(|state| state.fault()).unwrap_or(Some(PortFault::RelayEnded))
    }

    /// Have the gate asked again at once. Without this a shut gate is asked every 2 ms while something waits.
    pub fn wake(&self) {
        // Only a full counter refuses, and then the thread will wake all the same.
        let _ = self.shared.wake.write(1);
    }

    fn call<R>(&self, action: impl FnOnce(&mut RelayState) -> R) -> Result<R, RelayError> {
        let shared = &*self.shared;
        if shared.has_ended.load(Ordering::Acquire) {
            return Err(RelayError::Ended);
        }
        shared.callers.fetch_add(1, Ordering::Relaxed);
        let locked = shared.state.lock();
        shared.callers.fetch_sub(1, Ordering::Relaxed);
        let mut state = locked.map_err(|_| RelayError::Ended)?;
        let result = action(&mut state);
        let events = std::mem::take(&mut state.events);
        drop(state);
        shared.no_caller.notify_one();
        events.into_iter().for_each(&shared.on_event);
        Ok(result)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was told as `RelayEvent::Ended`.
            let _ = thread.join();
        }
    }
}

/// Tells that the thread has ended, also when a failed assertion ends it.
struct EndNotice<'a>(&'a Shared);

impl Drop for EndNotice<'_> {
    fn drop(&mut self) {
        self.0.has_ended.store(true, Ordering::Release);
        if !self.0.is_stopping.load(Ordering::Acquire) {
            (self.0.on_event)(RelayEvent::Ended);
        }
    }
}

fn run(shared: &Shared, netdev: BorrowedFd<'_>, port: BorrowedFd<'_>) {
    let _notice = EndNotice(shared);
    let mut ready = Ready::default();
    while !shared.is_stopping.load(Ordering::Acquire) {
        let Ok((interest, events)) = step(shared, ready) else { return };
        events.into_iter().for_each(&shared.on_event);
        match wait(shared, interest, netdev, port) {
            Ok(told) => ready = told,
            Err(Errno::EINTR) => ready = Ready::default(),
            Err(_) => return,
        }
    }
}

fn step(shared: &Shared, ready: Ready) -> Result<(Interest, Vec<RelayEvent>), PoisonError<MutexGuard<'_, RelayState>>> {
    let state = shared.state.lock()?;
    let mut state = shared.no_caller.wait_while(state, |_| shared.callers.load(Ordering::Relaxed) > 0)?;
    state.step(ready, &shared.callers);
    Ok((state.interest(), std::mem::take(&mut state.events)))
}

fn wait(shared: &Shared, interest: Interest, netdev: BorrowedFd<'_>, port: BorrowedFd<'_>) -> Result<Ready, Errno> {
    let wake = shared.wake.as_fd();
    let mut descriptors = [
        PollFd::new(wake, PollFlags::POLLIN),
        watched(netdev, interest.netdev, wake),
        watched(port, interest.port, wake),
    ];
    poll(&mut descriptors, timeout(interest.within))?;
    let [was_woken, netdev, port] = descriptors.map(|descriptor| descriptor.any().unwrap_or(true));
    if was_woken {
        // Only an empty counter refuses.
        let _ = shared.wake.read();
    }
    Ok(Ready { netdev, port })
}

/// A descriptor that nothing is wanted of is not watched at all, as its hang-up would be told without end;
/// poll is then given `placeholder`, of which nothing is asked.
fn watched<'fd>(fd: BorrowedFd<'fd>, flags: PollFlags, placeholder: BorrowedFd<'fd>) -> PollFd<'fd> {
    PollFd::new(if flags.is_empty() { placeholder } else { fd }, flags)
}

/// Rounded up to the milliseconds of poll, so that what is due then is due.
fn timeout(within: Option<Duration>) -> PollTimeout {
    within.map_or(PollTimeout::NONE, |within| {
        PollTimeout::try_from(within.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
    })
}
