//! Requests that overlap: when each is due, and where it is written down when it has ended.

use crate::clock::{TscRate, time_stamp_counter};
use crate::keeping::Next;
use crate::recorder::Recorder;

/// A device that stalls at the end of a trial would else hide what was due then.
const GRACE_DIVISOR: u64 = 10;

/// An open loop: so many requests, one due each so many cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLoop {
    pub interval: u64,
    pub count: u64,
}

impl OpenLoop {
    /// As many as begin within the duration.
    pub fn of(interval_ns: u64, duration_ns: u64, rate: &TscRate) -> Self {
        Self { interval: rate.to_cycles(interval_ns).max(1), count: duration_ns.div_ceil(interval_ns) }
    }
}

/// When requests are due.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// From one to the next, in cycles; none in a closed loop, where each is due when there is room for it.
    interval: Option<u64>,
    /// The next one, of an open loop.
    next: u64,
    /// None is due from then on.
    end: u64,
}

impl Pace {
    pub fn new(open: Option<OpenLoop>, origin: u64) -> Self {
        let last = open.map_or(u64::MAX, |open| open.count.saturating_mul(open.interval));
        Self { interval: open.map(|open| open.interval), next: origin, end: origin.saturating_add(last) }
    }

    /// When the next request is due, if that has come by `now`; it then counts as taken.
    #[inline(always)]
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let Some(interval) = self.interval else { return Some(now) };
        let due = self.next;
        (due <= now && due < self.end).then(|| {
            self.next += interval;
            due
        })
    }

    /// How long until the next request is due; nothing in a closed loop.
    #[inline(always)]
    pub fn until_next(&self, now: u64) -> Option<u64> {
        self.interval.map(|_| self.next.saturating_sub(now))
    }

    /// How many requests were due before `time` and not taken.
    fn left_before(&self, time: u64) -> u64 {
        self.interval.map_or(0, |interval| self.end.min(time).saturating_sub(self.next).div_ceil(interval))
    }

    /// Puts off all that is to come: nobody watched for so long.
    fn put_off(&mut self, units: u64) {
        self.next += units;
        self.end = self.end.saturating_add(units);
    }
}

/// What a trial does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Hand over what is due.
    Issue,
    /// Hand over nothing more until what is under way has ended.
    Drain,
    /// All is written that will be.
    Over,
}

/// Writes down requests as they end.
pub struct Ledger<'a> {
    recorder: &'a Recorder,
    pub pace: Pace,
    index: usize,
    /// Up to which index there is memory.
    room: usize,
    last_end: u64,
    /// How long what was due before the end is still handed over after it.
    grace: u64,
    is_over: bool,
    /// Requests that ended while nobody watched.
    pub unwatched: u64,
    /// Those that are under way and will be of that kind.
    strangers: usize,
}

impl<'a> Ledger<'a> {
    /// Begins now, when the first request of an open loop is due.
    pub fn begin(recorder: &'a Recorder, open: Option<OpenLoop>, duration: u64) -> Self {
        let origin = time_stamp_counter();
        recorder.start(origin, origin.saturating_add(duration));
        Self {
            recorder,
            pace: Pace::new(open, origin),
            index: 0,
            room: recorder.room(),
            last_end: origin,
            grace: duration / GRACE_DIVISOR,
            is_over: false,
            unwatched: 0,
            strangers: 0,
        }
    }

    /// What to do at `now` with so many requests under way.
    #[inline(always)]
    pub fn turn(&mut self, now: u64, under_way: usize) -> Turn {
        if now < self.recorder.deadline() && !self.is_over && self.strangers == 0 {
            return Turn::Issue;
        }
        self.turn_at_end(now, under_way)
    }

    #[cold]
    fn turn_at_end(&mut self, now: u64, under_way: usize) -> Turn {
        let is_late = (self.pace.end..self.pace.end.saturating_add(self.grace)).contains(&now);
        let is_measuring = !self.is_over && self.strangers == 0 && !self.recorder.is_stopped();
        if is_late && is_measuring && self.pace.left_before(now) > 0 {
            return Turn::Issue;
        }
        if under_way > 0 {
            return Turn::Drain;
        }
        if self.is_over {
            return Turn::Over;
        }
        // A pause begins only when nothing is under way, where there is a choice.
        self.make_room(0);
        if self.is_over { Turn::Over } else { Turn::Issue }
    }

    /// Writes down a request that has ended.
    ///
    /// # Arguments
    /// * `(due, submitted, ended)`: times in cycles.
    /// * `further`: what its layout has besides; the first is overwritten with how long it waited.
    /// * `under_way`: how many others are.
    #[inline(always)]
    pub fn write(&mut self, (due, submitted, ended): (u64, u64, u64), further: &mut [u64], under_way: usize) {
        if self.strangers > 0 || self.is_over {
            self.pass_over();
            return;
        }
        further[0] = submitted.saturating_sub(due);
        let (gap, duration) = (ended.saturating_sub(self.last_end), ended.saturating_sub(due));
        self.recorder.write_request(self.index, gap, duration, further);
        self.index += 1;
        self.last_end = ended;
        if self.index >= self.room {
            self.make_room(under_way);
        }
    }

    /// A request has ended that will not be written down.
    #[cold]
    pub fn pass_over(&mut self) {
        self.unwatched += u64::from(self.strangers > 0);
        self.strangers = self.strangers.saturating_sub(1);
    }

    /// Gets memory for further requests, or finds that the trial is over. Those under way during a pause ended when
    /// nobody looked, so that they cannot be written down.
    #[cold]
    fn make_room(&mut self, under_way: usize) {
        let before = time_stamp_counter();
        match self.recorder.next(self.index, before) {
            Next::Go(room) => self.room = room,
            Next::Resume(room) => {
                self.room = room;
                let now = time_stamp_counter();
                let paused = now.saturating_sub(before);
                self.recorder.resumed(self.index, paused, now);
                self.pace.put_off(paused);
                self.last_end += paused;
                self.strangers = under_way;
            }
            Next::Stop => self.is_over = true,
        }
    }

    /// How many requests were due when the trial ended and had not been handed over, and how late the oldest was.
    pub fn left(&self) -> (u64, u64) {
        let now = time_stamp_counter();
        let count = self.pace.left_before(now);
        (count, if count > 0 { now.saturating_sub(self.pace.next) } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SampleClock;
    use crate::further::FurtherColumns;
    use crate::side_list::SideList;

    fn recorder(capacity: usize) -> Recorder {
        let further = FurtherColumns::new(2, capacity, 0).unwrap();
        let recorder = Recorder::new(capacity, true, 0, SampleClock::Tsc).unwrap();
        recorder.with(further, SideList::for_requests(capacity, 0))
    }

    #[test]
    fn an_open_loop_takes_each_request_at_its_time_however_late_it_is() {
        let mut pace = Pace::new(Some(OpenLoop { interval: 10, count: 6 }), 100);
        assert_eq!((pace.take(99), pace.until_next(99)), (None, Some(1)));
        assert_eq!([pace.take(125), pace.take(125), pace.take(125)], [Some(100), Some(110), Some(120)]);
        assert_eq!((pace.take(125), pace.until_next(125)), (None, Some(5)));
        assert_eq!((pace.left_before(130), pace.left_before(131), pace.left_before(200)), (0, 1, 3));
        assert_eq!(
            [pace.take(500), pace.take(500), pace.take(500), pace.take(500)],
            [Some(130), Some(140), Some(150), None]
        );
    }

    #[test]
    fn a_closed_loop_is_always_due_and_leaves_nothing_behind() {
        let rate = TscRate { hz: 2e9, source: "made up".to_owned() };
        assert_eq!(OpenLoop::of(1_000, 10_500, &rate), OpenLoop { interval: 2_000, count: 11 });
        let mut pace = Pace::new(None, 100);
        assert_eq!((pace.take(7), pace.until_next(7), pace.left_before(1_000)), (Some(7), None, 0));
    }

    #[test]
    fn a_request_is_written_with_its_wait_and_the_gap_between_ends() {
        let recorder = recorder(10);
        let mut ledger = Ledger::begin(&recorder, None, 1 << 40);
        let origin = recorder.origin();
        ledger.write((origin + 5, origin + 7, origin + 30), &mut [0, 42], 1);
        ledger.write((origin + 6, origin + 6, origin + 31), &mut [0, 43], 0);
        let rows = recorder.copy(0..2);
        assert_eq!((rows.gaps, rows.durations), (Some(vec![30, 1]), vec![25, 25]));
        assert_eq!(rows.further, [[2, 0], [42, 43]]);
    }

    #[test]
    fn what_ends_after_the_memory_is_full_is_not_written() {
        let recorder = recorder(1);
        let mut ledger = Ledger::begin(&recorder, None, 1 << 40);
        let origin = recorder.origin();
        assert_eq!(ledger.turn(origin, 0), Turn::Issue);
        ledger.write((origin, origin, origin + 1), &mut [0, 0], 2);
        assert_eq!(ledger.turn(origin, 2), Turn::Drain);
        ledger.write((origin, origin, origin + 2), &mut [0, 0], 1);
        assert_eq!((ledger.turn(origin, 0), recorder.len()), (Turn::Over, 1));
    }

    #[test]
    fn at_the_end_what_is_under_way_is_still_written() {
        let recorder = recorder(10);
        let mut ledger = Ledger::begin(&recorder, None, 1_000);
        let origin = recorder.origin();
        assert_eq!(ledger.turn(origin + 1_000, 1), Turn::Drain);
        ledger.write((origin, origin, origin + 1_100), &mut [0, 0], 0);
        assert_eq!(recorder.len(), 1);
    }
}
