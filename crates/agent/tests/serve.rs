//! The agent as its control plane sees it: a process on a pipe.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_ipc::reader::StreamReader;
use stealtime_wire::{
    FrameDecoder, FrameKind, FromAgent, Load, LoadOutcome, LoadRequest, PROTOCOL_VERSION, Probe, StreamName, Switch,
    Tick, ToAgent, TrialOutcome, TrialRequest, Wakeup, encode_frame,
};

struct Agent {
    process: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    decoder: FrameDecoder,
}

enum Received {
    Message(FromAgent),
    Arrow(Vec<u8>),
}

impl Agent {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_stealtime-agent"))
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take().unwrap());
        Self { process, input, output, decoder: FrameDecoder::new() }
    }

    /// An agent that has said hello and was answered.
    fn greeted() -> Self {
        let mut agent = Self::start();
        assert!(matches!(agent.receive_message(), FromAgent::Hello { protocol: PROTOCOL_VERSION, .. }));
        agent.send(&ToAgent::Hello { protocol: PROTOCOL_VERSION, control_version: "test".to_owned() });
        agent
    }

    fn send(&mut self, message: &ToAgent) {
        let frame = encode_frame(FrameKind::Message, &serde_json::to_vec(message).unwrap()).unwrap();
        self.send_bytes(&frame);
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn receive(&mut self) -> Option<Received> {
        let mut buffer = vec![0; 65536];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(match frame.kind {
                    FrameKind::Message => Received::Message(serde_json::from_slice(&frame.payload).unwrap()),
                    FrameKind::Arrow => Received::Arrow(frame.payload),
                });
            }
            match self.output.read(&mut buffer).unwrap() {
                0 => return None,
                count => self.decoder.feed(&buffer[..count]),
            }
        }
    }

    fn receive_message(&mut self) -> FromAgent {
        match self.receive() {
            Some(Received::Message(message)) => message,
            _ => panic!("the agent sent no message"),
        }
    }

    /// Runs a trial; gives its outcome and the bytes of its table `samples`.
    fn run(&mut self, request: TrialRequest) -> Result<(TrialOutcome, Vec<u8>), String> {
        self.send(&ToAgent::RunTrial(Box::new(request)));
        let (mut samples, mut table, mut is_samples) = (Vec::new(), Vec::new(), false);
        loop {
            match self.receive().expect("the agent ended") {
                Received::Arrow(bytes) => table.extend(bytes),
                Received::Message(FromAgent::StreamBegin { stream, .. }) => {
                    is_samples = stream == StreamName::Samples;
                }
                Received::Message(FromAgent::StreamEnd { bytes, .. }) => {
                    assert_eq!(bytes, table.len() as u64);
                    let whole = std::mem::take(&mut table);
                    if is_samples {
                        samples = whole;
                    }
                }
                Received::Message(FromAgent::TrialDone(outcome)) => return Ok((*outcome, samples)),
                Received::Message(FromAgent::Failed { error, .. }) => return Err(error),
                Received::Message(FromAgent::Progress(_)) => {}
                Received::Message(other) => panic!("unexpected {other:?}"),
            }
        }
    }

    /// Closes the channel and gives the exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Ended already in most tests.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn short(probe: Probe) -> TrialRequest {
    let cpu = stealtime_probe::scheduling::allowed_cpus().unwrap()[0];
    TrialRequest::plain(probe, vec![cpu], 1, 20_000_000)
}

#[test]
fn each_probe_sends_one_row_for_every_recorded_sample() {
    let mut agent = Agent::greeted();
    let probes = [
        (Probe::Tick(Tick { iterations: 10_000 }), vec!["duration"]),
        (Probe::Switch(Switch { threads: 2 }), vec!["gap", "duration"]),
        (Probe::Wakeup(Wakeup { interval_ns: 1_000_000 }), vec!["duration"]),
    ];
    for (probe, columns) in probes {
        let (outcome, samples) = agent.run(short(probe.clone())).unwrap();
        let reader = StreamReader::try_new(samples.as_slice(), None).unwrap();
        let names: Vec<String> = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, columns, "{probe:?}");
        let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(rows as u64, outcome.counters["recorded"], "{probe:?}: {outcome:?}");
        assert!(rows > 0, "{probe:?}: {outcome:?}");
    }
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn several_cpus_are_all_allowed_except_to_a_ring() {
    let mut agent = Agent::greeted();
    let cpus = stealtime_probe::scheduling::allowed_cpus().unwrap();
    let reversed: Vec<u32> = cpus.iter().rev().copied().collect();
    let roaming = |probe| TrialRequest { cpus: reversed.clone(), ..short(probe) };
    let codes = |outcome: &TrialOutcome| -> Vec<String> {
        outcome.findings.iter().map(|finding| finding.code.clone()).collect()
    };
    let (outcome, _) = agent.run(roaming(Probe::Tick(Tick { iterations: 10_000 }))).unwrap();
    assert_eq!(outcome.placement.cpus, cpus);
    assert!(!codes(&outcome).contains(&"switch_pinned".to_owned()), "{outcome:?}");
    let (outcome, _) = agent.run(roaming(Probe::Switch(Switch { threads: 2 }))).unwrap();
    assert_eq!(outcome.placement.cpus, [cpus[0]], "the last of those that were asked for");
    assert_eq!(codes(&outcome).contains(&"switch_pinned".to_owned()), cpus.len() > 1, "{outcome:?}");
}

#[test]
fn ordinary_scheduling_is_no_finding_when_it_was_asked_for() {
    let mut agent = Agent::greeted();
    for probe in [Probe::Tick(Tick { iterations: 10_000 }), Probe::Wakeup(Wakeup { interval_ns: 1_000_000 })] {
        let (outcome, _) = agent.run(TrialRequest { priority: 0, ..short(probe) }).unwrap();
        assert_eq!((outcome.placement.policy.as_str(), outcome.placement.priority), ("SCHED_OTHER", 0));
        let unwanted = ["no_sched_fifo", "rt_throttling", "fair_server"];
        assert!(outcome.findings.iter().all(|finding| !unwanted.contains(&finding.code.as_str())), "{outcome:?}");
    }
    let error = agent.run(TrialRequest { priority: 0, ..short(Probe::Switch(Switch { threads: 2 })) }).unwrap_err();
    assert!(error.contains("priority = 0"), "{error}");
}

#[test]
fn an_impossible_request_is_refused_and_the_agent_goes_on() {
    let mut agent = Agent::greeted();
    let error = agent.run(TrialRequest { cpus: vec![4000], ..short(Probe::Tick(Tick { iterations: 1 })) }).unwrap_err();
    assert!(error.contains("CPU 4000"), "{error}");
    let error = agent.run(short(Probe::Switch(Switch { threads: 1 }))).unwrap_err();
    assert!(error.contains("threads = 1"), "{error}");
    assert!(agent.run(short(Probe::Wakeup(Wakeup { interval_ns: 1_000_000 }))).is_ok());
}

/// A trial that was sent in parts: rows of all parts in order, the pauses of their events, how it ended.
#[derive(Default)]
struct InParts {
    checkpoints: Vec<TrialOutcome>,
    /// Of each table `samples`, its rows: (gap, duration).
    tables: Vec<Vec<(u64, u64)>>,
    /// (index, start, duration).
    pauses: Vec<(u64, u64, u64)>,
    outcome: Option<TrialOutcome>,
}

impl InParts {
    fn of(agent: &mut Agent, request: TrialRequest) -> Self {
        let trial = request.trial;
        agent.send(&ToAgent::RunTrial(Box::new(request)));
        let (mut seen, mut table, mut name) = (Self::default(), Vec::new(), StreamName::Samples);
        while seen.outcome.is_none() {
            match agent.receive().expect("the agent ended") {
                Received::Arrow(bytes) => table.extend(bytes),
                Received::Message(FromAgent::StreamBegin { stream, .. }) => name = stream,
                Received::Message(FromAgent::StreamEnd { .. }) => seen.read(name, &std::mem::take(&mut table)),
                Received::Message(FromAgent::Checkpoint(outcome)) => {
                    seen.checkpoints.push(*outcome);
                    agent.send(&ToAgent::PartStored { trial });
                }
                Received::Message(FromAgent::TrialDone(outcome)) => seen.outcome = Some(*outcome),
                Received::Message(FromAgent::Progress(_)) => {}
                Received::Message(other) => panic!("unexpected {other:?}"),
            }
        }
        seen
    }

    fn read(&mut self, name: StreamName, table: &[u8]) {
        let batches: Vec<RecordBatch> = StreamReader::try_new(table, None).unwrap().map(Result::unwrap).collect();
        let narrow = |batch: &RecordBatch, column: &str| -> Vec<u64> {
            let column = batch.column_by_name(column);
            column.map_or(vec![0; batch.num_rows()], |values| {
                values.as_primitive::<UInt32Type>().values().iter().map(|&value| value.into()).collect()
            })
        };
        let wide = |batch: &RecordBatch, column: &str| -> Vec<u64> {
            batch.column_by_name(column).unwrap().as_primitive::<UInt64Type>().values().to_vec()
        };
        if name == StreamName::Samples {
            let rows = batches.iter().flat_map(|batch| narrow(batch, "gap").into_iter().zip(narrow(batch, "duration")));
            self.tables.push(rows.collect());
            return;
        }
        for batch in &batches {
            let kinds = batch.column_by_name("kind").unwrap().as_string::<i32>();
            let (index, start, took) = (wide(batch, "index"), wide(batch, "start"), wide(batch, "duration"));
            let pauses = (0..batch.num_rows()).filter(|&row| kinds.value(row) == "pause");
            self.pauses.extend(pauses.map(|row| (index[row], start[row], took[row])));
        }
    }
}

#[test]
fn the_parts_of_a_long_trial_are_the_whole_and_their_times_are_right() {
    let mut agent = Agent::greeted();
    let all = stealtime_probe::scheduling::allowed_cpus().unwrap();
    let probes = [
        Probe::Tick(Tick { iterations: 10_000 }),
        Probe::Switch(Switch { threads: 3 }),
        Probe::Wakeup(Wakeup { interval_ns: 1_000_000 }),
    ];
    // All of them leave no CPU on which samples could be sent while others are measured.
    for cpus in [all.clone(), vec![all[0]]] {
        for probe in probes.clone() {
            let is_beside = cpus.len() < all.len();
            let is_periodic = matches!(probe, Probe::Wakeup(_));
            let request = TrialRequest {
                cpus: cpus.clone(),
                duration_ns: if is_beside { 1_400_000_000 } else { 250_000_000 },
                checkpoint_ns: Some(60_000_000),
                ..short(probe.clone())
            };
            let duration_ns = request.duration_ns;
            let seen = InParts::of(&mut agent, request);
            let outcome = seen.outcome.unwrap();
            assert!(seen.checkpoints.len() >= 2, "{probe:?}: {}", seen.checkpoints.len());
            let mut rows = 0;
            for (checkpoint, table) in seen.checkpoints.iter().zip(&seen.tables) {
                rows += table.len() as u64;
                assert_eq!(checkpoint.counters["recorded"].max(rows), checkpoint.counters["recorded"], "{probe:?}");
                assert!(checkpoint.counters["watched_ns"] > 0, "{checkpoint:?}");
                assert_eq!(checkpoint.layout, outcome.layout);
            }
            let all_rows: Vec<(u64, u64)> = seen.tables.concat();
            assert_eq!(all_rows.len() as u64, outcome.counters["recorded"], "{probe:?}");
            assert!(outcome.counters["watched_ns"] + 1_000_000 >= duration_ns, "{probe:?}: {outcome:?}");
            assert!(outcome.findings.iter().all(|finding| finding.code != "cancelled"), "{outcome:?}");
            if is_beside {
                continue;
            }
            assert_eq!(seen.pauses.len() as u64, outcome.counters["pauses"], "{probe:?}");
            assert!(seen.pauses.len() >= 2, "{probe:?}: {:?}", seen.pauses);
            for &(index, start, took) in &seen.pauses {
                let before = &all_rows[..usize::try_from(index).unwrap()];
                let earlier = seen.pauses.iter().filter(|pause| pause.0 < index).map(|pause| pause.2).sum::<u64>();
                let tiled: u64 = before.iter().map(|row| row.0 + row.1).sum();
                let measured = if is_periodic { index * 1_000_000 } else { tiled };
                assert_eq!(start, measured + earlier, "{probe:?}");
                assert!(took > 0, "{probe:?}");
            }
            let paused: u64 = seen.pauses.iter().map(|pause| pause.2).sum();
            let measured: u64 = all_rows.iter().map(|row| row.0 + row.1).sum();
            if !is_periodic {
                // The last sample ended before the clocks were read, and not long before.
                let elapsed = outcome.clock.end.tsc - outcome.clock.origin_units;
                assert!(measured + paused <= elapsed, "{probe:?}: {measured} + {paused} of {elapsed}");
            }
        }
    }
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn a_trial_that_waits_for_its_part_to_be_stored_can_be_cancelled() {
    let mut agent = Agent::greeted();
    let request = TrialRequest {
        cpus: stealtime_probe::scheduling::allowed_cpus().unwrap(),
        duration_ns: 600_000_000_000,
        checkpoint_ns: Some(20_000_000),
        ..short(Probe::Tick(Tick { iterations: 10_000 }))
    };
    agent.send(&ToAgent::RunTrial(Box::new(request)));
    let is_checkpoint = |received| matches!(received, Some(Received::Message(FromAgent::Checkpoint(_))));
    while !is_checkpoint(agent.receive()) {}
    agent.send(&ToAgent::CancelTrial {});
    agent.send(&ToAgent::PartStored { trial: 1 });
    let outcome = loop {
        if let Some(Received::Message(FromAgent::TrialDone(outcome))) = agent.receive() {
            break outcome;
        }
    };
    assert!(outcome.findings.iter().any(|finding| finding.code == "cancelled"), "{outcome:?}");
}

#[test]
fn a_cancelled_trial_sends_what_it_has() {
    let mut agent = Agent::greeted();
    let request =
        TrialRequest { duration_ns: 600_000_000_000, ..short(Probe::Wakeup(Wakeup { interval_ns: 1_000_000 })) };
    agent.send(&ToAgent::RunTrial(Box::new(request)));
    while !matches!(agent.receive_message(), FromAgent::Progress(progress) if progress.samples > 0) {}
    agent.send(&ToAgent::CancelTrial {});
    let outcome = loop {
        if let Some(Received::Message(FromAgent::TrialDone(outcome))) = agent.receive() {
            break outcome;
        }
    };
    assert!(outcome.counters["recorded"] > 0);
    assert!(outcome.findings.iter().any(|finding| finding.code == "cancelled"), "{outcome:?}");
}

#[test]
fn a_channel_closed_in_the_middle_of_a_trial_ends_the_agent() {
    let mut agent = Agent::greeted();
    let request = TrialRequest { duration_ns: 600_000_000_000, ..short(Probe::Tick(Tick { iterations: 10_000 })) };
    agent.send(&ToAgent::RunTrial(Box::new(request)));
    assert_eq!(agent.end(), Some(0));
}

/// Stops a load; gives its outcome and the rows of its table.
fn stop_load(agent: &mut Agent, trial: u64) -> (LoadOutcome, Vec<RecordBatch>) {
    agent.send(&ToAgent::StopLoad { trial });
    let mut table = Vec::new();
    loop {
        match agent.receive().expect("the agent ended") {
            Received::Arrow(bytes) => table.extend(bytes),
            Received::Message(FromAgent::StreamBegin { stream, .. }) => assert_eq!(stream, StreamName::Load),
            Received::Message(FromAgent::StreamEnd { bytes, .. }) => assert_eq!(bytes, table.len() as u64),
            Received::Message(FromAgent::LoadDone { outcome, .. }) => {
                let reader = StreamReader::try_new(table.as_slice(), None).unwrap();
                return (outcome, reader.map(Result::unwrap).collect());
            }
            Received::Message(other) => panic!("unexpected {other:?}"),
        }
    }
}

#[test]
fn a_load_runs_beside_a_trial_and_sends_a_row_for_each_phase() {
    let mut agent = Agent::greeted();
    let load = LoadRequest {
        kind: Load::Cpu {},
        cpus: Vec::new(),
        priority: 0,
        threads: 2,
        on_ns: Some(1_000_000),
        off_ns: Some(2_000_000),
    };
    agent.send(&ToAgent::StartLoad { trial: 7, load: load.clone() });
    let FromAgent::LoadStarted { trial: 7, thread_ids } = agent.receive_message() else {
        panic!("no load was started")
    };
    agent.send(&ToAgent::StartLoad { trial: 8, load });
    let FromAgent::Failed { error, .. } = agent.receive_message() else { panic!("two loads at once") };
    assert!(error.contains("trial 8") && error.contains("trial 7"), "{error}");
    agent.run(short(Probe::Wakeup(Wakeup { interval_ns: 1_000_000 }))).unwrap();
    let (outcome, batches) = stop_load(&mut agent, 7);
    assert_eq!(outcome.thread_ids, thread_ids);
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let names: Vec<String> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["thread", "start", "duration", "work"]);
    let work: u64 =
        batches.iter().map(|batch| batch.column(3).as_primitive::<UInt64Type>().values().iter().sum::<u64>()).sum();
    assert_eq!(work, outcome.work);
    assert!(rows > thread_ids.len(), "{outcome:?}");
    agent.send(&ToAgent::StopLoad { trial: 7 });
    assert!(matches!(agent.receive_message(), FromAgent::Failed { trial: Some(7), .. }));
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn a_channel_closed_under_a_load_ends_the_agent() {
    let mut agent = Agent::greeted();
    let load = LoadRequest {
        kind: Load::Memory { block_bytes: 1 << 20 },
        cpus: Vec::new(),
        priority: 0,
        threads: 1,
        on_ns: None,
        off_ns: None,
    };
    agent.send(&ToAgent::StartLoad { trial: 1, load });
    assert!(matches!(agent.receive_message(), FromAgent::LoadStarted { .. }));
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn an_impossible_load_is_refused_and_the_agent_goes_on() {
    let mut agent = Agent::greeted();
    let load = LoadRequest { kind: Load::Cpu {}, cpus: vec![4000], priority: 0, threads: 1, on_ns: None, off_ns: None };
    agent.send(&ToAgent::StartLoad { trial: 1, load: load.clone() });
    let FromAgent::Failed { error, hint, .. } = agent.receive_message() else { panic!("loaded CPU 4000") };
    assert!(error.contains("[4000]") && hint.is_some(), "{error}");
    agent.send(&ToAgent::StartLoad { trial: 2, load: LoadRequest { cpus: Vec::new(), ..load } });
    assert!(matches!(agent.receive_message(), FromAgent::LoadStarted { trial: 2, .. }));
}

#[test]
fn another_protocol_is_refused_with_both_versions() {
    let mut agent = Agent::start();
    agent.receive_message();
    agent.send(&ToAgent::Hello { protocol: 999, control_version: "9".to_owned() });
    let FromAgent::Failed { error, .. } = agent.receive_message() else { panic!("accepted protocol 999") };
    assert!(error.contains("999") && error.contains(&PROTOCOL_VERSION.to_string()), "{error}");
}

#[test]
fn garbage_ends_the_agent_with_an_error() {
    let mut agent = Agent::greeted();
    agent.send_bytes(&[255; 64]);
    assert!(matches!(agent.receive_message(), FromAgent::Failed { trial: None, .. }));
    assert_eq!(agent.end(), Some(1));
}

#[test]
fn a_channel_closed_inside_a_frame_is_an_error() {
    let mut agent = Agent::greeted();
    agent.send_bytes(&[40, 0, 0, 0, 1, b'{']);
    assert_eq!(agent.end(), Some(1));
}
