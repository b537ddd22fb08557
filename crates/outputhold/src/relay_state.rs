//! What the relay does under its lock, without waiting for anything.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use stealtime_succession::{Epoch, OutputPolicy, Standing};

use crate::addresses::{HardwareAddress, LearnedAddresses};
use crate::announcement::Announcement;
use crate::framing::{InputQueue, OutputReader};
use crate::hold::{Cut, Delivery, Hold, HoldError, Progress, Verdict};
use crate::outlet::{Obstacle, Outlet};
use crate::port_watch::PortFault;
use crate::relay_event::RelayEvent;
use crate::statistics::{RelayStatistics, Traffic};

/// Frames that one step moves in each direction, so that neither starves the other: about a millisecond of
/// writes.
const FRAMES_A_STEP: usize = 256;

/// How often a shut gate or a busy port is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// What a cut with the socket drained has found.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DrainedCut {
    /// The epoch and all that is held for it.
    pub cut: Cut,
    /// Frames of it that had still been in the socket.
    pub drained_frames: usize,
    /// Bytes of a frame that QEMU has begun and not finished; the frame will count to the next epoch, which
    /// holds it longer. QEMU writes frames whole to a unix socket, so this is 0 there.
    pub unfinished_bytes: usize,
}

/// What the thread should wait for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interest {
    pub netdev: PollFlags,
    pub port: PollFlags,
    pub within: Option<Duration>,
}

/// What the thread was told.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ready {
    pub netdev: bool,
    pub port: bool,
}

pub(crate) struct RelayState {
    pub netdev: UnixStream,
    pub guest: HardwareAddress,
    pub reader: OutputReader,
    pub hold: Hold,
    pub outlet: Outlet,
    pub input: InputQueue,
    pub addresses: LearnedAddresses,
    pub announcement: Option<Announcement>,
    pub events: Vec<RelayEvent>,
    pub origin: Instant,
    pub output_ended: bool,
    /// Why, if that is for good.
    pub output_fault: Option<PortFault>,
    pub input_ended: bool,
    pub full_was_told: bool,
    /// The cut after which it was told that a frame waits for the next one.
    pub awaits_cut_after: Option<Epoch>,
    pub input_traffic: Traffic,
    pub input_dropped: Traffic,
    pub announced: Traffic,
}

impl RelayState {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Move what can be moved. `callers` is the number of threads that wait for the lock: they come first.
    pub fn step(&mut self, ready: Ready, callers: &AtomicUsize) {
        self.release(callers);
        self.take_output(ready.netdev, callers);
        self.announce_due();
        self.take_input(ready.port, callers);
        self.give_input();
        self.tell();
    }

    fn release(&mut self, callers: &AtomicUsize) {
        let mut budget = FRAMES_A_STEP;
        let standing = self.hold.standing();
        loop {
            let now = self.now();
            let outlet = &mut self.outlet;
            let progress = self.hold.release(now, |frame| {
                if budget == 0 || is_wanted(callers) {
                    return Delivery::Blocked;
                }
                budget -= 1;
                outlet.deliver(frame, standing)
            });
            match progress {
                Progress::Finished(released) => self.events.push(RelayEvent::EpochReleased(released)),
                Progress::Blocked | Progress::Idle => break,
            }
        }
    }

    fn take_output(&mut self, readable: bool, callers: &AtomicUsize) {
        self.take_read_frames(|hold| !hold.is_full() && !is_wanted(callers));
        let may_read = !self.output_ended && !self.reader.has_frame() && !self.hold.is_full();
        if readable && may_read && self.read_once() {
            self.take_read_frames(|hold| !hold.is_full() && !is_wanted(callers));
        }
    }

    /// Take the frames that were read already; returns their number.
    fn take_read_frames(&mut self, go_on: impl Fn(&Hold) -> bool) -> usize {
        let now = self.now();
        let mut count = 0;
        while !self.output_ended && go_on(&self.hold) {
            let frame = match self.reader.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    self.end_output(RelayEvent::OutputBroken(error));
                    break;
                }
            };
            count += 1;
            self.addresses.learn(self.guest, frame);
            put_out(&mut self.hold, &mut self.outlet, frame, now);
        }
        count
    }

    /// Read once from QEMU; returns whether there was something.
    fn read_once(&mut self) -> bool {
        loop {
            match self.reader.fill(&mut self.netdev) {
                Ok(0) => self.end_output(RelayEvent::OutputClosed),
                Ok(_) => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.end_output(RelayEvent::OutputClosed),
            }
            return false;
        }
    }

    fn end_output(&mut self, event: RelayEvent) {
        if !self.output_ended {
            self.output_ended = true;
            self.output_fault = matches!(event, RelayEvent::OutputBroken(_)).then_some(PortFault::OutputBroken);
            self.input_ended = true;
            // QEMU, if it is there, shows its guest that the link is down. It may have closed it itself.
            let _ = self.netdev.shutdown(Shutdown::Both);
            self.events.push(event);
        }
    }

    /// Take all that QEMU has written, then cut. Limits do not count here: what the guest sent until it was
    /// stopped belongs to this epoch, and it is no more than a socket holds.
    pub fn drain_and_cut(&mut self, epoch: Epoch) -> Result<DrainedCut, HoldError> {
        let mut drained_frames = self.take_read_frames(|_| true);
        while !self.output_ended && self.read_once() {
            drained_frames += self.take_read_frames(|_| true);
        }
        let cut = self.hold.cut(epoch, self.now())?;
        self.tell();
        Ok(DrainedCut { cut, drained_frames, unfinished_bytes: self.reader.unread_bytes() })
    }

    pub fn set_policy(&mut self, policy: OutputPolicy) {
        self.hold.set_policy(policy);
        if policy == OutputPolicy::Discard {
            self.announcement = None;
        }
    }

    pub fn announce(&mut self, addresses: &LearnedAddresses) {
        self.addresses.merge(addresses);
        if self.hold.policy() == OutputPolicy::Discard {
            return;
        }
        self.announcement = Some(Announcement::new(self.guest, &self.addresses, self.now()));
    }

    fn announce_due(&mut self) {
        let now = self.now();
        let Some(announcement) = &mut self.announcement else { return };
        while let Some(frames) = announcement.take_round(now) {
            for frame in frames {
                self.announced.add(frame.len());
                put_out(&mut self.hold, &mut self.outlet, frame, now);
            }
        }
        if announcement.deadline().is_none() {
            self.announcement = None;
        }
    }

    fn take_input(&mut self, readable: bool, callers: &AtomicUsize) {
        if !readable {
            return;
        }
        for _ in 0..FRAMES_A_STEP {
            if is_wanted(callers) || self.outlet.obstacle == Obstacle::PortLost {
                return;
            }
            let port = &mut self.outlet.port;
            // A closed relay takes input too, and forgets it: what comes later must not find old frames
            // waiting.
            let (taken, traffic) = if self.hold.policy() == OutputPolicy::Discard || self.input_ended {
                (port.read_frame(self.input.scratch()), &mut self.input_dropped)
            } else if self.input.is_full() {
                return;
            } else {
                (self.input.take(|buffer| port.read_frame(buffer)), &mut self.input_traffic)
            };
            match taken {
                Ok(bytes) => traffic.add(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // EIO: the interface is down (tun_chr_read_iter ends so when it is not up).
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return,
                Err(error) => return self.outlet.lose(error),
            }
        }
    }

    fn give_input(&mut self) {
        if !self.input_ended && self.input.write_to(&mut self.netdev).is_err() {
            // What QEMU wrote before it went is still to be read: only this direction ends.
            self.input_ended = true;
        }
    }

    /// Queue the events of states that are to be told once.
    fn tell(&mut self) {
        let is_full = self.hold.is_full();
        if is_full && !self.full_was_told {
            self.events.push(RelayEvent::HoldFull { frames: self.hold.frames(), bytes: self.hold.bytes() });
        }
        self.full_was_told = is_full;
        let awaits_cut_after = self.hold.awaits_cut_after();
        if let Some(after) = awaits_cut_after.filter(|after| Some(*after) != self.awaits_cut_after) {
            self.events.push(RelayEvent::AwaitsCut { after });
            self.awaits_cut_after = awaits_cut_after;
        }
        if let Some(error) = self.outlet.loss.take() {
            self.events.push(RelayEvent::PortLost(error));
        }
    }

    pub fn interest(&self) -> Interest {
        let port_is_there = self.outlet.obstacle != Obstacle::PortLost;
        let is_full = self.hold.is_full();
        let now = self.now();
        let announcement_in =
            self.announcement.as_ref().and_then(Announcement::deadline).map(|at| at.saturating_sub(now));
        let has_output = self.hold.has_releasable();
        let has_read_frames = !self.output_ended && !is_full && self.reader.has_frame();
        let output_in = match self.outlet.obstacle {
            _ if !has_output => None,
            Obstacle::None => Some(Duration::ZERO),
            Obstacle::GateShut | Obstacle::PortBusy => Some(RETRY_INTERVAL),
            Obstacle::PortFull | Obstacle::PortLost => None,
        };
        let reads_output = !self.output_ended && !is_full;
        let has_input = !self.input_ended && self.input.pending_bytes() > 0;
        let reads_input = port_is_there && !self.input.is_full();
        let waits_for_room = has_output && self.outlet.obstacle == Obstacle::PortFull;
        Interest {
            netdev: to_read_and_write(reads_output, has_input),
            port: to_read_and_write(reads_input, waits_for_room),
            within: if has_read_frames {
                Some(Duration::ZERO)
            } else {
                [output_in, announcement_in].into_iter().flatten().min()
            },
        }
    }

    /// What keeps the guest from the network on this side of its port, for good.
    pub fn fault(&self) -> Option<PortFault> {
        match self.outlet.obstacle {
            Obstacle::PortLost => Some(PortFault::TapLost),
            _ => self.output_fault.clone(),
        }
    }

    pub fn statistics(&self) -> RelayStatistics {
        RelayStatistics {
            hold: self.hold.statistics(),
            input: self.input_traffic,
            input_dropped: self.input_dropped,
            input_queued_bytes: self.input.pending_bytes(),
            announced: self.announced,
            gate_refusals: self.outlet.gate_refusals,
            port_refusals: self.outlet.port_refusals,
        }
    }
}

/// Let a frame out at once, or hold it, as the policy has it.
fn put_out(hold: &mut Hold, outlet: &mut Outlet, frame: &[u8], now: Duration) {
    if hold.accept(frame, now) != Verdict::Passes {
        return;
    }
    match outlet.deliver(frame, Standing::Unacknowledged) {
        Delivery::Delivered => hold.count_passed(frame),
        Delivery::Refused => hold.count_refused(frame),
        Delivery::Blocked => hold.keep(frame, now),
    }
}

fn to_read_and_write(read: bool, write: bool) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::POLLIN, read);
    flags.set(PollFlags::POLLOUT, write);
    flags
}

fn is_wanted(callers: &AtomicUsize) -> bool {
    callers.load(Ordering::Relaxed) > 0
}
