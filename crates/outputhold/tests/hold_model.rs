//! The hold against a plain model: a list of frames, each with its epoch.

use std::time::Duration;

use proptest::prelude::*;
use stealtime_outputhold::{BypassRules, Delivery, Hold, HoldError, HoldLimits, Progress, ReleasedEpoch, Verdict};
use stealtime_succession::{Epoch, OutputPolicy};

#[derive(Clone, Debug)]
enum Operation {
    Accept {
        length: usize,
    },
    Cut {
        step: u64,
    },
    Acknowledge {
        through: u64,
    },
    /// Release, where the port takes so many frames and refuses each whose number is a multiple of this.
    Release {
        room: usize,
        refused_multiple: u32,
    },
    SetPolicy(OutputPolicy),
    Discard,
}

const POLICIES: [OutputPolicy; 6] = [
    OutputPolicy::Hold,
    OutputPolicy::Hold,
    OutputPolicy::HoldFromCut,
    OutputPolicy::Free,
    OutputPolicy::Keep,
    OutputPolicy::Discard,
];

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => (4_usize..200).prop_map(|length| Operation::Accept { length }),
        4 => (0_u64..3).prop_map(|step| Operation::Cut { step }),
        4 => (0_u64..25).prop_map(|through| Operation::Acknowledge { through }),
        6 => (0_usize..12, 3_u32..9).prop_map(|(room, refused_multiple)| Operation::Release { room, refused_multiple }),
        1 => prop::sample::select(&POLICIES[..]).prop_map(Operation::SetPolicy),
        1 => Just(Operation::Discard),
    ]
}

/// What the hold must do, written for reading.
struct Model {
    policy: OutputPolicy,
    /// Number, length, and epoch if it was cut.
    waiting: Vec<(u32, usize, Option<u64>)>,
    /// Epochs that were cut and are not finished.
    unfinished: Vec<u64>,
    last_cut: u64,
    acknowledged: u64,
}

impl Model {
    fn is_free(&self) -> bool {
        self.policy == OutputPolicy::Free || self.policy == OutputPolicy::HoldFromCut
    }

    fn may_leave(&self, epoch: Option<u64>) -> bool {
        let is_acknowledged = epoch.is_some_and(|epoch| epoch <= self.acknowledged);
        self.is_free() || (self.policy == OutputPolicy::Hold && is_acknowledged)
    }

    /// The numbers that a release with this much room lets out, and the epochs that it finishes.
    fn release(&mut self, room: usize, refused_multiple: u32) -> (Vec<u32>, Vec<u64>) {
        let mut left = Vec::new();
        let mut finished = Vec::new();
        let mut room = room;
        loop {
            let front = self.waiting.first().copied();
            let epoch_done = self
                .unfinished
                .first()
                .copied()
                .filter(|epoch| self.may_leave(Some(*epoch)) && front.is_none_or(|(_, _, of)| of != Some(*epoch)));
            if let Some(epoch) = epoch_done {
                self.unfinished.remove(0);
                finished.push(epoch);
                continue;
            }
            match front {
                Some((number, _, epoch)) if self.may_leave(epoch) && room > 0 => {
                    room -= 1;
                    self.waiting.remove(0);
                    if !number.is_multiple_of(refused_multiple) {
                        left.push(number);
                    }
                }
                _ => return (left, finished),
            }
        }
    }
}

fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = number.to_be_bytes().to_vec();
    frame.resize(length, 0xa5);
    frame
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.first_chunk().unwrap())
}

fn release_from(hold: &mut Hold, room: usize, refused_multiple: u32) -> (Vec<u32>, Vec<u64>) {
    let mut left = Vec::new();
    let mut finished = Vec::new();
    let mut room = room;
    loop {
        let progress = hold.release(Duration::ZERO, |frame| {
            if room == 0 {
                return Delivery::Blocked;
            }
            room -= 1;
            if number_of(frame).is_multiple_of(refused_multiple) {
                return Delivery::Refused;
            }
            left.push(number_of(frame));
            Delivery::Delivered
        });
        match progress {
            Progress::Finished(ReleasedEpoch { epoch, .. }) => finished.push(epoch.0),
            Progress::Blocked | Progress::Idle => return (left, finished),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_hold_does_what_a_plain_list_does(operations in prop::collection::vec(operation(), 1..100)) {
        let limits = HoldLimits { bytes: 2000, frames: 20 };
        let mut hold = Hold::new(limits, BypassRules::default(), OutputPolicy::Hold);
        let mut model = Model {
            policy: OutputPolicy::Hold,
            waiting: Vec::new(),
            unfinished: Vec::new(),
            last_cut: 0,
            acknowledged: 0,
        };
        let mut next_number = 1;
        for operation in operations {
            match operation {
                Operation::Accept { length } => {
                    let number = next_number;
                    next_number += 1;
                    let verdict = hold.accept(&frame(number, length), Duration::ZERO);
                    let expected = match model.policy {
                        OutputPolicy::Discard => Verdict::Dropped,
                        _ if model.is_free() && model.waiting.is_empty() => Verdict::Passes,
                        _ => Verdict::Held,
                    };
                    prop_assert_eq!(verdict, expected);
                    match expected {
                        Verdict::Held => model.waiting.push((number, length, None)),
                        Verdict::Passes => hold.count_passed(&frame(number, length)),
                        Verdict::Dropped => {}
                    }
                }
                Operation::Cut { step } => {
                    let epoch = model.last_cut + step;
                    let cut = hold.cut(Epoch(epoch), Duration::ZERO);
                    if step == 0 {
                        let last = Epoch(model.last_cut);
                        prop_assert_eq!(cut, Err(HoldError::CutOutOfOrder { last, wanted: last }));
                    } else {
                        let mut frames = 0;
                        for waiting in model.waiting.iter_mut().filter(|waiting| waiting.2.is_none()) {
                            waiting.2 = Some(epoch);
                            frames += 1;
                        }
                        prop_assert_eq!(cut.map(|cut| cut.frames), Ok(frames));
                        model.last_cut = epoch;
                        if model.policy == OutputPolicy::HoldFromCut {
                            model.policy = OutputPolicy::Hold;
                        }
                        model.unfinished.push(epoch);
                    }
                }
                Operation::Acknowledge { through } => {
                    let known = through <= model.last_cut;
                    prop_assert_eq!(hold.acknowledge(Epoch(through)).is_ok(), known);
                    if known {
                        model.acknowledged = model.acknowledged.max(through);
                    }
                }
                Operation::Release { room, refused_multiple } => {
                    let expected = model.release(room, refused_multiple);
                    prop_assert_eq!(release_from(&mut hold, room, refused_multiple), expected);
                }
                Operation::SetPolicy(policy) => {
                    hold.set_policy(policy);
                    model.policy = policy;
                    if policy == OutputPolicy::Discard {
                        model.waiting.clear();
                        model.unfinished.clear();
                    }
                }
                Operation::Discard => {
                    prop_assert_eq!(hold.discard(), model.waiting.len());
                    model.waiting.clear();
                    model.unfinished.clear();
                }
            }
            let bytes: usize = model.waiting.iter().map(|(_, length, _)| length).sum();
            prop_assert_eq!((hold.frames(), hold.bytes()), (model.waiting.len(), bytes));
            prop_assert_eq!(hold.is_full(), bytes >= limits.bytes || model.waiting.len() >= limits.frames);
            let next_may_leave = match (model.unfinished.first(), model.waiting.first()) {
                (Some(epoch), _) => model.may_leave(Some(*epoch)),
                (None, Some((_, _, epoch))) => model.may_leave(*epoch),
                (None, None) => false,
            };
            prop_assert_eq!(hold.has_releasable(), next_may_leave);
        }
        let counted = hold.statistics();
        let fates = [counted.released, counted.passed, counted.dropped, counted.refused];
        let known: u64 = fates.iter().map(|fate| fate.frames).sum::<u64>() + counted.held_frames as u64;
        prop_assert_eq!(known, counted.accepted.frames);
    }
}

#[test]
fn several_epochs_wait_and_one_acknowledgement_releases_all_before_it() {
    let mut hold = Hold::new(HoldLimits::default(), BypassRules::default(), OutputPolicy::Hold);
    for epoch in 1..=4 {
        hold.accept(&frame(epoch, 60), Duration::ZERO);
        hold.cut(Epoch(u64::from(epoch)), Duration::ZERO).unwrap();
    }
    hold.accept(&frame(5, 60), Duration::ZERO);
    assert_eq!(release_from(&mut hold, 100, 1000), (vec![], vec![]), "nothing is acknowledged");
    hold.acknowledge(Epoch(3)).unwrap();
    assert_eq!(release_from(&mut hold, 100, 1000), (vec![1, 2, 3], vec![1, 2, 3]));
    hold.acknowledge(Epoch(2)).unwrap();
    assert_eq!(hold.acknowledged(), Epoch(3), "an older acknowledgement takes nothing back");
    assert_eq!(hold.frames(), 2);
}

#[test]
fn an_acknowledgement_of_what_was_never_cut_is_refused_and_changes_nothing() {
    let mut hold = Hold::new(HoldLimits::default(), BypassRules::default(), OutputPolicy::Hold);
    hold.accept(&frame(1, 60), Duration::ZERO);
    hold.cut(Epoch(7), Duration::ZERO).unwrap();
    let refused = hold.acknowledge(Epoch(8)).unwrap_err();
    assert_eq!(refused.to_string(), "epoch 8 was acknowledged, but the output was cut at epoch 7 at the latest");
    assert_eq!(release_from(&mut hold, 100, 1000), (vec![], vec![]));
}

#[test]
fn held_times_run_from_acceptance_to_release_and_epochs_from_their_cut() {
    let mut hold = Hold::new(HoldLimits::default(), BypassRules::default(), OutputPolicy::Hold);
    for (number, at_ms) in [(1, 0), (2, 40), (3, 90)] {
        hold.accept(&frame(number, 60), Duration::from_millis(at_ms));
    }
    hold.cut(Epoch(1), Duration::from_millis(100)).unwrap();
    hold.acknowledge(Epoch(1)).unwrap();
    let progress = hold.release(Duration::from_millis(110), |_| Delivery::Delivered);
    let expected = ReleasedEpoch { epoch: Epoch(1), frames: 3, bytes: 180, since_cut: Duration::from_millis(10) };
    assert_eq!(progress, Progress::Finished(expected));
    let held = hold.statistics().held_time;
    assert_eq!((held.count, held.sum_ns, held.max_ns), (3, 200_000_000, 110_000_000));
    // 70 ms is the middle one; two significant digits.
    assert!((69_000_000..=71_000_000).contains(&held.median_ns), "{held:?}");
}
