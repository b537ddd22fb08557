//! The thread that stops the guest, takes what one epoch needs, and lets it go on.
//!
//! Nothing else happens while the guest stands: pages are copied aside, and encoding and shipping come
//! afterwards.

mod advance;
mod brake;
mod comparing;
mod disk_copy;
mod handle;
mod rounds;
mod staging_pool;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::json;
use stealtime_capture::{DeviceState, Guest, Notice, PAGE_BYTES, PageRange, QmpError, heed, standing};
use stealtime_succession::{Epoch, Term};

pub use handle::{EngineHandle, EngineSettings, kill_qemu};
pub use staging_pool::StagingPool;

use crate::clock::{nanoseconds, now};
use crate::encoder::Parcel;
use crate::epoch_log::EpochRow;
use crate::faults;
use crate::guest::{CaptureError, GuestEvent, Order};
use crate::turn::Turn;
use advance::Copies;
use brake::{Brake, Motion};
use comparing::Comparing;
use handle::{Made, watch};

/// How long a QEMU that was killed may take to end after its sockets closed; it takes microseconds on an idle
/// host.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// How often QEMU is listened to while no epochs do that.
const LISTEN_EVERY: Duration = Duration::from_millis(500);

/// How long QEMU may take to load a state at the least, however short its deadline for other things is: a
/// load that is given up is not tried again, and nobody else has the machine.
const LOAD_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Resting,
    /// The first whole epoch is under way, or its standby is still to be named. What epochs are of then a standby
    /// would refuse: their term ends with that.
    AwaitingGo,
    Epochs(Term),
}

struct Engine {
    settings: EngineSettings,
    orders: Receiver<Order>,
    guest: Guest,
    devices: Box<dyn DeviceState>,
    /// To be told to the encoder before the next copy.
    link: Option<Parcel>,
    phase: Phase,
    copies: Copies,
    /// What the standby wants of the blocks of a disk that it was last asked about.
    wanted: Option<Vec<u64>>,
    comparing: Comparing,
    /// Where the output was cut last.
    cut: Epoch,
    captured: Epoch,
    acknowledged: Epoch,
    is_stopped: bool,
    /// QEMU was told to stop the guest and then did not answer: it is told to let it go on as soon as it
    /// does.
    owes_continue: bool,
    brake: Brake,
    /// When those were captured that are not acknowledged.
    in_flight: VecDeque<(Epoch, Duration)>,
    /// Taken with the first epoch: one that stands by needs none.
    turn: Option<Turn>,
    /// When the next epoch is due, if no output asks for it earlier ...
    next_at: Duration,
    /// ... and when it is due if output does; None where none may.
    next_on_demand: Option<Duration>,
    /// The last cut of which it was heard that output waits behind it.
    awaits_cut_after: Option<Epoch>,
    ranges: Vec<PageRange>,
    /// How many pages the next epoch may have, by what was written last.
    expected_pages: usize,
    /// How long staging took, since it was last set to zero.
    staging_time: Duration,
}

impl Engine {
    fn new(
        (guest, devices, facts): Made,
        settings: EngineSettings,
        orders: Receiver<Order>,
        qemu: &OnceLock<OwnedFd>,
    ) -> Result<Self, CaptureError> {
        // Nobody else sets it.
        let _ = qemu.set(guest.pidfd().try_clone_to_owned().map_err(CaptureError::Descriptor)?);
        faults::set_guest(i32::try_from(facts.qemu_pid).unwrap_or(0));
        watch(guest.process().exit_watch(), settings.events.clone()).map_err(CaptureError::Unwatched)?;
        let images = settings.disks.images().cloned().collect();
        let comparing = Comparing::new(&guest.ram, facts.tracker, images).map_err(CaptureError::Comparing)?;
        let engine = Self {
            brake: Brake::new(settings.longest_hold, settings.in_flight_limit),
            in_flight: VecDeque::new(),
            settings,
            orders,
            guest,
            devices,
            link: None,
            phase: Phase::Resting,
            copies: Copies::default(),
            wanted: None,
            comparing,
            cut: Epoch(0),
            captured: Epoch(0),
            acknowledged: Epoch(0),
            is_stopped: true,
            owes_continue: false,
            turn: None,
            next_at: now(),
            next_on_demand: None,
            awaits_cut_after: None,
            ranges: Vec::new(),
            expected_pages: 0,
            staging_time: Duration::ZERO,
        };
        engine.tell(GuestEvent::Ready(facts));
        Ok(engine)
    }

    fn tell(&self, event: GuestEvent) {
        // A member that has ended hears nothing.
        let _ = self.settings.events.send(event);
    }

    fn run(mut self) {
        loop {
            let order = match self.wait() {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let done = match self.step(order) {
                // Whatever else QEMU has to say: it may be gone already.
                Ok(true) => break,
                Ok(false) => self.listen(),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                self.fail(&error);
            }
        }
        // Dropping the guest kills it, too.
        let _ = self.guest.kill();
    }

    /// Capture no more, and tell so.
    fn fail(&mut self, error: &CaptureError) {
        self.phase = Phase::Resting;
        self.comparing.forget();
        self.settings.disks.recorder.keep_nothing();
        self.settings.disks.recorder.cutting(false);
        self.brake.rest();
        let silent = error.is_silence();
        if silent {
            self.owes_continue = !self.is_stopped;
        } else {
            self.let_run();
        }
        // A QEMU that is gone is told by who watches it: the standby shall take over then. If it heard first that
        // capture fails, this member would ask to go on alone, with no guest to go on with.
        if self.guest.process().wait_for_end(GONE_WITHIN).is_none() {
            let is_lost = silent || matches!(error, CaptureError::Stands { .. }) || self.stands_for_good();
            self.tell(GuestEvent::CaptureFailed { reason: error.to_string(), cut: self.cut, is_lost });
        }
    }

    /// Whether the guest stands and will not go on, or nobody can say.
    fn stands_for_good(&mut self) -> bool {
        match standing(&mut self.guest.qmp) {
            Ok(status) => status.is_some(),
            Err(error) => matches!(error, QmpError::TimedOut { .. }),
        }
    }

    /// Take what QEMU has told unasked: it would pile up, and some of it matters.
    fn listen(&mut self) -> Result<(), CaptureError> {
        for notice in heed(&mut self.guest.qmp, !self.is_stopped && !self.brake.stands())? {
            if let Notice::Stands { status } = notice {
                // Once: what follows from it is the member's matter.
                self.is_stopped = true;
                return Err(CaptureError::Stands { status });
            }
            self.tell(GuestEvent::Noticed(notice));
        }
        Ok(())
    }

    /// Wait for an order, or until the next epoch is due.
    fn wait(&self) -> Result<Order, RecvTimeoutError> {
        if self.has_epochs() {
            return self.orders.recv_timeout(self.due_at().saturating_sub(now()));
        }
        let moment = if self.waits_for_room() { self.brake_at().0 } else { Duration::MAX };
        self.orders.recv_timeout(LISTEN_EVERY.min(moment.saturating_sub(now())))
    }

    /// Whether epochs are captured, and there is room for the next one.
    fn has_epochs(&self) -> bool {
        self.captures() && self.has_room()
    }

    /// Whether what the guest writes now goes into an epoch that has no room yet.
    fn waits_for_room(&self) -> bool {
        // A register that does not answer ends the wait for it, too: then nothing is captured any more.
        !self.is_stopped && (self.phase == Phase::AwaitingGo || self.captures() && !self.has_room())
    }

    fn captures(&self) -> bool {
        matches!(self.phase, Phase::Epochs(_)) && !self.is_stopped
    }

    fn has_room(&self) -> bool {
        self.captured.0 - self.acknowledged.0 < self.brake.depth()
    }

    /// When the guest is to be held back next, or let go on.
    fn brake_at(&self) -> (Duration, Motion) {
        self.brake.next(self.settings.pacing.interval())
    }

    /// Hold the guest back, or let it go on.
    fn turn_brake(&mut self, motion: Motion) -> Result<(), CaptureError> {
        let command = if motion == Motion::Stand { "stop" } else { "cont" };
        // From here on: until QEMU has answered it may stand or run.
        self.brake.change(now(), motion);
        self.settings.disks.recorder.cutting(motion == Motion::Stand);
        self.guest.qmp.execute(command, json!({}))?;
        Ok(())
    }

    /// Nothing is captured for now: nobody holds the guest back.
    fn rest(&mut self) -> Result<(), CaptureError> {
        self.phase = Phase::Resting;
        self.comparing.forget();
        self.settings.disks.recorder.keep_nothing();
        if self.brake.stands() {
            self.turn_brake(Motion::Run)?;
        }
        self.brake.rest();
        self.in_flight.clear();
        Ok(())
    }

    /// Let a guest go on that is not held back any more, and of which no epoch is due.
    fn run_if_room(&mut self) -> Result<(), CaptureError> {
        if self.brake.stands() && !self.waits_for_room() && !self.is_due() {
            self.turn_brake(Motion::Run)?;
        }
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.has_epochs() && now() >= self.due_at()
    }

    /// When the next epoch is due.
    fn due_at(&self) -> Duration {
        // What waited behind an earlier cut went into the epoch since.
        let is_awaited = self.awaits_cut_after.is_some_and(|after| after >= self.cut);
        let on_demand = self.next_on_demand.filter(|_| is_awaited);
        on_demand.map_or(self.next_at, |at| at.min(self.next_at))
    }

    /// Carry out an order, or the epoch that is due; tells whether that was the last.
    fn step(&mut self, order: Option<Order>) -> Result<bool, CaptureError> {
        match order {
            None if self.is_due() => {
                if let Phase::Epochs(term) = self.phase {
                    self.epoch(term, false)?;
                }
            }
            None if self.waits_for_room() => {
                let (moment, motion) = self.brake_at();
                if now() >= moment {
                    self.turn_brake(motion)?;
                }
            }
            None if self.owes_continue => {
                self.guest.qmp.execute("cont", json!({}))?;
                self.owes_continue = false;
            }
            None => {}
            Some(Order::Link { sender, delta }) => self.link = Some(Parcel::Link { sender, delta }),
            Some(Order::FullCopy { term, first }) => return self.full_copy(term, first),
            Some(Order::Go { term }) => {
                // The next epoch is due since the first one: what the guest writes while nothing is captured
                // is in it.
                self.phase = Phase::Epochs(term);
                self.run_if_room()?;
            }
            Some(Order::Acknowledged(epoch)) => {
                self.hear_of(epoch);
                self.run_if_room()?;
            }
            Some(Order::AwaitsCut { after }) => self.awaits_cut_after = self.awaits_cut_after.max(Some(after)),
            Some(Order::Rest) => self.rest()?,
            Some(Order::Last) => {
                // The guest stands then. If it is to go on here after all, so do the epochs, or nothing would
                // leave it.
                if let Phase::Epochs(term) = self.phase {
                    self.epoch(term, true)?;
                }
            }
            Some(Order::StopGuest) => {
                // QEMU waits for all that its guest wants of its disks.
                self.settings.disks.recorder.cutting(true);
                self.guest.qmp.execute("stop", json!({}))?;
                self.is_stopped = true;
                self.brake.rest();
                self.tell(GuestEvent::Stopped);
            }
            Some(Order::ContinueGuest) => {
                self.settings.disks.recorder.cutting(false);
                self.settings.disks.allow_writes();
                self.guest.qmp.execute("cont", json!({}))?;
                self.is_stopped = false;
                self.tell(GuestEvent::Continued);
            }
            Some(Order::Load { state, runs }) => self.load(&state, runs)?,
            Some(Order::CopyHeld { term }) => self.copies.held(term),
            Some(Order::DiskWanted(wanted)) => self.hear_what_is_wanted(wanted),
            Some(Order::TellShutdown) => {
                let shutdown = self.guest.qmp.shutdown();
                self.tell(GuestEvent::Shutdown(shutdown));
            }
            Some(Order::End) => return Ok(true),
        }
        Ok(false)
    }

    /// The standby holds all up to this epoch.
    fn hear_of(&mut self, epoch: Epoch) {
        // What nobody has cannot be acknowledged: a standby that says so would leave no room for anything.
        self.acknowledged = self.acknowledged.max(epoch.min(self.captured));
        while let Some(&(first, at)) = self.in_flight.front()
            && first <= epoch
        {
            self.in_flight.pop_front();
            self.brake.acknowledged(at, now());
        }
    }

    fn load(&mut self, state: &[u8], runs: bool) -> Result<(), CaptureError> {
        faults::point("before-load");
        let deadline = self.settings.qemu_deadline;
        self.guest.qmp.set_timeout(deadline.max(LOAD_WITHIN));
        if runs {
            self.settings.disks.allow_writes();
        }
        let loaded = if runs { self.guest.load_and_resume(state) } else { self.guest.load(state) };
        self.guest.qmp.set_timeout(deadline);
        loaded?;
        if runs {
            self.is_stopped = false;
            faults::point("after-resume");
            self.tell(GuestEvent::Continued);
        } else {
            faults::point("after-load");
            self.tell(GuestEvent::Loaded);
        }
        Ok(())
    }

    /// Stop the guest, take everything of one epoch, and let it go on.
    fn epoch(&mut self, term: Term, is_last: bool) -> Result<(), CaptureError> {
        let epoch = self.captured.next();
        let mut pages = self.settings.staging.take(self.expected_pages);
        let (guest, devices, pacing) = (&mut self.guest, &mut self.devices, &mut self.settings.pacing);
        let begin = now();
        faults::point("before-stop");
        self.settings.disks.recorder.cutting(true);
        // Both commands are under way before the first is answered.
        let stop = guest.qmp.begin("stop", json!({}))?;
        devices.begin_capture(&mut guest.qmp)?;
        guest.qmp.finish(stop)?;
        let stopped = now();
        // QEMU has waited for all that it had asked of them.
        let disks = self.settings.disks.recorder.cut();
        self.comparing.cut();
        faults::point("after-stop");
        let cut = self.settings.relay.drain_and_cut(epoch)?;
        self.cut = epoch;
        let cut_at = now();
        faults::point("after-cut");
        if !is_last {
            guest.qmp.load("cont", json!({}))?;
        }
        let state = devices.finish_capture(&mut guest.qmp)?;
        let saved = now();
        faults::point("after-save");
        self.ranges.clear();
        guest.tracked.collect(&mut self.ranges)?;
        let scanned = now();
        guest.tracked.stage(&self.ranges, &mut pages)?;
        let copied = now();
        faults::point("after-copy");
        if is_last {
            self.is_stopped = true;
        } else {
            guest.qmp.execute("cont", json!({}))?;
        }
        self.settings.disks.recorder.cutting(is_last);
        let continued = now();
        let held_back = self.brake.epoch(begin, continued);
        faults::point("after-continue");
        if !is_last {
            guest.qmp.load("stop", json!({}))?;
        }
        // A little slower down than up: a guest that writes in bursts would else stand while room is made for
        // each.
        self.expected_pages = pages.len().max(self.expected_pages - self.expected_pages / 8);
        let count = pages.len() as u64;
        let row = EpochRow {
            term: term.0,
            epoch: epoch.0,
            begin_ns: nanoseconds(begin),
            stop_ns: nanoseconds(stopped.saturating_sub(begin)),
            cut_ns: nanoseconds(cut_at.saturating_sub(stopped)),
            save_ns: nanoseconds(saved.saturating_sub(cut_at)),
            scan_ns: nanoseconds(scanned.saturating_sub(saved)),
            copy_ns: nanoseconds(copied.saturating_sub(scanned)),
            continue_ns: nanoseconds(continued.saturating_sub(copied)),
            pause_ns: nanoseconds(continued.saturating_sub(begin)),
            held_back_ns: nanoseconds(held_back.total),
            held_back_longest_ns: nanoseconds(held_back.longest),
            pages: count,
            raw_bytes: count * PAGE_BYTES as u64,
            device_bytes: state.len() as u64,
            frames: cut.cut.frames as u64,
            interval_ns: nanoseconds(pacing.interval()),
            ..EpochRow::default()
        };
        pacing.paused(continued.saturating_sub(begin));
        self.captured = epoch;
        self.in_flight.push_back((epoch, continued));
        let turn = self.turn.get_or_insert_with(|| Turn::take(&self.settings.host_folder));
        self.next_at = pacing.next(turn, begin, continued);
        self.next_on_demand = pacing.next_on_demand(begin, continued);
        self.prepare(StagingPool::READY);
        // Told before it is shipped: an acknowledgement of an epoch that the member has not heard of is not
        // believed, and one of the first epoch does not come again.
        self.tell(GuestEvent::Captured { epoch, is_last });
        let comparison = self.comparing.take(term, epoch, &self.ranges, &disks);
        self.settings
            .parcels
            .send(Parcel::Epoch { pages, disks, devices: state, comparison, row: Box::new(row) })
            .map_err(|_| CaptureError::NobodyShips)?;
        self.comparing.read(epoch, self.settings.pacing.interval());
        Ok(())
    }

    /// Have memory for so many epochs, and for half as much again in each, made while the guest runs.
    fn prepare(&mut self, count: usize) {
        self.settings.staging.prepare(self.expected_pages + self.expected_pages / 2, count);
    }

    /// After a failure the guest must not be left standing by mistake.
    fn let_run(&mut self) {
        if !self.is_stopped {
            // If QEMU does not answer, its exit is seen elsewhere.
            let _ = self.guest.qmp.execute("cont", json!({}));
        }
    }
}
