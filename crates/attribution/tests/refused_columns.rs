//! Columns that cannot be a trace or spikes are refused, by row and value.

use stealtime_attribution::{Spikes, Trace, TraceColumns, TraceError, World, attribute};

use crate::recording::{Recording, followed, unlabelled};

#[test]
fn columns_that_cannot_be_a_trace_are_refused() {
    let mut good = Recording::until(10);
    good.switch(1, 0, 0, 0, (5, 10, "probe")).switch(2, 0, 5, 0, (6, 2, "high"));
    assert_eq!(good.trace().unwrap().len(), 2);
    let broken = |change: fn(&mut Recording)| {
        let mut recording = good.clone();
        change(&mut recording);
        recording.trace().unwrap_err()
    };
    assert_eq!(broken(|it| it.time[1] = 0), TraceError::Unsorted { row: 1 });
    assert_eq!(broken(|it| it.kind[1] = 200), TraceError::UnknownKind { row: 1, kind: 200 });
    assert_eq!(broken(|it| it.name[0] = 2), TraceError::UnknownName { row: 0, name: 2, names: 2 });
    assert_eq!(broken(|it| it.thread[1] = -1), TraceError::Impossible { row: 1, column: "thread", value: -1 });
    assert_eq!(broken(|it| it.other[0] = 1 << 22), TraceError::Impossible { row: 0, column: "other", value: 1 << 22 });
    assert_eq!(broken(|it| it.cpu[0] = 9_000), TraceError::Impossible { row: 0, column: "cpu", value: 9_000 });
    assert_eq!(broken(|it| it.priority.truncate(1)), TraceError::Length { column: "priority", rows: 1, expected: 2 });
    assert!(Trace::new(TraceColumns::default(), &[], (0, 10), 1.0).unwrap().is_empty());
}

#[test]
fn columns_of_spikes_must_be_equally_long() {
    let recording = Recording::until(10);
    let trace = recording.trace().unwrap();
    let spikes = Spikes { start: &[1, 2], duration: &[1], floor: 0 };
    let error = attribute(&World::Native(unlabelled(&trace), followed(&[5])), spikes, &[]).unwrap_err();
    assert_eq!(error.to_string(), "there are 2 starts of spikes but 1 durations");
}
