//! Memory to stage pages into, used over and over, and made by a thread of its own.
//!
//! New memory costs more than the copy into it: each page comes from the kernel, and on a host that is itself a virtual
//! machine from below, too (7 us, where the copy takes 1). A guest that writes as fast as it can would write more than
//! that while its next epoch waits for memory, which would make the epoch larger, and the next one wait for longer.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use stealtime_capture::StagedPages;

/// What there is room for at least.
const LEAST_PAGES: usize = 2048;

/// Memory that has room for so many times what is needed is given back to the kernel.
const TOO_MUCH: usize = 8;

enum Job {
    Make(usize),
    GiveBack(StagedPages),
}

/// The memory that is not in use.
pub struct StagingPool {
    /// From the encoder.
    returned: Receiver<StagedPages>,
    jobs: Sender<Job>,
    made: Receiver<StagedPages>,
    kept: Vec<StagedPages>,
    /// Asked for, and not made yet.
    pending: usize,
    /// As many are kept.
    most: usize,
    /// All of them together are for no more pages than the machine has: what an operator counts for it
    /// (docs/protect.md).
    most_pages: usize,
    /// For how many pages memory was asked for last.
    wanted: usize,
}

impl StagingPool {
    /// Ready for use: for the next epoch, and for the one after it.
    pub const READY: usize = 2;

    /// `returned`: what has been used. `in_use`: how many are at the most. `ram_pages`: of the machine.
    pub fn start(returned: Receiver<StagedPages>, in_use: usize, ram_pages: usize) -> io::Result<Self> {
        let most = in_use + Self::READY;
        let (jobs, to_do) = mpsc::channel();
        let (give, made) = mpsc::channel();
        thread::Builder::new().name("staging".to_owned()).spawn(move || {
            for job in to_do {
                match job {
                    Job::Make(pages) => {
                        let mut staged = StagedPages::default();
                        staged.clear_with_room_for(pages);
                        // An engine that has ended needs none.
                        let _ = give.send(staged);
                    }
                    Job::GiveBack(staged) => drop(staged),
                }
            }
        })?;
        Ok(Self {
            returned,
            jobs,
            made,
            kept: Vec::new(),
            pending: 0,
            most,
            most_pages: ram_pages,
            wanted: LEAST_PAGES,
        })
    }

    /// Have memory made for `count` times `pages`, where there is none of that size, or for as many times as the
    /// machine has pages. Does not wait.
    pub fn prepare(&mut self, pages: usize, count: usize) {
        let pages = pages.clamp(LEAST_PAGES, self.most_pages.max(LEAST_PAGES));
        self.wanted = pages;
        self.gather();
        let there = self.kept.iter().filter(|staged| staged.room() >= pages).count();
        for _ in there + self.pending..count.min(self.most).min((self.most_pages / pages).max(1)) {
            self.pending += 1;
            // Its thread lives as long as this.
            let _ = self.jobs.send(Job::Make(pages));
        }
    }

    /// Give the smallest that has room for so many pages, else the largest that there is: then the copy makes the room
    /// that it needs.
    pub fn take(&mut self, pages: usize) -> StagedPages {
        self.gather();
        let fits = |staged: &StagedPages| staged.room() >= pages;
        let place = self.kept.iter().position(fits).or_else(|| self.kept.len().checked_sub(1));
        place.map_or_else(StagedPages::default, |place| {
            let mut staged = self.kept.remove(place);
            staged.clear();
            staged
        })
    }

    /// Take back what has been used or made, smaller ones first.
    fn gather(&mut self) {
        self.kept.extend(self.returned.try_iter());
        for staged in self.made.try_iter() {
            self.pending -= 1;
            self.kept.push(staged);
        }
        self.kept.sort_by_key(StagedPages::room);
        let limit = TOO_MUCH * self.wanted;
        while self.kept.len() > self.most {
            let _ = self.jobs.send(Job::GiveBack(self.kept.remove(0)));
        }
        while self.kept.last().is_some_and(|largest| largest.room() > limit) || self.is_too_much() {
            let _ = self.kept.pop().map(|largest| self.jobs.send(Job::GiveBack(largest)));
        }
    }

    /// Whether there is more than the machine has pages; one is always kept.
    fn is_too_much(&self) -> bool {
        let pages: usize = self.kept.iter().map(StagedPages::room).sum();
        self.kept.len() > 1 && pages > self.most_pages
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const RAM_PAGES: usize = 40_000;
    const PATIENCE: Duration = Duration::from_secs(20);

    fn pool() -> (Sender<StagedPages>, StagingPool) {
        let (give_back, returned) = mpsc::channel();
        (give_back, StagingPool::start(returned, 1, RAM_PAGES).unwrap())
    }

    fn await_rooms(pool: &mut StagingPool, rooms: &[usize]) {
        let began = Instant::now();
        loop {
            pool.gather();
            let there: Vec<usize> = pool.kept.iter().map(StagedPages::room).collect();
            if there == rooms {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{there:?}, not {rooms:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn memory_is_made_beside_and_taken_by_its_size() {
        let (give_back, mut pool) = pool();
        assert_eq!(pool.take(10).room(), 0, "nothing is waited for");
        pool.prepare(3000, 2);
        pool.prepare(3000, 2);
        await_rooms(&mut pool, &[3000, 3000]);
        pool.prepare(5000, 1);
        await_rooms(&mut pool, &[3000, 3000, 5000]);
        assert_eq!(pool.take(3001).room(), 5000);
        assert_eq!(pool.take(4000).room(), 3000, "the largest that is left");
        let mut used = pool.take(10);
        used.indices.push(7);
        give_back.send(used).unwrap();
        let again = pool.take(10);
        assert_eq!((again.room(), again.len()), (3000, 0));
    }

    #[test]
    fn all_of_it_together_is_for_no_more_pages_than_the_machine_has() {
        let (give_back, mut pool) = pool();
        // As after a copy during which most of the memory was written.
        pool.prepare(RAM_PAGES * 3 / 4, usize::MAX);
        await_rooms(&mut pool, &[RAM_PAGES * 3 / 4]);
        pool.prepare(RAM_PAGES * 2, usize::MAX);
        assert_eq!(pool.pending, 1);
        await_rooms(&mut pool, &[RAM_PAGES * 3 / 4]);
        pool.prepare(RAM_PAGES / 8, usize::MAX);
        give_back.send(StagedPages::default()).unwrap();
        let began = Instant::now();
        while pool.pending > 0 {
            assert!(began.elapsed() < PATIENCE);
            pool.gather();
        }
        assert!(pool.kept.iter().map(StagedPages::room).sum::<usize>() <= RAM_PAGES);
    }

    #[test]
    fn what_is_too_large_or_too_much_is_given_back() {
        let (give_back, mut pool) = pool();
        let mut large = StagedPages::default();
        large.clear_with_room_for(TOO_MUCH * LEAST_PAGES + 1);
        give_back.send(large).unwrap();
        for _ in 0..4 {
            let mut small = StagedPages::default();
            small.clear_with_room_for(10);
            give_back.send(small).unwrap();
        }
        await_rooms(&mut pool, &[10, 10]);
    }
}
