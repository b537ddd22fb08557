//! The loop that transfers: hands over what is due, waits, writes down what has ended.

use std::ops::Range;
use std::{io, mem};

use stealtime_wire::{Disk, DiskOrder};

use super::engine::Engine;
use crate::clock::{TscRate, time_stamp_counter};
use crate::recorder::Recorder;
use crate::requests::{Ledger, OpenLoop, Pace, Turn};
use crate::sys::{KernelClock, kernel_clock_ns, mixed, next_random, sleep_until_monotonic};

/// Nobody waits longer before looking whether the trial was stopped.
const LONGEST_WAIT_NS: u64 = 100_000_000;

/// What a trial waits at its end for a disk that does not answer.
const PATIENCE_NS: u64 = 20_000_000_000;

/// What is transferred, in which order.
pub struct Order {
    first_byte: u64,
    block_bytes: u64,
    blocks: u64,
    is_random: bool,
    state: u64,
    next: u64,
}

impl Order {
    pub fn new(disk: &Disk, first_byte: u64, blocks: u64) -> Self {
        Self {
            first_byte,
            block_bytes: disk.block_bytes.into(),
            blocks,
            is_random: disk.order == DiskOrder::Random,
            state: disk.seed,
            next: 0,
        }
    }

    /// The next block of which no transfer is under way: two of one block at a time would be told apart by nobody.
    #[inline(always)]
    fn next_block(&mut self, is_under_way: impl Fn(u64) -> bool) -> u64 {
        let mut block = if self.is_random {
            self.state = next_random(self.state);
            // Lemire, "Fast random integer generation in an interval", 2019, without its rejection, which at most 2^32
            // blocks hardly ever need.
            let scaled = (u128::from(mixed(self.state)) * u128::from(self.blocks)) >> 64;
            u64::try_from(scaled).unwrap_or_default()
        } else {
            self.next
        };
        // There are at least as many blocks as may be under way.
        while is_under_way(block) {
            block = self.after(block);
        }
        self.next = self.after(block);
        block
    }

    #[inline(always)]
    fn after(&self, block: u64) -> u64 {
        if block + 1 == self.blocks { 0 } else { block + 1 }
    }

    #[inline(always)]
    fn offset_of(&self, block: u64) -> u64 {
        self.first_byte + block * self.block_bytes
    }
}

/// What was counted besides the samples.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TransferCounts {
    /// Transfers that the kernel refused, which are no samples.
    pub errors: u64,
    /// The first one's error number.
    pub first_error: i32,
    /// Transfers of fewer bytes than asked for, which are no samples.
    pub short: u64,
    /// Those that were due and not handed over when time was up.
    pub not_started: u64,
    /// How late the oldest of them was then, in cycles.
    pub longest_not_started: u64,
    /// Those that ended while nobody watched.
    pub unwatched: u64,
    /// Those that had not ended when the trial was given up.
    pub unfinished: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct UnderWay {
    due: u64,
    submitted: u64,
    block: u64,
}

const NONE: UnderWay = UnderWay { due: 0, submitted: 0, block: u64::MAX };

/// An engine with what is under way in it.
struct Queue<'a, E> {
    engine: &'a mut E,
    under_way: Box<[UnderWay]>,
    free: Vec<usize>,
    block_bytes: i32,
}

impl<'a, E: Engine> Queue<'a, E> {
    fn new(engine: &'a mut E, disk: &Disk) -> Self {
        let depth = disk.depth as usize;
        Self {
            engine,
            under_way: vec![NONE; depth].into(),
            free: (0..depth).rev().collect(),
            block_bytes: disk.block_bytes.cast_signed(),
        }
    }

    /// Chooses the block of a transfer that begins.
    #[inline(always)]
    fn take(&mut self, number: usize, order: &mut Order) -> u64 {
        let block = order.next_block(|block| self.under_way.iter().any(|one| one.block == block));
        self.under_way[number] = UnderWay { block, ..UnderWay::default() };
        block
    }

    /// Writes down the transfer that is due, if one is and there is room for it.
    #[inline(always)]
    fn issue(&mut self, order: &mut Order, pace: &mut Pace, now: u64) -> Option<usize> {
        let &number = self.free.last()?;
        let due = pace.take(now)?;
        self.free.pop();
        let block = self.take(number, order);
        self.under_way[number].due = due;
        self.engine.prepare(number, order.offset_of(block));
        Some(number)
    }

    /// Ends a transfer, and gives what was written down of it.
    #[inline(always)]
    fn end(&mut self, number: usize) -> UnderWay {
        self.free.push(number);
        mem::replace(&mut self.under_way[number], NONE)
    }

    fn count(&self) -> usize {
        self.under_way.len() - self.free.len()
    }
}

/// Transfers without writing anything down, and tells in how many cycles one ends after the other.
///
/// # Errors
/// The first transfer that the kernel refuses, or does not do in full.
pub fn warm_up<E: Engine>(engine: &mut E, disk: &Disk, order: &mut Order, cycles: Range<u64>) -> io::Result<u64> {
    let mut queue = Queue::new(engine, disk);
    let begun = time_stamp_counter();
    let mut done = 0;
    loop {
        let elapsed = time_stamp_counter().saturating_sub(begun);
        let is_enough = elapsed >= cycles.start && done >= u64::from(disk.depth) || elapsed >= cycles.end;
        if is_enough && queue.count() == 0 {
            return Ok(elapsed / done.max(1));
        }
        while !is_enough && let Some(number) = queue.free.pop() {
            let block = queue.take(number, order);
            queue.engine.prepare(number, order.offset_of(block));
        }
        let least = usize::from(queue.count() > 0);
        queue.engine.submit(least, LONGEST_WAIT_NS)?;
        if elapsed >= cycles.end.saturating_mul(4) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        while let Some((number, result)) = queue.engine.next_ended() {
            queue.end(number);
            done += 1;
            if result < 0 {
                return Err(io::Error::from_raw_os_error(-result));
            }
            if result != queue.block_bytes {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{result} bytes of a block")));
            }
        }
    }
}

/// Transfers until the recorder has no more room or its deadline has passed.
///
/// # Errors
/// The kernel hands over nothing any more.
pub fn measure<E: Engine>(
    engine: &mut E,
    disk: &Disk,
    order: &mut Order,
    recorder: &Recorder,
    (rate, duration_ns): (&TscRate, u64),
) -> io::Result<TransferCounts> {
    let mut queue = Queue::new(engine, disk);
    let mut counts = TransferCounts::default();
    let open = disk.interval_ns.map(|interval_ns| OpenLoop::of(interval_ns, duration_ns, rate));
    let mut ledger = Ledger::begin(recorder, open, rate.to_cycles(duration_ns));
    let patience = rate.to_cycles(PATIENCE_NS);
    let mut last_progress = recorder.origin();
    loop {
        let now = time_stamp_counter();
        let turn = ledger.turn(now, queue.count());
        if turn == Turn::Over {
            break;
        }
        if turn == Turn::Issue {
            last_progress = now;
        } else if now.saturating_sub(last_progress) > patience {
            counts.unfinished = queue.count() as u64;
            break;
        }
        let mut wait_ns = LONGEST_WAIT_NS;
        // One at a time, so that what is read before each system call is about that transfer: of several in one call,
        // which takes some microseconds each, the last would seem to have been under way for all of that time.
        let issued = if turn == Turn::Issue { queue.issue(order, &mut ledger.pace, now) } else { None };
        if let Some(number) = issued {
            let one = &mut queue.under_way[number];
            one.submitted = time_stamp_counter();
            if open.is_none() {
                one.due = one.submitted;
            }
        }
        if turn == Turn::Issue && !queue.free.is_empty() {
            let until = ledger.pace.until_next(now).unwrap_or(0);
            wait_ns = wait_ns.min(rate.whole_ns(until));
        }
        if queue.count() == 0 {
            if wait_ns > 0 {
                sleep_until_monotonic(kernel_clock_ns(KernelClock::Monotonic) + wait_ns);
            }
            continue;
        }
        queue.engine.submit(usize::from(wait_ns > 0), wait_ns)?;
        while let Some((number, result)) = queue.engine.next_ended() {
            let ended = time_stamp_counter();
            last_progress = ended;
            let UnderWay { due, submitted, block } = queue.end(number);
            if result == queue.block_bytes {
                ledger.write((due, submitted, ended), &mut [0, block], queue.count());
            } else {
                ledger.pass_over();
                if result < 0 {
                    counts.first_error = if counts.errors == 0 { -result } else { counts.first_error };
                    counts.errors += 1;
                } else {
                    counts.short += 1;
                }
            }
        }
    }
    (counts.not_started, counts.longest_not_started) = ledger.left();
    counts.unwatched = ledger.unwatched;
    Ok(counts)
}
