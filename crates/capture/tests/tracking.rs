//! The preloaded library and the trackers, on a child that writes a shared mapping as it is told. No QEMU is needed.
//!
//! The child is this test program once more: only then are its mapping, its writes and its environment ours to choose.

#![allow(clippy::unwrap_used)] // of what the test itself made up

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use stealtime_capture::{
    HandoverError, PAGE_BYTES, PageRange, QemuProcess, RamFile, Reception, Rights, StagedPages, TrackedMemory,
    TrackerKind, UserfaultTracker, WriteTracker, choose_tracker, handover,
};

const PAGES: u64 = 4096;
const CHILD_VARIABLE: &str = "STEALTIME_TEST_CHILD";

/// A process with the library in it, that writes pages of `ram` when told to.
struct Writer {
    ram: Arc<RamFile>,
    process: QemuProcess,
    control: UnixStream,
    reception: Option<Reception>,
    _folder: tempfile::TempDir,
}

/// What the child is told: to write a page in a certain way, or something else.
#[derive(Copy, Clone)]
enum Order {
    /// A store to the mapping.
    Store = 1,
    /// A system call that writes to the mapping.
    ReadCall = 2,
    /// Show the environment of a child of its own.
    ShowEnvironment = 3,
    /// Change pages and change them back, until told to rest.
    Run = 4,
    /// Write no more.
    Rest = 5,
}

/// How the child writes while it runs: the first byte of one of these pages, by turns to each of these values.
const BUSY_PAGES: u64 = 256;
const BUSY_VALUES: u64 = 3;

fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let folders = program.ancestors().skip(1).take(2);
    let mut candidates = folders.map(|folder| folder.join("libstealtime_pagetrack.so"));
    candidates.find(|path| path.is_file()).expect("cargo builds the library before these tests")
}

impl Writer {
    fn start(preload: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ram = Arc::new(RamFile::anonymous("test", PAGES * PAGE_BYTES as u64).unwrap());
        let (control, control_of_child) = UnixStream::pair().unwrap();
        let (reception, report_socket) = Reception::pair().unwrap();
        let ram_of_child = ram.as_fd().try_clone_to_owned().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]);
        command.env(CHILD_VARIABLE, format!("{} {}", ram_of_child.as_raw_fd(), control_of_child.as_raw_fd()));
        let (device, inode) = ram.identity().unwrap();
        command.env(handover::FILE_VARIABLE, format!("{device}:{inode}"));
        command.env(handover::SOCKET_VARIABLE, report_socket.as_raw_fd().to_string());
        if preload {
            command.env("LD_PRELOAD", library());
        }
        let descriptors = vec![ram_of_child, control_of_child.into(), report_socket];
        let process = QemuProcess::spawn(command, descriptors, Rights::Same, &folder.path().join("log")).unwrap();
        let mut writer = Self { ram, process, control, reception: Some(reception), _folder: folder };
        writer.wait();
        writer
    }

    /// Wait until the child has done what it was told.
    fn wait(&mut self) {
        let mut done = [0];
        let answered = self.control.read_exact(&mut done).is_ok();
        assert!(answered, "the child ended: {:?} {}", self.process.kill(), self.process.log_tail());
    }

    fn tell(&mut self, order: Order, page: u64, value: u8) {
        let mut message = [order as u8; 10];
        message[1..9].copy_from_slice(&page.to_ne_bytes());
        message[9] = value;
        self.control.write_all(&message).unwrap();
    }

    fn order(&mut self, order: Order) {
        self.tell(order, 0, 0);
        self.wait();
    }

    fn write(&mut self, how: Order, page: u64, value: u8) {
        self.tell(how, page, value);
        self.wait();
    }

    /// What the child's own child sees of the environment.
    fn environment_of_grandchild(&mut self) -> String {
        self.tell(Order::ShowEnvironment, 0, 0);
        let mut length = [0; 8];
        self.control.read_exact(&mut length).unwrap();
        let mut text = vec![0; usize::try_from(u64::from_ne_bytes(length)).unwrap()];
        self.control.read_exact(&mut text).unwrap();
        self.wait();
        String::from_utf8(text).unwrap()
    }

    fn conclude(&mut self) -> Result<stealtime_capture::Handover, HandoverError> {
        self.reception.take().unwrap().conclude("the library", self.ram.len_bytes())
    }

    fn tracker(&mut self) -> UserfaultTracker {
        let handover = self.conclude().unwrap();
        UserfaultTracker::new(handover, self.process.pid()).unwrap()
    }
}

/// Runs in the child only; as a test of the parent's it has nothing to do.
#[test]
fn child() {
    let Ok(numbers) = std::env::var(CHILD_VARIABLE) else {
        eprintln!("skipped: the process that the other tests start");
        return;
    };
    let (ram, control) = numbers.split_once(' ').unwrap();
    let open = |number: &str| {
        // SAFETY: the parent lets these be inherited for this, and nothing else here uses them.
        unsafe { OwnedFd::from_raw_fd(number.parse().unwrap()) }
    };
    let (ram, mut control) = (open(ram), UnixStream::from(open(control)));
    let bytes = usize::try_from(PAGES).unwrap() * PAGE_BYTES;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice. This is the C library's call, which the library wraps.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, ram.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED);
    let start_address = start.expose_provenance();
    let store = move |page: u64, value: u8| {
        let offset = usize::try_from(page).unwrap() * PAGE_BYTES;
        // SAFETY: the page lies in the mapping, which stays until the process ends.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(start_address + offset).write_volatile(value) };
    };
    let random = std::fs::File::open("/dev/urandom").unwrap();
    let is_running = Arc::new(AtomicBool::new(false));
    let mut busy = None;
    loop {
        control.write_all(&[0]).unwrap();
        let mut order = [0; 10];
        if control.read_exact(&mut order).is_err() {
            break;
        }
        let page = u64::from_ne_bytes(order[1..9].try_into().unwrap());
        match order[0] {
            1 => store(page, order[9]),
            2 => {
                let page = usize::try_from(page).unwrap();
                // SAFETY: as above; the kernel writes 16 bytes.
                let read = unsafe { libc::read(random.as_raw_fd(), start.add(page * PAGE_BYTES), 16) };
                assert_eq!(read, 16);
            }
            4 => {
                is_running.store(true, Ordering::Relaxed);
                let is_running = Arc::clone(&is_running);
                busy = Some(std::thread::spawn(move || {
                    let mut numbers = Numbers(2);
                    while is_running.load(Ordering::Relaxed) {
                        let page = numbers.below(BUSY_PAGES) * (PAGES / BUSY_PAGES);
                        store(page, u8::try_from(numbers.below(BUSY_VALUES)).unwrap());
                    }
                }));
            }
            5 => {
                is_running.store(false, Ordering::Relaxed);
                if let Some(busy) = busy.take() {
                    busy.join().unwrap();
                }
            }
            _ => {
                let output = Command::new("sh").args(["-c", "env; ls -l /proc/self/fd"]).output().unwrap();
                control.write_all(&(output.stdout.len() as u64).to_ne_bytes()).unwrap();
                control.write_all(&output.stdout).unwrap();
            }
        }
    }
}

/// Numbers that look random and are the same each time (splitmix64, Steele, Lea and Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % end
    }
}

fn collect(tracker: &mut dyn WriteTracker) -> Vec<PageRange> {
    let mut written = Vec::new();
    tracker.collect(&mut written).unwrap();
    written
}

/// A copy of a writer's memory, as a standby has it: whatever was staged, applied in order.
struct Copying {
    writer: Writer,
    tracked: TrackedMemory,
    copy: RamFile,
    next: u64,
}

/// Pages of a part of the full copy.
const PART_PAGES: u64 = 512;

impl Copying {
    /// Of a writer that is tracked in this way; or why that does not work here.
    fn by(kind: TrackerKind) -> Result<Self, String> {
        let mut writer = Writer::start(kind == TrackerKind::Userfault);
        let handover = writer.conclude();
        let choice = choose_tracker(Some(kind), &writer.ram, writer.process.pid(), handover);
        if let Some(refusal) = choice.refused.first() {
            return Err(refusal.reason.clone());
        }
        assert_eq!(choice.kind, kind);
        let tracked = TrackedMemory::new(Arc::clone(&writer.ram), choice.tracker);
        let copy = RamFile::anonymous("copy", writer.ram.len_bytes()).unwrap();
        Ok(Self { writer, tracked, copy, next: 0 })
    }

    fn begin(&mut self) {
        self.tracked.arm().unwrap();
        self.next = 0;
    }

    /// Copy the next part of all memory; tells whether there was one.
    fn part(&mut self) -> bool {
        let first = self.next;
        self.next = (first + PART_PAGES).min(PAGES);
        if first < PAGES {
            self.take(&[PageRange { first, count: self.next - first }]);
        }
        first < PAGES
    }

    fn round(&mut self) {
        let mut written = Vec::new();
        self.tracked.collect(&mut written).unwrap();
        self.take(&written);
    }

    fn take(&mut self, ranges: &[PageRange]) {
        let mut staged = StagedPages::default();
        self.tracked.stage(ranges, &mut staged).unwrap();
        for (index, page) in staged.iter() {
            self.copy.write_page(index, page).unwrap();
        }
    }

    /// The pages of the copy that are not as the writer's, which rests.
    fn differing(&self) -> Vec<u64> {
        let mut page = Vec::new();
        let differs = |&index: &u64| {
            page.clear();
            self.writer.ram.copy_page_into(index, &mut page).unwrap();
            !self.copy.page_equals(index, page.first_chunk().unwrap()).unwrap()
        };
        (0..PAGES).filter(differs).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write {
        page: u64,
        value: u8,
    },
    /// The next part of the full copy; when that is complete, what was written since.
    Copy,
    /// An epoch: here the copy must be whole.
    Epoch,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few pages, in all parts, and few values: so they are often as they were before.
    let write = (0..16_u64, 0..3_u8).prop_map(|(page, value)| Step::Write { page: page * PAGES / 16, value });
    prop::collection::vec(prop_oneof![4 => write, 3 => Just(Step::Copy), 1 => Just(Step::Epoch)], 1..60)
}

/// Whatever the writer does between and during the steps of a copy, an epoch makes it whole.
fn each_epoch_makes_the_copy_whole(kind: TrackerKind) {
    let mut copying = match Copying::by(kind) {
        Ok(copying) => copying,
        Err(reason) => return assert_refused_for_good(kind, &reason),
    };
    let mut runner = TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
    let copying = std::cell::RefCell::new(&mut copying);
    let outcome = runner.run(&steps(), |steps| {
        let mut copying = copying.borrow_mut();
        copying.begin();
        for step in steps.into_iter().chain([Step::Epoch]) {
            match step {
                Step::Write { page, value } => copying.writer.write(Order::Store, page, value),
                Step::Copy => {
                    if !copying.part() {
                        copying.round();
                    }
                }
                Step::Epoch => {
                    while copying.part() {}
                    copying.round();
                    prop_assert_eq!(copying.differing(), [0_u64; 0], "{:?}", kind);
                }
            }
        }
        Ok(())
    });
    outcome.unwrap();
}

/// The same of a writer that does not wait for the copy's steps: it rests for each epoch only.
fn a_copy_of_a_busy_writer_is_whole(kind: TrackerKind) {
    let mut copying = match Copying::by(kind) {
        Ok(copying) => copying,
        Err(reason) => return assert_refused_for_good(kind, &reason),
    };
    for _ in 0..20 {
        copying.writer.order(Order::Run);
        copying.begin();
        while copying.part() {}
        for _ in 0..10 {
            let must_rest = copying.tracked.collects_at_standstill_only();
            let mut written = Vec::new();
            if must_rest {
                copying.writer.order(Order::Rest);
            }
            copying.tracked.collect(&mut written).unwrap();
            if must_rest {
                copying.writer.order(Order::Run);
            }
            copying.take(&written);
        }
        for _ in 0..5 {
            copying.writer.order(Order::Rest);
            copying.round();
            assert_eq!(copying.differing(), [0_u64; 0], "{kind:?}");
            copying.writer.order(Order::Run);
        }
        copying.writer.order(Order::Rest);
    }
}

/// The kernel finds more runs of pages than it takes at a time (512), and pages are written meanwhile.
#[test]
fn what_is_found_while_pages_are_written_is_in_order() {
    let mut writer = Writer::start(true);
    let mut tracker = writer.tracker();
    tracker.arm().unwrap();
    writer.order(Order::Run);
    for round in 0..50 {
        for page in (0..PAGES).step_by(5) {
            writer.write(Order::Store, page, round);
        }
        let mut written = Vec::new();
        tracker.collect(&mut written).unwrap();
        assert!(written.len() > 512, "{} runs of pages", written.len());
        let is_ordered = written.windows(2).all(|pair| pair[0].end() <= pair[1].first);
        assert!(is_ordered, "round {round}: {written:?}");
    }
    writer.order(Order::Rest);
}

/// Only the kernel may keep a tracker from being tested.
fn assert_refused_for_good(kind: TrackerKind, reason: &str) {
    assert_eq!(kind, TrackerKind::SoftDirty, "{reason}");
    let known = ["CONFIG_MEM_SOFT_DIRTY", "soft-dirty bit does not tell", "swap is on", "huge pages are on"];
    assert!(known.iter().any(|part| reason.contains(part)), "{reason}");
    eprintln!("skipped: soft-dirty: {reason}");
}

macro_rules! for_each_tracker {
    ($($module:ident: $kind:ident),*) => {$(
        mod $module {
            use super::TrackerKind::$kind;

            #[test]
            fn each_epoch_makes_the_copy_whole() {
                super::each_epoch_makes_the_copy_whole($kind);
            }

            #[test]
            fn a_copy_of_a_busy_writer_is_whole() {
                super::a_copy_of_a_busy_writer_is_whole($kind);
            }
        }
    )*};
}

for_each_tracker!(userfault: Userfault, soft_dirty: SoftDirty, shadow: Shadow);

#[test]
fn userfault_tells_exactly_the_pages_that_were_written() {
    let mut writer = Writer::start(true);
    let mut tracker = writer.tracker();
    tracker.arm().unwrap();
    let mut numbers = Numbers(1);
    for epoch in 0..50 {
        let mut pages = std::collections::BTreeSet::new();
        for _ in 0..numbers.below(60) {
            let page = numbers.below(PAGES);
            let how = if numbers.below(4) == 0 { Order::ReadCall } else { Order::Store };
            writer.write(how, page, 1);
            pages.insert(page);
        }
        let written = collect(&mut tracker);
        let told: Vec<u64> = written.iter().flat_map(|range| range.indices()).collect();
        assert_eq!(told, pages.into_iter().collect::<Vec<_>>(), "epoch {epoch}");
    }
}

#[test]
fn a_scan_goes_on_where_its_room_ended() {
    let mut writer = Writer::start(true);
    let mut tracker = writer.tracker();
    tracker.arm().unwrap();
    // Every second page is a region of its own, so one call has not room for all.
    let pages: Vec<u64> = (0..PAGES).step_by(2).collect();
    for &page in &pages {
        writer.write(Order::Store, page, 1);
    }
    let told: Vec<u64> = collect(&mut tracker).iter().flat_map(|range| range.indices()).collect();
    assert_eq!(told, pages);
    assert_eq!(collect(&mut tracker), []);
}

#[test]
fn children_of_the_process_see_nothing_of_the_library() {
    let mut writer = Writer::start(true);
    let seen = writer.environment_of_grandchild();
    assert!(seen.contains(CHILD_VARIABLE), "the rest of the environment stays: {seen}");
    for name in ["LD_PRELOAD", handover::FILE_VARIABLE, handover::SOCKET_VARIABLE] {
        assert!(!seen.contains(name), "{name} is left in: {seen}");
    }
    let mut tracker = writer.tracker();
    tracker.arm().unwrap();
    writer.write(Order::Store, 5, 1);
    assert_eq!(collect(&mut tracker), [PageRange { first: 5, count: 1 }]);
}

#[test]
fn without_the_library_the_next_tracker_is_taken_by_name() {
    let mut writer = Writer::start(false);
    let handover = writer.conclude();
    assert!(matches!(handover, Err(HandoverError::NotLoaded { .. })), "{handover:?}");
    let choice = choose_tracker(None, &writer.ram, writer.process.pid(), handover);
    assert_eq!(choice.refused[0].tracker, TrackerKind::Userfault);
    assert!(choice.refused[0].reason.contains("was not loaded"), "{:?}", choice.refused);
    assert_eq!(choice.tracker.name(), choice.kind.name());
}

#[test]
fn a_process_that_is_gone_is_an_error_and_not_an_empty_answer() {
    let mut writer = Writer::start(true);
    let mut tracker = writer.tracker();
    tracker.arm().unwrap();
    writer.process.kill().unwrap();
    assert!(tracker.arm().is_err());
    assert!(tracker.collect(&mut Vec::new()).is_err());
}
