use super::*;

#[test]
fn values_over_32_bits_keep_their_true_value_in_the_side_list() {
    let recorder = Recorder::new(4, true, 1_000_000_000, SampleClock::Tsc).unwrap();
    recorder.write_with_gap(0, 7, 11);
    recorder.write_with_gap(1, 1 << 40, u64::from(SATURATED));
    recorder.write_with_gap(2, 5, u64::from(SATURATED) - 1);
    let samples = recorder.into_samples();
    assert_eq!(samples.durations(), [11, SATURATED, SATURATED - 1]);
    assert_eq!(samples.gaps(), Some(&[7, SATURATED, 5][..]));
    assert_eq!(samples.saturated, [(1, u64::from(SATURATED))]);
    assert_eq!(samples.saturated_gaps, [(1, 1 << 40)]);
    assert_eq!(samples.lost, 0);
}

#[test]
fn a_full_side_list_is_counted_not_hidden() {
    let recorder = Recorder::new(100, false, 0, SampleClock::Tsc).unwrap();
    for index in 0..70 {
        recorder.write(index, 1 << 33);
    }
    let samples = recorder.into_samples();
    assert_eq!((samples.saturated.len(), samples.lost), (64, 6));
}

fn taken_away(keeping: Keeping, capacity: usize, limit: usize) -> Recorder {
    let taker = Taker { every_ns: 1, is_beside: keeping == Keeping::Beside, wake: Box::new(|| ()) };
    Recorder::new(capacity, false, 0, SampleClock::Tsc).unwrap().kept(keeping, limit, Arc::new(taker))
}

#[test]
fn a_ring_goes_on_while_the_other_half_is_taken_away() {
    let recorder = taken_away(Keeping::Beside, 8, 14);
    recorder.start(1, 1_000);
    let mut seen = Vec::new();
    let (mut index, mut end) = (0, recorder.room());
    loop {
        while index < end {
            recorder.write(index, 100 + index as u64);
            index += 1;
        }
        let taken = seen.len();
        seen.extend(recorder.copy(taken..index).durations);
        recorder.take(index);
        match recorder.next(index, 10) {
            Next::Go(room) => end = room,
            Next::Resume(_) => panic!("nobody had to wait"),
            Next::Stop => break,
        }
    }
    assert_eq!(seen, (100..114).collect::<Vec<u32>>());
    assert!(recorder.pauses().is_empty());
}

#[test]
fn a_ring_that_nobody_empties_waits_and_the_wait_is_a_pause() {
    let recorder = taken_away(Keeping::Beside, 4, usize::MAX);
    recorder.start(1, 1_000);
    (0..2).for_each(|index| recorder.write(index, 5));
    assert_eq!(recorder.next(2, 10), Next::Go(4));
    (2..4).for_each(|index| recorder.write(index, 6));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !recorder.is_waiting() {
                std::thread::yield_now();
            }
            assert!(recorder.is_paused());
            recorder.take(2);
        });
        assert_eq!(recorder.next(4, 10), Next::Resume(6));
    });
    recorder.resumed(4, 70, 90);
    recorder.write(4, 7);
    assert_eq!(recorder.copy(2..5).durations, [6, 6, 7]);
    assert_eq!((recorder.pauses(), recorder.deadline()), (vec![(4, 70)], 1_070));
}

#[test]
fn a_pause_puts_off_the_end_and_the_next_pause() {
    let recorder = taken_away(Keeping::Pausing { every: 100 }, 10, usize::MAX);
    recorder.start(1_000, 2_000);
    assert_eq!(recorder.deadline(), 1_100);
    recorder.write(0, 100);
    recorder.take(1);
    assert_eq!(recorder.next(1, 1_100), Next::Resume(11));
    recorder.resumed(1, 50, 1_150);
    assert_eq!(recorder.deadline(), 1_250);
    recorder.write(1, 100);
    assert_eq!(recorder.copy(1..2).durations, [100]);
    assert_eq!(recorder.next(2, 2_050), Next::Stop);
}

#[test]
fn a_writer_that_waits_is_stopped() {
    let recorder = taken_away(Keeping::Pausing { every: 100 }, 10, usize::MAX);
    recorder.start(1_000, 2_000);
    recorder.write(0, 100);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !recorder.is_waiting() {
                std::thread::yield_now();
            }
            recorder.stop();
        });
        assert_eq!(recorder.next(1, 1_100), Next::Stop);
    });
}
