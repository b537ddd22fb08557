//! The copy in advance: all memory, and then what was written meanwhile, while the guest runs.

use std::sync::mpsc::{RecvTimeoutError, TrySendError};
use std::time::Duration;

use serde_json::json;
use stealtime_capture::{PageRange, count_pages};
use stealtime_shipping::EpochBegin;
use stealtime_succession::{Epoch, Term};

use super::brake::Motion;
use super::rounds::{Next, Rounds};
use super::{Engine, EngineSettings, Phase};
use crate::clock::{nanoseconds, now};
use crate::encoder::Parcel;
use crate::guest::{Advance, CaptureError, GuestEvent, Order};

/// Pages of one part: 8 MiB.
const PART_PAGES: u64 = 2048;
const PART_ROOM: usize = 2048;

/// Between two looks whether the encoder has room, or is done.
const LOOK: Duration = Duration::from_millis(1);

/// A guest is not held back for rounds that take more than so many times the longest hold: it would be for too long.
const ROUND_IN_HOLDS: u32 = 10;

/// How long a guest that writes too fast is left alone before it is tried again.
const REST: Duration = Duration::from_secs(5);

/// After the first epoch, intervals until it is acknowledged, a standby is named, and the next one follows.
const UNTIL_NAMED: u32 = 2;

/// At least as many pages as were written `since` the last look, and what would be written within a time.
fn pages_within(time: Duration, pages: u64, since: Duration) -> usize {
    let (time_ns, since_ns) = (nanoseconds(time), nanoseconds(since).max(1_000_000));
    let scaled = u128::from(pages) * u128::from(time_ns) / u128::from(since_ns);
    usize::try_from(scaled.max(u128::from(pages))).unwrap_or(usize::MAX)
}

/// Which parts of the copy in advance the standby has.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub(super) term: Term,
    shipped: u64,
    held: u64,
}

impl Copies {
    fn begin(&mut self, term: Term) {
        *self = Self { term, shipped: 0, held: 0 };
    }

    /// Hear of one that is in the standby's memory; those of an earlier link are none of these.
    pub(super) fn held(&mut self, term: Term) {
        self.held += u64::from(term == self.term);
    }
}

/// Something ended the copy; tells whether it ends the engine, too.
pub(super) type BrokenOff = Option<bool>;

impl Engine {
    /// Copy everything while the guest runs, then what it wrote meanwhile, until little is left; then the
    /// first whole epoch.
    pub(super) fn full_copy(&mut self, term: Term, first: Epoch) -> Result<bool, CaptureError> {
        self.rest()?;
        if let Some(link) = self.link.take()
            && let Some(is_end) = self.pass_on(link)?
        {
            return Ok(is_end);
        }
        self.copies.begin(term);
        self.guest.tracked.arm()?;
        self.note_disks();
        let all = PageRange { first: 0, count: self.guest.ram.len_pages() };
        let epoch = Epoch(first.0 - 1);
        let head = EpochBegin { term, epoch, full: true, pages: all.count, device_bytes: 0, disk_bytes: 0 };
        if let Some(is_end) = self.copy_in_advance(head, all)? {
            return Ok(is_end);
        }
        self.captured = epoch;
        self.acknowledged = epoch;
        self.epoch(term, false)?;
        self.phase = Phase::AwaitingGo;
        Ok(false)
    }

    /// All memory, all disks, and what was written meanwhile of both.
    fn copy_in_advance(&mut self, head: EpochBegin, all: PageRange) -> Result<BrokenOff, CaptureError> {
        let more = EpochBegin { full: false, pages: 0, ..head };
        let mut broken_off = self.ship(head, &[all])?;
        if broken_off.is_none() {
            broken_off = self.copy_disks(more)?;
        }
        if broken_off.is_none() {
            broken_off = self.rounds(more)?;
        }
        if broken_off.is_none() {
            broken_off = self.copy_last_blocks(more)?;
        }
        Ok(broken_off)
    }

    /// Ship what was written, round after round, until an epoch may follow.
    fn rounds(&mut self, head: EpochBegin) -> Result<BrokenOff, CaptureError> {
        let mut rounds = Rounds::new(self.settings.pacing.interval());
        let mut ranges = Vec::new();
        // The first round has what was written during the whole copy, much of it again and again.
        let mut collected = Duration::ZERO;
        loop {
            // Rounds may go on for ever, and with them this step: a guest that stands by itself meanwhile
            // would wait for ever.
            self.listen()?;
            ranges.clear();
            let begin = now();
            self.collect_running(&mut ranges)?;
            let pages = count_pages(&ranges);
            // Room for what is written until a standby is named, in each of the epochs that may come next: the guest
            // is not to stand while it is made.
            let since = begin.saturating_sub(collected);
            collected = begin;
            self.expected_pages = pages_within(self.settings.pacing.interval() * UNTIL_NAMED, pages, since);
            self.prepare(usize::MAX);
            self.staging_time = Duration::ZERO;
            if pages > 0
                && let Some(is_end) = self.ship(EpochBegin { pages, ..head }, &ranges)?
            {
                return Ok(Some(is_end));
            }
            let took = now().saturating_sub(begin);
            let next = rounds.took(pages, took);
            if next == Next::Again {
                continue;
            }
            if next == Next::Stuck && self.holds_back(&mut rounds, took) {
                continue;
            }
            let converges = next == Next::Epoch && !self.brake.slows_copy();
            let held_back = if converges { Duration::ZERO } else { self.copied(took)? };
            // What is sent after the cut of the first epoch waits for the standby to have that, at least.
            let goes_on = next == Next::Epoch || took <= self.settings.longest_first_pause;
            let pause = self.staging_time;
            let advance = Advance { rounds: rounds.count, pages, took, pause, held_back, converges, goes_on };
            self.tell(GuestEvent::Advanced(advance));
            if goes_on {
                return Ok(None);
            }
            self.brake.rest();
            if let Some(is_end) = self.hear_until(now() + REST, |_| Ok(false))? {
                return Ok(Some(is_end));
            }
            rounds = Rounds::new(self.settings.pacing.interval());
        }
    }

    /// Hold the guest back, or more than before, where its rounds may so come to take no longer than an
    /// acknowledgement may; tells whether.
    fn holds_back(&mut self, rounds: &mut Rounds, took: Duration) -> bool {
        let EngineSettings { longest_first_pause, longest_hold, .. } = self.settings;
        let enough = self.brake.longest_acknowledgement().min(longest_first_pause);
        let is_of_use = took > enough && self.staging_time <= longest_first_pause && !self.is_stopped;
        let holds_back = is_of_use && took <= longest_hold * ROUND_IN_HOLDS && self.brake.slow_copy(now());
        if holds_back {
            rounds.hold_back(enough);
        }
        holds_back
    }

    /// The rounds of a guest that writes more than is shipped are over, the last of which `took` so long: it is held
    /// back for them no longer. Gives how long it stood.
    fn copied(&mut self, took: Duration) -> Result<Duration, CaptureError> {
        if self.brake.stands() {
            self.turn_brake(Motion::Run)?;
        }
        Ok(self.brake.copied(took))
    }

    /// Hold the guest back while it is copied, if it has to be.
    fn heed_brake(&mut self) -> Result<(), CaptureError> {
        if self.brake.slows_copy() && !self.is_stopped {
            let (moment, motion) = self.brake_at();
            if now() >= moment {
                self.turn_brake(motion)?;
            }
        }
        Ok(())
    }

    /// Find written pages; the guest stands only if the tracker needs it.
    fn collect_running(&mut self, ranges: &mut Vec<PageRange>) -> Result<(), CaptureError> {
        let stands = self.is_stopped || self.brake.stands();
        let stops = self.guest.tracked.collects_at_standstill_only() && !stands;
        if stops {
            self.guest.qmp.execute("stop", json!({}))?;
        }
        self.guest.tracked.collect(ranges)?;
        if stops {
            self.guest.qmp.execute("cont", json!({}))?;
        }
        Ok(())
    }

    /// Stage pages part by part, give them to the encoder, and wait until they are in the standby's memory.
    fn ship(&mut self, head: EpochBegin, ranges: &[PageRange]) -> Result<BrokenOff, CaptureError> {
        let mut left = head.pages;
        let mut part = Vec::new();
        let mut part_pages = 0;
        for mut range in ranges.iter().copied() {
            while range.count > 0 {
                let count = range.count.min(PART_PAGES - part_pages);
                part.push(PageRange { first: range.first, count });
                range = PageRange { first: range.first + count, count: range.count - count };
                part_pages += count;
                left -= count;
                if part_pages == PART_PAGES || left == 0 {
                    let mut pages = self.settings.staging.take(PART_ROOM);
                    let begin = now();
                    self.guest.tracked.stage(&part, &mut pages)?;
                    self.staging_time += now().saturating_sub(begin);
                    let parcel = Parcel::Part { head, pages, is_last: left == 0 };
                    if let Some(is_end) = self.pass_on(parcel)? {
                        return Ok(Some(is_end));
                    }
                    part.clear();
                    part_pages = 0;
                }
            }
        }
        self.await_held()
    }

    /// Wait until the standby has one more part. What still lies in front of it would be in the way of the first whole
    /// epoch, and the guest goes on writing until that is acknowledged.
    pub(super) fn await_held(&mut self) -> Result<BrokenOff, CaptureError> {
        self.copies.shipped += 1;
        self.hear_until(Duration::MAX, |engine| Ok(engine.copies.held == engine.copies.shipped))
    }

    /// Give a parcel to the encoder. The link decides how fast.
    pub(super) fn pass_on(&mut self, parcel: Parcel) -> Result<BrokenOff, CaptureError> {
        let mut parcel = Some(parcel);
        self.hear_until(Duration::MAX, |engine| {
            let Some(waiting) = parcel.take() else { return Ok(true) };
            match engine.settings.parcels.try_send(waiting) {
                Ok(()) => Ok(true),
                Err(TrySendError::Disconnected(_)) => Err(CaptureError::NobodyShips),
                Err(TrySendError::Full(back)) => {
                    parcel = Some(back);
                    Ok(false)
                }
            }
        })
    }

    /// Hear orders until a moment, or until `is_done`. Some end the copy.
    pub(super) fn hear_until(
        &mut self,
        moment: Duration,
        mut is_done: impl FnMut(&mut Self) -> Result<bool, CaptureError>,
    ) -> Result<BrokenOff, CaptureError> {
        loop {
            self.heed_brake()?;
            if is_done(self)? || now() >= moment {
                return Ok(None);
            }
            match self.orders.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) | Ok(Order::Acknowledged(_)) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(Some(true)),
                Ok(order @ (Order::Rest | Order::FullCopy { .. })) => return self.step(Some(order)).map(Some),
                Ok(order) => {
                    if self.step(Some(order))? {
                        return Ok(Some(true));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_a_time_is_told_by_a_shorter_one() {
        let ms = Duration::from_millis;
        assert_eq!(pages_within(ms(200), 1000, ms(50)), 4000);
        assert_eq!(pages_within(ms(200), 1000, ms(800)), 1000, "what is there is copied whole");
        assert_eq!(pages_within(ms(200), 3, Duration::ZERO), 600);
    }
}
