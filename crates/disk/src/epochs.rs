//! A model of disks by epoch, with the real recorder, images and journal.
//!
//! Whatever happens in which order, a standby that goes on has what the guest had at its last committed epoch, and a
//! host that returns has the same as the other one. Mistakes that one might make are put in; each must be found.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::copying::{BLOCK_BYTES, Blocks};
use crate::image::{Image, ImageFile};
use crate::journal::Journal;
use crate::recorder::Recorder;
use crate::write::{Content, Write};

const BLOCKS: u64 = 3;
const BYTES: u64 = BLOCKS * BLOCK_BYTES;
const PAGE: u64 = 4096;

#[derive(Debug, Clone)]
enum Step {
    /// The guest writes some pages, or discards them.
    Write { page: u64, pages: u64, byte: u8 },
    /// The next block of the first copy, or the end of it.
    Copy,
    /// The guest stands: its epoch ends.
    Cut,
    /// The standby commits the oldest epoch on its way.
    Commit,
    /// The standby's image is brought to its medium.
    Sync,
    /// The host of the guest dies.
    Die,
    /// Both lose their power.
    PowerCut,
}

/// What somebody may get wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// An epoch is committed before an earlier one.
    Reordered,
    /// Writes go into the standby's image before their epoch is committed.
    AppliedEarly,
    /// A write is not in its epoch.
    LostWrite,
    /// The writes are cut before the guest stands, and its last one goes with the next epoch.
    CutEarly,
    /// What is written while a block is copied is not noted.
    NotNoted,
    /// A host that returns goes on with what it had.
    NotCompared,
    /// The journal forgets epochs that are not on the medium yet.
    JournalForgets,
}

/// Two hosts; the guest runs on the first.
struct World {
    mistake: Option<Mistake>,
    folder: tempfile::TempDir,
    images: [Arc<Image>; 2],
    /// Which of them has the guest.
    home: usize,
    recorder: Recorder,
    journal: Journal,
    /// How many blocks the first copy has done; None: it is over.
    copied: Option<u64>,
    /// On their way, with what the guest's disk held at the cut.
    on_the_way: VecDeque<(Vec<Write>, Vec<u8>)>,
    /// What the guest's disk held at the last committed epoch; None: the standby is of no use yet.
    committed: Option<Vec<u8>>,
    /// The standby's image on its medium.
    on_medium: Vec<u8>,
    last: Option<Write>,
}

fn content(image: &Image) -> Vec<u8> {
    let mut content = vec![0; usize::try_from(BYTES).unwrap()];
    image.read_at(&mut content, 0).unwrap();
    content
}

impl World {
    fn new(mistake: Option<Mistake>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let images = ["a.raw", "b.raw"]
            .map(|name| Arc::new(Image::open_or_make(&ImageFile::raw(folder.path().join(name)), BYTES).unwrap()));
        // What somebody has left there before.
        images[1].apply(&Write { disk: 0, offset: PAGE, content: Content::Data(vec![200; 9000]) }).unwrap();
        let journal = Journal::begin(&folder.path().join("journal")).unwrap();
        let mut world = Self {
            mistake,
            folder,
            images,
            home: 0,
            recorder: Recorder::default(),
            journal,
            copied: None,
            on_the_way: VecDeque::new(),
            committed: None,
            on_medium: Vec::new(),
            last: None,
        };
        world.begin_copy();
        world
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    fn active(&self) -> &Image {
        &self.images[self.home]
    }

    fn standby(&self) -> &Image {
        &self.images[1 - self.home]
    }

    fn apply_all(&self, writes: &[Write]) {
        for write in writes {
            self.standby().apply(write).unwrap();
        }
    }

    fn begin_copy(&mut self) {
        self.recorder.note_blocks();
        (self.copied, self.committed) = (Some(0), None);
        self.on_the_way.clear();
        self.journal = Journal::begin(&self.journal_path()).unwrap();
    }

    fn write(&mut self, page: u64, pages: u64, byte: u8) {
        let pages = pages.min(BYTES / PAGE - page);
        let length = pages * PAGE;
        let content = match byte {
            0 => Content::Zeroes(length),
            _ => Content::Data(vec![byte; usize::try_from(length).unwrap()]),
        };
        let write = Write { disk: 0, offset: page * PAGE, content };
        self.active().apply(&write).unwrap();
        if self.has(Mistake::NotNoted) && self.copied.is_some_and(|copied| copied > 0) {
            return;
        }
        self.recorder.written(|| write.clone(), 0, write.offset, length);
        self.last = Some(write);
    }

    /// Write blocks as they are now into the standby's image.
    fn copy_blocks(&self, blocks: &Blocks) {
        for (disk, block) in blocks.iter() {
            let mut data = Vec::new();
            self.active().read_block(block, &mut data).unwrap();
            self.standby().apply(&Write { disk, offset: block * BLOCK_BYTES, content: Content::Data(data) }).unwrap();
        }
    }

    fn copy(&mut self) {
        let Some(copied) = self.copied else { return };
        if copied < BLOCKS {
            let differs = self.active().digests(copied, 1).unwrap() != self.standby().digests(copied, 1).unwrap();
            if differs && !self.has(Mistake::NotCompared) {
                let mut one = Blocks::default();
                one.add(0, copied * BLOCK_BYTES, 1);
                self.copy_blocks(&one);
            }
            self.copied = Some(copied + 1);
            return;
        }
        let rest = self.recorder.keep_writes();
        self.copy_blocks(&rest);
        self.copied = None;
    }

    fn cut(&mut self) {
        if self.copied.is_some() {
            return;
        }
        let mut writes = self.recorder.cut();
        match self.mistake {
            Some(Mistake::LostWrite) => drop(writes.pop()),
            // The guest goes on for a moment: its memory knows of this write, and its epoch does not.
            Some(Mistake::CutEarly) => self.write(1, 1, 77),
            _ => {}
        }
        if self.has(Mistake::AppliedEarly) {
            self.apply_all(&writes);
        }
        self.on_the_way.push_back((writes, content(self.active())));
    }

    fn commit(&mut self) {
        let is_late = self.has(Mistake::Reordered);
        let next = if is_late { self.on_the_way.pop_back() } else { self.on_the_way.pop_front() };
        let Some((writes, held)) = next else { return };
        self.journal.append(&writes).unwrap();
        self.apply_all(&writes);
        if self.committed.is_none() {
            // The first one is on the medium before it counts.
            self.sync();
        }
        self.committed = Some(held);
        if self.has(Mistake::JournalForgets) {
            self.journal.clear().unwrap();
        }
    }

    fn sync(&mut self) {
        self.on_medium = content(self.standby());
        self.journal.clear().unwrap();
    }

    /// The other host goes on, and this one returns.
    fn die(&mut self) -> Result<(), TestCaseError> {
        let Some(held) = self.committed.clone() else { return Ok(()) };
        prop_assert!(content(self.standby()) == held, "the standby goes on with another disk than its memory knows");
        self.home = 1 - self.home;
        self.begin_copy();
        // The guest runs on meanwhile.
        self.copy();
        self.write(5, 3, 99);
        while self.copied.is_some() {
            self.copy();
        }
        self.cut();
        self.commit();
        prop_assert!(content(self.standby()) == content(self.active()), "a host that has returned has another disk");
        Ok(())
    }

    /// What was not on the standby's medium is gone; it starts by its journal.
    fn power_cut(&mut self) -> Result<(), TestCaseError> {
        let Some(held) = self.committed.clone() else { return Ok(()) };
        let after = Write { disk: 0, offset: 0, content: Content::Data(self.on_medium.clone()) };
        self.standby().apply(&after).unwrap();
        let copy = self.folder.path().join("journal-after");
        fs::copy(self.journal_path(), &copy).unwrap();
        Journal::replay(&copy, &[Arc::clone(&self.images[1 - self.home])]).unwrap();
        prop_assert!(content(self.standby()) == held, "what was acknowledged is not on the medium");
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Write { page, pages, byte } => self.write(page, pages, byte),
            Step::Copy => self.copy(),
            Step::Cut => self.cut(),
            Step::Commit => self.commit(),
            Step::Sync if self.committed.is_some() => self.sync(),
            Step::Sync => {}
            Step::Die => return self.die(),
            Step::PowerCut => return self.power_cut(),
        }
        Ok(())
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..BYTES / PAGE, 1..20_u64, 0..4_u8).prop_map(|(page, pages, byte)| Step::Write { page, pages, byte }),
        4 => Just(Step::Copy),
        4 => Just(Step::Cut),
        3 => Just(Step::Commit),
        1 => Just(Step::Sync),
        1 => Just(Step::Die),
        1 => Just(Step::PowerCut),
    ];
    proptest::collection::vec(step, 10..60)
}

fn run(mistake: Option<Mistake>, cases: u32) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let check = |steps: Vec<Step>| {
        let mut world = World::new(mistake);
        steps.iter().try_for_each(|step| world.take(step))?;
        // However it ended: somebody dies.
        world.power_cut()?;
        world.die()
    };
    TestRunner::new(config).run(&steps(), check).map_err(|error| error.to_string())
}

#[test]
fn a_standby_has_what_was_committed_and_a_host_that_returns_has_the_same() {
    run(None, 150).unwrap();
}

#[test]
fn each_mistake_is_found() {
    for mistake in [
        Mistake::Reordered,
        Mistake::AppliedEarly,
        Mistake::LostWrite,
        Mistake::CutEarly,
        Mistake::NotNoted,
        Mistake::NotCompared,
        Mistake::JournalForgets,
    ] {
        assert!(run(Some(mistake), 300).is_err(), "{mistake:?} is not found");
    }
}
