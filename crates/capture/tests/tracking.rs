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

use stealtime_capture::{
    HandoverError, PAGE_BYTES, PageRange, QemuProcess, RamFile, Reception, ShadowCompare, TrackerKind,
    UserfaultTracker, WriteTracker, choose_tracker, handover,
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

/// What the child is told: how, and which page.
#[derive(Copy, Clone)]
enum HowToWrite {
    /// A store to the mapping.
    Store = 1,
    /// A system call that writes to the mapping.
    ReadCall = 2,
}

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
        let process = QemuProcess::spawn(command, descriptors, &folder.path().join("log")).unwrap();
        let mut writer = Self { ram, process, control, reception: Some(reception), _folder: folder };
        writer.wait();
        writer
    }

    /// Wait until the child has done what it was told.
    fn wait(&mut self) {
        let mut done = [0];
        let answered = self.control.read_exact(&mut done).is_ok();
        assert!(answered, "the child ended: {:?} {}", self.process.kill(), self.process.last_words());
    }

    fn write(&mut self, how: HowToWrite, page: u64) {
        let mut order = [how as u8; 9];
        order[1..].copy_from_slice(&page.to_ne_bytes());
        self.control.write_all(&order).unwrap();
        self.wait();
    }

    /// What the child's own child sees of the environment.
    fn environment_of_grandchild(&mut self) -> String {
        self.control.write_all(&[3; 9]).unwrap();
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
    let Ok(numbers) = std::env::var(CHILD_VARIABLE) else { return };
    let (ram, control) = numbers.split_once(' ').unwrap();
    let open = |number: &str| {
        // SAFETY: the parent lets these be inherited for this, and nothing else here uses them.
        unsafe { OwnedFd::from_raw_fd(number.parse().unwrap()) }
    };
    let (ram, mut control) = (open(ram), UnixStream::from(open(control)));
    let bytes = usize::try_from(PAGES).unwrap() * PAGE_BYTES;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place of the kernel's choice. This is the C library's call, which the library wraps.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, ram.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED);
    let mut count = 0_u8;
    let random = std::fs::File::open("/dev/urandom").unwrap();
    loop {
        control.write_all(&[0]).unwrap();
        let mut order = [0; 9];
        if control.read_exact(&mut order).is_err() {
            return;
        }
        count = count.wrapping_add(1);
        let page = usize::try_from(u64::from_ne_bytes(order[1..].try_into().unwrap())).unwrap();
        match order[0] {
            // SAFETY: the page lies in the mapping.
            1 => unsafe { start.cast::<u8>().add(page * PAGE_BYTES + 7).write_volatile(count) },
            2 => {
                // SAFETY: as above; the kernel writes 16 bytes.
                let read = unsafe { libc::read(random.as_raw_fd(), start.add(page * PAGE_BYTES), 16) };
                assert_eq!(read, 16);
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

#[test]
fn the_oracle_finds_no_page_that_the_tracker_missed() {
    let mut writer = Writer::start(true);
    let mut tracker = writer.tracker();
    tracker.arm().unwrap();
    let mut oracle = ShadowCompare::new(Arc::clone(&writer.ram));
    oracle.arm().unwrap();
    let mut numbers = Numbers(1);
    for epoch in 0..50 {
        let mut pages = std::collections::BTreeSet::new();
        for _ in 0..numbers.below(60) {
            let page = numbers.below(PAGES);
            let how = if numbers.below(4) == 0 { HowToWrite::ReadCall } else { HowToWrite::Store };
            writer.write(how, page);
            pages.insert(page);
        }
        let written = collect(&mut tracker);
        let told: Vec<u64> = written.iter().flat_map(|range| range.indices()).collect();
        assert_eq!(
            told,
            pages.into_iter().collect::<Vec<_>>(),
            "epoch {epoch}: exactly the pages that were written"
        );
        assert_eq!(oracle.missed(&written).unwrap(), [0; 0], "epoch {epoch}");
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
        writer.write(HowToWrite::Store, page);
    }
    let told: Vec<u64> = collect(&mut tracker).iter().flat_map(|range| range.indices()).collect();
    assert_eq!(told, pages);
    assert_eq!(collect(&mut tracker), []);
}

#[test]
fn the_oracle_notices_a_range_that_is_dropped() {
    let mut writer = Writer::start(true);
    let mut tracker = writer.tracker();
    tracker.arm().unwrap();
    let mut oracle = ShadowCompare::new(Arc::clone(&writer.ram));
    oracle.arm().unwrap();
    for page in [10, 20, 30] {
        writer.write(HowToWrite::Store, page);
    }
    let mut written = collect(&mut tracker);
    written.remove(1);
    assert_eq!(oracle.missed(&written).unwrap(), [20]);
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
    writer.write(HowToWrite::Store, 5);
    assert_eq!(collect(&mut tracker), [PageRange { first: 5, count: 1 }]);
}

#[test]
fn without_the_library_the_next_tracker_is_taken_by_name_and_misses_nothing() {
    let mut writer = Writer::start(false);
    let handover = writer.conclude();
    assert!(matches!(handover, Err(HandoverError::NotLoaded { .. })), "{handover:?}");
    let mut choice = choose_tracker(None, &writer.ram, writer.process.pid(), handover);
    assert_eq!(choice.refused[0].tracker, TrackerKind::Userfault);
    assert!(choice.refused[0].reason.contains("was not loaded"), "{:?}", choice.refused);
    choice.tracker.arm().unwrap();
    for page in [0, 1, PAGES - 1] {
        writer.write(HowToWrite::Store, page);
    }
    let told: Vec<u64> = collect(choice.tracker.as_mut()).iter().flat_map(|range| range.indices()).collect();
    for page in [0, 1, PAGES - 1] {
        assert!(told.contains(&page), "{} missed page {page} of {told:?}", choice.tracker.name());
    }
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
