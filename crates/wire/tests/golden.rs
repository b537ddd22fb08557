//! The frames under `tests/golden/frames` are what both sides agree on: this test and the Python twin read
//! them. After an intended change of the protocol: `UPDATE_GOLDEN=1 cargo test -p stealtime-wire`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stealtime_wire::{
    ClockCheck, ClockConversion, ClockReading, ClockRecord, Contend, Disk, DiskEngine, DiskOperation, DiskOrder,
    DiskTarget, DrawnTaskSet, ExtraGroup, Facts, Finding, FindingLevel, FrameDecoder, FrameKind, FromAgent, GuestExit,
    Injection, Layout, Load, LoadOutcome, LoadRequest, MachineThread, Net, NetTransport, OnThreshold, PROTOCOL_VERSION,
    Probe, ProgramThread, Progress, Reading, RealTimeLimit, RealTimeLimitKind, RealTimePolicy, RealTimeTask,
    RealTimeTaskOutcome, Reservation, Rtload, RtloadOutcome, StreamName, Switch, ThreadPlacement, ThreadRole,
    ThresholdHit, Tick, ToAgent, TraceRequest, TracingOutcome, TrialOutcome, TrialRequest, Wakeup, WorkUnit,
    encode_frame,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/frames")
}

fn request(probe: Probe, injection: Option<Injection>) -> TrialRequest {
    TrialRequest {
        trial: 7,
        probe,
        cpus: vec![1],
        priority: 80,
        duration_ns: 5_000_000_000,
        max_samples: None,
        lift_rt_throttling: true,
        injection,
        tracing: None,
        checkpoint_ns: None,
        on_threshold: None,
    }
}

fn reading(tsc: u64) -> ClockReading {
    ClockReading { tsc, monotonic_raw_ns: 1_000_000_007, monotonic_ns: 1_000_000_011, bracket_tsc: 52 }
}

fn trace_request() -> TraceRequest {
    TraceRequest {
        cpus: vec![0, 1],
        buffer_bytes_per_cpu: 8 << 20,
        hidden_threads: Some("st-ring".to_owned()),
        user_mode_linux: vec![1234],
        extra_groups: Vec::new(),
        keep_bytes_per_cpu: None,
        processes: Vec::new(),
    }
}

fn extra_request() -> TraceRequest {
    let extra_groups = vec![ExtraGroup::Timers, ExtraGroup::Scheduler, ExtraGroup::TimerStarts, ExtraGroup::Calls];
    TraceRequest {
        hidden_threads: None,
        user_mode_linux: Vec::new(),
        extra_groups,
        processes: vec![4711],
        ..trace_request()
    }
}

fn tracing_outcome() -> TracingOutcome {
    TracingOutcome {
        clock: "x86-tsc".to_owned(),
        tsc_hz: 2_596_140_125.5,
        start: reading(1 << 40),
        end: reading((1 << 40) + 10_000_000_000),
        events: 12_345,
        lost: 3,
        groups: BTreeMap::from([
            ("sched".to_owned(), Reading::Value(true.into())),
            ("kvm".to_owned(), Reading::Absent("this kernel has no such events".to_owned())),
        ]),
        names: vec!["local_timer".to_owned(), "st-ring-0".to_owned()],
        findings: Vec::new(),
    }
}

fn program_thread() -> ProgramThread {
    ProgramThread {
        id: 4712,
        process: 4711,
        name: "engine".to_owned(),
        policy: "SCHED_DEADLINE".to_owned(),
        priority: 0,
        reservation: Some(Reservation { runtime_ns: 500_000, deadline_ns: 4_000_000, period_ns: 5_000_000 }),
        cpus: vec![0, 1],
        ran_ns: Some(1_234_567),
    }
}

fn disk() -> Disk {
    Disk {
        target: DiskTarget::Given { path: "/dev/vdb".to_owned(), overwrite: true },
        operation: DiskOperation::Write,
        order: DiskOrder::Sequential,
        block_bytes: 4096,
        depth: 32,
        interval_ns: None,
        span_bytes: Some(1 << 30),
        seed: 7,
        engine: Some(DiskEngine::Aio),
    }
}

fn scratch_disk() -> Disk {
    let target = DiskTarget::Scratch { folder: "/var/tmp".to_owned(), bytes: 256 << 20 };
    let order = DiskOrder::Random;
    Disk {
        target,
        operation: DiskOperation::Read,
        order,
        interval_ns: Some(1_000_000),
        span_bytes: None,
        engine: None,
        ..disk()
    }
}

fn marked_disk() -> Disk {
    let engine = Some(DiskEngine::IoUring);
    Disk { target: DiskTarget::Marked { path: None, device: Some("virtio-blk".to_owned()) }, engine, ..disk() }
}

fn net() -> Net {
    Net {
        peer: "192.0.2.1:7007".to_owned(),
        transport: NetTransport::Udp,
        message_bytes: 64,
        depth: 64,
        interval_ns: Some(1_000_000),
        patience_ns: 1_000_000_000,
    }
}

fn rtload() -> Rtload {
    let task = |name: &str, period_ns: u64| RealTimeTask {
        name: name.to_owned(),
        period_ns,
        deadline_ns: period_ns,
        cost_ns: period_ns / 8,
        budget_ns: None,
        iterations: period_ns / 9,
    };
    Rtload {
        policy: RealTimePolicy::Fifo,
        tasks: vec![task("t2", 20_000_000), task("t1", 86_000_000)],
        polluters: 2,
        polluter_bytes: 4 << 20,
        released_elsewhere: false,
        drawn: Some(DrawnTaskSet {
            version: "0.1.0".to_owned(),
            law: "light-uniform".to_owned(),
            total: None,
            periods: "moderate".to_owned(),
            deadlines: "implicit".to_owned(),
            seed: 1,
            tasks_asked: 2,
            over_utilized: "redraw".to_owned(),
            cap: 1.0,
            attempts: 1,
            drawn_utilization: 0.25,
            utilization: 0.25,
        }),
    }
}

fn rtload_outcome() -> RtloadOutcome {
    let task = |thread_id: u32, finished: u64| RealTimeTaskOutcome {
        thread_id,
        priority: 80,
        released: 250,
        finished,
        late: 3,
        unstarted: 250 - finished,
        overruns: 2,
        median_response_units: (finished > 0).then_some(6_500_000),
        worst_response_units: (finished > 0).then_some(7_500_000),
    };
    RtloadOutcome {
        start_monotonic_ns: 1_000_000_011,
        conversion: ClockConversion {
            tsc: 1 << 40,
            monotonic_ns: 1_000_000_011,
            tsc_per_ns: 2.5,
            error_ns: 40.5,
            readings: 50,
        },
        tasks: vec![task(41, 250), task(42, 0)],
    }
}

fn load_outcome() -> LoadOutcome {
    LoadOutcome {
        unit: WorkUnit::Bytes,
        work: 9 << 30,
        on_ns: 5_000_000_000,
        rate_per_s: 1_932_735_283.2,
        tsc_hz: 2_596_140_125.5,
        start: reading(1 << 40),
        end: reading((1 << 40) + 10_000_000_000),
        thread_ids: vec![51, 52],
        findings: Vec::new(),
    }
}

fn to_agent() -> Vec<(&'static str, ToAgent)> {
    let tick = request(
        Probe::Tick(Tick { iterations: 43_210 }),
        Some(Injection { every_ns: 10_000_000, steal_ns: 500_000, exit: Some(GuestExit::Cpuid) }),
    );
    let switch = request(Probe::Switch(Switch { threads: 1000 }), None);
    let wakeup = TrialRequest {
        max_samples: Some(50_000_000),
        tracing: Some(TraceRequest { keep_bytes_per_cpu: Some(32 << 20), ..trace_request() }),
        checkpoint_ns: Some(60_000_000_000),
        on_threshold: Some(OnThreshold { overhead_ns: 100_000, stop: true }),
        ..request(Probe::Wakeup(Wakeup { interval_ns: 1_000_000 }), None)
    };
    let contend = Contend {
        tasks: 32,
        iterations: 90,
        collection_bytes: 1 << 20,
        searches: 60,
        io_mean_ns: 2_000_000,
        io_spread_percent: 100,
        lock_percent: 25,
        lock_searches: 4,
        seed: 1,
        each_iteration: true,
    };
    let contend = TrialRequest { priority: 0, ..request(Probe::Contend(contend), None) };
    let deadline = Rtload {
        policy: RealTimePolicy::Deadline,
        tasks: rtload().tasks.into_iter().map(|task| RealTimeTask { budget_ns: Some(task.cost_ns), ..task }).collect(),
        polluters: 0,
        released_elsewhere: true,
        drawn: None,
        ..rtload()
    };
    let rtload = request(Probe::Rtload(rtload()), None);
    let memory = LoadRequest {
        kind: Load::Memory { block_bytes: 9 << 20 },
        cpus: vec![1],
        priority: 0,
        threads: 2,
        on_ns: Some(5_000_000_000),
        off_ns: Some(5_000_000_000),
    };
    let cpu = LoadRequest { kind: Load::Cpu {}, priority: 90, on_ns: None, off_ns: None, ..memory.clone() };
    vec![
        ("control_hello", ToAgent::Hello { protocol: PROTOCOL_VERSION, control_version: "0.1.0".to_owned() }),
        ("calibrate", ToAgent::Calibrate { loop_ns: 68_000, cpu: 1, priority: 80 }),
        ("exchange_clock", ToAgent::ExchangeClock { id: 3 }),
        ("run_trial_tick", ToAgent::RunTrial(Box::new(tick))),
        ("run_trial_switch", ToAgent::RunTrial(Box::new(switch))),
        ("run_trial_wakeup", ToAgent::RunTrial(Box::new(wakeup))),
        ("run_trial_contend", ToAgent::RunTrial(Box::new(contend))),
        ("run_trial_disk", ToAgent::RunTrial(Box::new(request(Probe::Disk(disk()), None)))),
        ("run_trial_disk_scratch", ToAgent::RunTrial(Box::new(request(Probe::Disk(scratch_disk()), None)))),
        ("run_trial_disk_marked", ToAgent::RunTrial(Box::new(request(Probe::Disk(marked_disk()), None)))),
        ("run_trial_net", ToAgent::RunTrial(Box::new(request(Probe::Net(net()), None)))),
        ("run_trial_rtload", ToAgent::RunTrial(Box::new(rtload))),
        ("run_trial_rtload_deadline", ToAgent::RunTrial(Box::new(request(Probe::Rtload(deadline), None)))),
        ("start_tracing", ToAgent::StartTracing { trial: 7, tracing: trace_request() }),
        ("start_tracing_extra", ToAgent::StartTracing { trial: 7, tracing: extra_request() }),
        ("stop_tracing", ToAgent::StopTracing { trial: 7 }),
        ("start_load_memory", ToAgent::StartLoad { trial: 7, load: memory }),
        ("start_load_cpu", ToAgent::StartLoad { trial: 7, load: cpu }),
        ("start_program", ToAgent::StartProgram { arguments: vec!["rt-app".to_owned(), "engine.json".to_owned()] }),
        ("list_threads", ToAgent::ListThreads { process: 4711 }),
        ("stop_load", ToAgent::StopLoad { trial: 7 }),
        ("part_stored", ToAgent::PartStored { trial: 7 }),
        ("cancel_trial", ToAgent::CancelTrial {}),
        ("shutdown", ToAgent::Shutdown {}),
    ]
}

fn from_agent() -> Vec<(&'static str, FromAgent)> {
    let facts = BTreeMap::from([
        ("kernel_release".to_owned(), Reading::Value("6.1.0-rt".into())),
        ("clock_event_device".to_owned(), Reading::Absent("no such file".to_owned())),
        ("sched_rt_runtime_us".to_owned(), Reading::Value(serde_json::Value::Null)),
    ]);
    let outcome = TrialOutcome {
        trial: 7,
        request: request(Probe::Switch(Switch { threads: 2 }), None),
        findings: vec![Finding {
            code: "rt_throttling".to_owned(),
            level: FindingLevel::Limits,
            text: "RT throttling is on".to_owned(),
            hint: Some("lift it".to_owned()),
        }],
        clock: ClockRecord {
            name: "tsc".to_owned(),
            units_per_s: 2_596_140_125.5,
            tsc_hz: 2_596_140_125.5,
            tsc_hz_source: "measured against CLOCK_MONOTONIC_RAW over 0.100 s".to_owned(),
            check: ClockCheck { disagreement_ppm: -0.25, error_ppm: 0.5, limit_ppm: 500.0 },
            facts: Facts::from([("clocksource".to_owned(), Reading::Value("hpet".into()))]),
            start: reading(1 << 40),
            end: reading((1 << 40) + 10_000_000_000),
            start_realtime_ns: 1_795_291_200_000_000_000,
            origin_units: (1 << 40) + 99,
        },
        layout: Some(Layout::Gapped),
        placement: ThreadPlacement {
            cpu: 1,
            cpus: vec![0, 1],
            policy: "SCHED_FIFO".to_owned(),
            priority: 80,
            thread_ids: vec![41, 42],
        },
        calibrated_floor_units: None,
        rtload: None,
        limit: Some(RealTimeLimit {
            kind: RealTimeLimitKind::RtThrottling,
            pause_ns: 50_000_000,
            period_ns: 1_000_000_000,
            unseen: Some("the events of its CPU are refused".to_owned()),
        }),
        counters: BTreeMap::from([("recorded".to_owned(), 4_000), ("saturated".to_owned(), 0)]),
        threads: vec![MachineThread {
            id: 41,
            name: "st-ring-0".to_owned(),
            role: ThreadRole::Probe,
            thread_pointer: 0x7f00_1234_5600,
        }],
        tracing: Some(tracing_outcome()),
        threshold: Some(ThresholdHit { index: 9, duration_units: 2_596_140, end_tsc: (1 << 40) + 77, samples_over: 2 }),
    };
    let of_tasks = TrialOutcome {
        request: request(Probe::Rtload(rtload()), None),
        layout: None,
        rtload: Some(rtload_outcome()),
        ..outcome.clone()
    };
    let failed = FromAgent::Failed { trial: Some(7), error: "CPU 9 cannot be measured".to_owned(), hint: None };
    vec![
        ("agent_hello", FromAgent::Hello { protocol: PROTOCOL_VERSION, agent_version: "0.1.0".to_owned(), facts }),
        ("calibrated", FromAgent::Calibrated { loop_ns: 68_000, iterations: 43_210, floor_ns: 67_994.25 }),
        ("clock_reading", FromAgent::ClockReading { id: 3, reading: reading(5) }),
        (
            "progress",
            FromAgent::Progress(Progress { trial: 7, elapsed_ns: 500_000_000, samples: 7_350, max_ns: 91_234.5 }),
        ),
        ("stream_begin", FromAgent::StreamBegin { trial: 7, stream: StreamName::Samples, is_part: false }),
        ("checkpoint", FromAgent::Checkpoint(Box::new(outcome.clone()))),
        ("stream_end", FromAgent::StreamEnd { trial: 7, stream: StreamName::Events, bytes: 1_234 }),
        ("trial_done", FromAgent::TrialDone(Box::new(outcome))),
        ("trial_done_rtload", FromAgent::TrialDone(Box::new(of_tasks))),
        ("tracing_started", FromAgent::TracingStarted { trial: 7, groups: tracing_outcome().groups }),
        ("tracing_done", FromAgent::TracingDone { trial: 7, outcome: tracing_outcome() }),
        ("program_started", FromAgent::ProgramStarted { process: 4711 }),
        ("threads_listed", FromAgent::ThreadsListed { process: 4711, threads: vec![program_thread()] }),
        ("load_started", FromAgent::LoadStarted { trial: 7, thread_ids: vec![51, 52] }),
        ("load_done", FromAgent::LoadDone { trial: 7, outcome: load_outcome() }),
        ("failed", failed),
    ]
}

fn check<Message: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, message: &Message) {
    let json = serde_json::to_vec(message).unwrap();
    let frame = encode_frame(FrameKind::Message, &json).unwrap();
    let (binary, text) = (folder().join(format!("{name}.bin")), folder().join(format!("{name}.json")));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        fs::write(&binary, &frame).unwrap();
        fs::write(&text, format!("{}\n", serde_json::to_string_pretty(&value).unwrap())).unwrap();
    }
    assert_eq!(fs::read(&binary).unwrap(), frame, "{name}: the bytes on the wire have changed");
    let mut decoder = FrameDecoder::new();
    decoder.feed(&fs::read(&binary).unwrap());
    let decoded = decoder.next_frame().unwrap().unwrap();
    decoder.finish().unwrap();
    assert_eq!(&serde_json::from_slice::<Message>(&decoded.payload).unwrap(), message, "{name}");
    assert_eq!(&serde_json::from_slice::<Message>(&fs::read(&text).unwrap()).unwrap(), message, "{name}");
}

#[test]
fn messages_are_the_golden_frames() {
    for (name, message) in to_agent() {
        check(name, &message);
    }
    for (name, message) in from_agent() {
        check(name, &message);
    }
}

#[test]
fn no_golden_frame_is_left_without_a_message() {
    let known: Vec<&str> =
        to_agent().iter().map(|entry| entry.0).chain(from_agent().iter().map(|entry| entry.0)).collect();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(known.contains(&stem.as_str()), "{} belongs to no message", path.display());
    }
}

#[test]
fn unknown_keys_and_types_are_refused() {
    for text in [r#"{"type":"shutdown","now":true}"#, r#"{"type":"dance"}"#, r#"{"type":"run_trial","trial":1}"#] {
        assert!(serde_json::from_str::<ToAgent>(text).is_err(), "{text} was accepted");
    }
}
