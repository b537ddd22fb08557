use std::collections::{BTreeSet, VecDeque};

use stealtime_wire::{DiskOperation, DiskOrder};

use super::transfers::{measure, warm_up};
use super::*;
use crate::clock::{TscRate, time_stamp_counter};
use crate::further::FurtherColumns;
use crate::recorder::Recorder;
use crate::side_list::SideList;

/// So that a cycle is a nanosecond, whatever the processor does.
fn rate() -> TscRate {
    TscRate { hz: 1e9, source: "made up".to_owned() }
}

fn disk(depth: u32, interval_ns: Option<u64>) -> Disk {
    Disk {
        target: DiskTarget::Given { path: String::new(), overwrite: false },
        operation: DiskOperation::Read,
        order: DiskOrder::Random,
        block_bytes: 4096,
        depth,
        interval_ns,
        span_bytes: None,
        seed: 1,
        engine: None,
    }
}

fn recorder(capacity: usize) -> Recorder {
    let further = FurtherColumns::new(2, capacity, 0).unwrap();
    let recorder = Recorder::new(capacity, true, 0, SampleClock::Tsc).unwrap();
    recorder.with(further, SideList::for_requests(capacity, 0))
}

/// Ends every transfer as soon as somebody waits for it, but none while it stalls.
#[derive(Default)]
struct Device {
    under_way: VecDeque<usize>,
    offsets: BTreeSet<u64>,
    offset_of: std::collections::BTreeMap<usize, u64>,
    stalls: Option<(u64, u64)>,
    most_under_way: usize,
    result: Option<i32>,
    is_awaited: bool,
}

impl Engine for Device {
    fn prepare(&mut self, number: usize, offset: u64) {
        assert!(self.offsets.insert(offset), "two transfers of one block at a time");
        self.offset_of.insert(number, offset);
        self.under_way.push_back(number);
        self.most_under_way = self.most_under_way.max(self.under_way.len());
    }

    fn submit(&mut self, least: usize, _timeout_ns: u64) -> io::Result<()> {
        self.is_awaited = least > 0;
        Ok(())
    }

    fn next_ended(&mut self) -> Option<(usize, i32)> {
        let now = time_stamp_counter();
        if !self.is_awaited || self.stalls.is_some_and(|(from, to)| (from..to).contains(&now)) {
            return None;
        }
        let number = self.under_way.pop_front()?;
        self.offsets.remove(&self.offset_of[&number]);
        Some((number, self.result.unwrap_or(4096)))
    }
}

fn order(disk: &Disk) -> Order {
    Order::new(disk, 0, 64)
}

#[test]
fn an_open_loop_has_a_sample_for_each_transfer_that_was_due_while_the_disk_stalled() {
    const INTERVAL: u64 = 20_000;
    const COUNT: u64 = 500;
    let (disk, recorder) = (disk(4, Some(INTERVAL)), recorder(10_000));
    let now = time_stamp_counter();
    let stalls = Some((now + 2_000_000, now + 5_000_000));
    let mut device = Device { stalls, ..Device::default() };
    let counts = measure(&mut device, &disk, &mut order(&disk), &recorder, (&rate(), INTERVAL * COUNT)).unwrap();
    let origin = recorder.origin();
    let rows = recorder.copy(0..recorder.len());
    let mut ended = origin;
    let due: BTreeSet<u64> = (rows.gaps.unwrap().iter().zip(&rows.durations))
        .map(|(&gap, &duration)| {
            ended += u64::from(gap);
            ended - u64::from(duration) - origin
        })
        .collect();
    let left = counts.not_started;
    let expected: BTreeSet<u64> = (0..COUNT - left).map(|number| number * INTERVAL).collect();
    assert_eq!(due, expected);
    assert!(rows.further[0].iter().any(|&wait| u64::from(wait) > INTERVAL), "some waited for the depth");
    assert_eq!(device.most_under_way, 4);
}

#[test]
fn a_closed_loop_keeps_its_depth_and_hands_over_what_ends() {
    let (disk, recorder) = (disk(8, None), recorder(1_000));
    let mut device = Device::default();
    measure(&mut device, &disk, &mut order(&disk), &recorder, (&rate(), 1 << 50)).unwrap();
    let rows = recorder.copy(0..1_000);
    assert_eq!((recorder.len(), device.most_under_way), (1_000, 8));
    assert!(rows.further[0].iter().all(|&wait| wait == 0));
    assert!(rows.further[1].iter().collect::<BTreeSet<_>>().len() > 32, "blocks are drawn");
}

#[test]
fn transfers_that_fail_are_counted_and_are_no_samples() {
    let (disk, recorder) = (disk(2, None), recorder(10));
    let mut device = Device { result: Some(-libc::EIO), ..Device::default() };
    let counts = measure(&mut device, &disk, &mut order(&disk), &recorder, (&rate(), 1_000_000)).unwrap();
    assert!(recorder.is_empty() && counts.errors > 0);
    let told = failed(&counts).unwrap();
    assert!(told.level == FindingLevel::Invalidates && told.text.contains("Input/output error"), "{}", told.text);
    let error = warm_up(&mut device, &disk, &mut order(&disk), 0..1 << 40).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
}

#[test]
fn sequential_blocks_go_round() {
    let sequential = Disk { order: DiskOrder::Sequential, ..disk(2, None) };
    let recorder = recorder(130);
    measure(&mut Device::default(), &sequential, &mut order(&sequential), &recorder, (&rate(), 1 << 50)).unwrap();
    let blocks = &recorder.copy(0..130).further[1];
    let expected: Vec<u32> = (0..130).map(|index| index % 64).collect();
    assert_eq!(blocks, &expected);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let refused = |disk: &Disk| disk.validate(1_000_000_000).unwrap_err().to_string();
    assert!(disk(1, None).validate(1).is_ok());
    assert!(refused(&disk(0, None)).starts_with("depth = 0"));
    assert!(refused(&disk(1, Some(999))).starts_with("interval_ns = 999"));
    assert!(refused(&Disk { block_bytes: 1_000, ..disk(1, None) }).contains("a multiple of 512"));
    let small = DiskTarget::Scratch { folder: String::new(), bytes: 4096 };
    assert!(refused(&Disk { target: small, ..disk(2, None) }).starts_with("bytes = 4096"));
}
