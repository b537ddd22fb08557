//! `serve`: answers a control plane until it says `shutdown` or closes the channel.
//!
//! One thread reads the channel, one runs the trial, this one decides and writes. While a trial runs nothing
//! is sent unless the machine has a CPU besides the measured one.

mod running;

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use stealtime_console::remarks;
use stealtime_probe::clock::{Settling, TscRate, read_clocks};
use stealtime_probe::keeping::Taker;
use stealtime_probe::load::{LoadError, LoadRecording};
use stealtime_probe::observer::this_thread;
use stealtime_probe::processor_sets::nameable_cpus;
use stealtime_probe::{RunningTrial, Trial, facts, scheduling, tick};
use stealtime_trace::TraceError;
use stealtime_wire::{
    ClockReading, FrameDecoder, FrameKind, FromAgent, LoadRequest, MachineThread, PROTOCOL_VERSION, StreamName,
    ThreadRole, ToAgent, TraceRequest, TracingOutcome, TrialRequest, encode_frame,
};

use self::running::{Ended, Parts, Running, Watched};
use crate::channel::Channel;
use crate::load::{self, Loading};
use crate::process_one::is_process_one;
use crate::program::{self, Program};
use crate::restore::{Watchdog, put_back_leftovers};
use crate::streams::{BULK_ALIGNMENT_BYTES, TableWriter, write_frames, write_to_disk};
use crate::tables;
use crate::tracing::{self, AroundSamples, SharedAroundSamples, Traced, Tracing, TrialEnd};

/// How often a running trial's progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Serves on standard input and output.
pub fn on_standard_streams() -> Result<ExitCode> {
    let channel = Channel { input: Box::new(io::stdin()), output: Box::new(io::stdout()) };
    serve(channel, None, Settling::begin())?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until the other side is done.
///
/// With a `bulk` disk that the host can read, the samples of each trial go to its beginning instead of over
/// the channel: an emulated serial line carries a tenth of a megabyte a second.
pub fn serve(channel: Channel, bulk: Option<File>, mut settling: Settling) -> Result<()> {
    settling.pass();
    // A predecessor may have been killed; a machine where nothing was lifted has nothing to put back.
    put_back_leftovers().context("RT throttling cannot be put back")?;
    // One that cannot be removed is in nobody's way; the next start tries again.
    if let Err(error) = stealtime_trace::remove_leftovers() {
        remarks::say(format_args!("a trace instance that a killed agent left cannot be removed: {error}"));
    }
    let (events, inbox, reader, reader_id) = channel_of_events(channel.input)?;
    let mut server = Server {
        output: channel.output,
        bulk,
        settling,
        settled: None,
        events,
        running: None,
        loading: None,
        tracing: None,
        program: None,
        bulk_position: 0,
        threads: vec![this_thread(ThreadRole::Agent), reader],
        reader_id,
    };
    let facts = facts::read();
    server.send(&FromAgent::Hello { protocol: PROTOCOL_VERSION, agent_version: version(), facts })?;
    server.serve(&inbox)
}

fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

enum Event {
    Message(ToAgent),
    /// The control plane has closed the channel.
    Closed,
    /// What came was not a message.
    Broken(anyhow::Error),
    Finished(Ended),
    /// The trial waits until its samples are taken away.
    PartDue,
    LoadStopped(Box<Result<LoadRecording, LoadError>>),
}

/// Starts the thread that reads the channel, which describes itself and tells its own id.
fn channel_of_events(input: Box<dyn Read + Send>) -> Result<(Sender<Event>, Receiver<Event>, MachineThread, u32)> {
    let (events, inbox) = channel();
    let (describe, described) = channel();
    let reader = events.clone();
    thread::spawn(move || {
        // Somebody waits for it just below.
        let _ = describe.send((this_thread(ThreadRole::Agent), scheduling::own_id()));
        let last = match read_messages(input, &reader) {
            Ok(()) => Event::Closed,
            Err(error) => Event::Broken(error),
        };
        // Nobody listens any more if the server has ended first.
        let _ = reader.send(last);
    });
    let (thread, id) = described.recv().context("the thread that reads the channel ended at once")?;
    Ok((events, inbox, thread, id))
}

fn read_messages(mut input: Box<dyn Read + Send>, events: &Sender<Event>) -> Result<()> {
    let mut decoder = FrameDecoder::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = match input.read(&mut buffer) {
            Ok(0) => return decoder.finish().context("the control plane closed the channel"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("reading the channel"),
        };
        decoder.feed(&buffer[..count]);
        while let Some(frame) = decoder.next_frame()? {
            anyhow::ensure!(frame.kind == FrameKind::Message, "the control plane sent a table; only agents do");
            let message = serde_json::from_slice(&frame.payload).context("a message is not understood")?;
            if events.send(Event::Message(message)).is_err() {
                return Ok(());
            }
        }
    }
}

struct Server {
    output: Box<dyn Write + Send>,
    bulk: Option<File>,
    settling: Settling,
    /// From when on the clocks are known to run in step.
    settled: Option<ClockReading>,
    events: Sender<Event>,
    running: Option<Running>,
    loading: Option<Loading>,
    tracing: Option<Tracing>,
    program: Option<Program>,
    /// Where the next table of a trial goes on the bulk disk.
    bulk_position: u64,
    /// Those that neither measure nor disturb.
    threads: Vec<MachineThread>,
    /// Of the thread that reads the channel, by which it can be placed.
    reader_id: u32,
}

impl Server {
    fn serve(&mut self, inbox: &Receiver<Event>) -> Result<()> {
        loop {
            let event = match inbox.recv_timeout(PROGRESS_EVERY) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => {
                    self.tell_progress()?;
                    self.send_part_if_due()?;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => Event::Closed,
            };
            match event {
                Event::Message(ToAgent::Shutdown {}) | Event::Closed => break self.abandon(inbox),
                Event::Message(message) => self.answer(message)?,
                Event::Finished(end) => {
                    let end = self.running.as_mut().and_then(|running| running.ended(end));
                    self.finish(end)?;
                }
                Event::PartDue => self.send_part_if_due()?,
                Event::LoadStopped(result) => self.finish_load(*result)?,
                Event::Broken(error) => {
                    self.abandon(inbox);
                    let message = FromAgent::Failed { trial: None, error: remarks::in_full(&error), hint: None };
                    // The other side may be gone; the error is on the log anyway.
                    let _ = self.send(&message);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Stops what runs and waits until everything that it changed is put back.
    fn abandon(&mut self, inbox: &Receiver<Event>) {
        self.loading = None;
        self.tracing = None;
        self.program = None;
        let Some(running) = self.running.take() else { return };
        running.trial.cancel();
        while let Ok(event) = inbox.recv() {
            if matches!(event, Event::Finished(_)) {
                return;
            }
        }
    }

    fn answer(&mut self, message: ToAgent) -> Result<()> {
        match message {
            ToAgent::Hello { protocol, .. } if protocol != PROTOCOL_VERSION => self.fail(
                None,
                format!("the agent speaks protocol {PROTOCOL_VERSION}, the control plane {protocol}"),
                Some("use the agent that was built with this control plane".to_owned()),
            ),
            ToAgent::Hello { .. } | ToAgent::Shutdown {} => Ok(()),
            ToAgent::ExchangeClock { id } => self.send(&FromAgent::ClockReading { id, reading: read_clocks() }),
            ToAgent::Calibrate { loop_ns, cpu, priority } => self.calibrate(loop_ns, cpu, priority),
            ToAgent::StartTracing { trial, tracing } => self.start_tracing(trial, &tracing),
            ToAgent::StopTracing { trial } => self.stop_tracing(trial),
            ToAgent::StartLoad { trial, load } => self.start_load(trial, &load),
            ToAgent::StopLoad { trial } => self.stop_load(trial),
            ToAgent::StartProgram { arguments } => self.start_program(&arguments),
            ToAgent::ListThreads { process } => self.list_threads(process),
            ToAgent::PartStored { trial } => {
                let running = self.running.as_mut().filter(|running| running.number == trial);
                let end = running.and_then(Running::part_stored);
                self.finish(end)
            }
            ToAgent::CancelTrial {} => {
                if let Some(running) = &self.running {
                    running.trial.cancel();
                }
                Ok(())
            }
            ToAgent::RunTrial(request) => match &self.running {
                Some(running) => {
                    let error = format!("trial {} was asked for while trial {} runs", request.trial, running.number);
                    self.fail(Some(request.trial), error, None)
                }
                None => self.begin(*request),
            },
        }
    }

    fn fail(&mut self, trial: Option<u64>, error: String, hint: Option<String>) -> Result<()> {
        self.send(&FromAgent::Failed { trial, error, hint })
    }

    /// Measured anew each time, from the same beginning: the more exact, the longer the agent lives.
    fn rate(&mut self) -> TscRate {
        let settled = self.settled.get_or_insert_with(|| self.settling.wait());
        TscRate::since(settled)
    }

    fn calibrate(&mut self, loop_ns: u64, cpu: u32, priority: u32) -> Result<()> {
        let rate = self.rate();
        match tick::calibrate_on(cpu, priority, loop_ns, &rate) {
            Ok((iterations, floor_ns)) => self.send(&FromAgent::Calibrated { loop_ns, iterations, floor_ns }),
            Err(error) => {
                let hint = Some(format!("choose one of {:?}", nameable_cpus()));
                self.fail(None, format!("CPU {cpu} cannot be used for a calibration: {error}"), hint)
            }
        }
    }

    fn begin(&mut self, request: TrialRequest) -> Result<()> {
        let rate = self.rate();
        let around = Arc::new(AroundSamples::default());
        let all_cpus = scheduling::allowed_cpus().context("the agent's CPUs cannot be read")?;
        let has_other_cpu = all_cpus.iter().any(|cpu| !request.cpus.contains(cpu));
        let running = RunningTrial::observed_by(Arc::new(SharedAroundSamples(Arc::clone(&around))));
        let trial = Arc::new(match request.checkpoint_ns {
            Some(every_ns) => running.taken_by(self.taker(every_ns, has_other_cpu)),
            None => running,
        });
        trial.threads.extend(self.threads.iter().cloned());
        // Process 1 needs none: nothing of its machine outlives it.
        let changes_machine = request.lift_rt_throttling || request.tracing.is_some() && !is_process_one();
        let watchdog = changes_machine.then(Watchdog::start).transpose()?;
        let number = request.trial;
        let (events, watched) = (self.events.clone(), has_other_cpu.then(Watched::default));
        let measured_cpus = request.cpus.clone();
        let (handle, known_rate) = (Arc::clone(&trial), rate.clone());
        let parts = Parts::new(request.checkpoint_ns.map(Duration::from_nanos));
        let known_request = request.clone();
        thread::spawn(move || {
            handle.threads.enter(ThreadRole::Agent);
            let result = tracing::run(&Trial { request: &request, rate: &rate, running: &handle }, &around);
            // The server has ended if it does not listen.
            let _ = events.send(Event::Finished(Box::new(result)));
        });
        // After the trial's thread was started, which must keep the full set to choose from.
        scheduling::keep_off(&measured_cpus).context("the agent cannot leave the measured CPUs")?;
        self.running = Some(Running {
            number,
            request: known_request,
            parts,
            rate: known_rate,
            trial,
            watched,
            all_cpus,
            _watchdog: watchdog,
        });
        Ok(())
    }

    fn taker(&self, every_ns: u64, is_beside: bool) -> Taker {
        let events = self.events.clone();
        // The server has ended if it does not listen; whoever waits is stopped then.
        Taker { every_ns, is_beside, wake: Box::new(move || drop(events.send(Event::PartDue))) }
    }

    /// Sends what was measured since the last part, if it is time and that one is stored.
    fn send_part_if_due(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let Some(recorder) = running.trial.recorder() else { return Ok(()) };
        let Some((source, outcome)) = running.next_part(&recorder) else { return Ok(()) };
        let number = running.number;
        self.bulk_position = 0;
        for stream in [StreamName::Samples, StreamName::Events] {
            let table = |output: &mut dyn Write| tables::write_part(&source, &outcome, stream, output);
            self.send_table(number, stream, true, &table)?;
        }
        self.send(&FromAgent::Checkpoint(Box::new(outcome)))
    }

    /// Tells how the trial ended, if it has.
    fn finish(&mut self, end: Option<Ended>) -> Result<()> {
        let Some(result) = end else { return Ok(()) };
        let Some(running) = self.running.take() else { return Ok(()) };
        scheduling::allow(&running.all_cpus).context("the agent's CPUs cannot be put back")?;
        match *result {
            Err(error) => {
                let hint = error.hint();
                self.fail(Some(running.number), error.to_string(), hint)
            }
            Ok(TrialEnd { mut recording, traced }) => {
                self.bulk_position = 0;
                let taken = running.trial.taken();
                for &stream in tables::streams(&recording) {
                    let table = |output: &mut dyn Write| tables::write(&recording, taken, stream, output);
                    self.send_table(running.number, stream, false, &table)?;
                }
                let clock = &recording.outcome.clock;
                recording.outcome.tracing = match traced {
                    None => None,
                    Some(Ok(traced)) => Some(self.send_trace(running.number, traced, clock.tsc_hz)?),
                    Some(Err(error)) => Some(tracing::refused(&error, clock.tsc_hz, clock.start, clock.end)),
                };
                self.send(&FromAgent::TrialDone(Box::new(recording.outcome)))
            }
        }
    }

    fn send_trace(&mut self, trial: u64, traced: Traced, tsc_hz: f64) -> Result<TracingOutcome> {
        let table = |output: &mut dyn Write| traced.write_table(tsc_hz, output);
        self.send_table(trial, StreamName::Trace, false, &table)?;
        Ok(traced.outcome(tsc_hz))
    }

    fn start_tracing(&mut self, trial: u64, request: &TraceRequest) -> Result<()> {
        if let Some(tracing) = &self.tracing {
            let error = format!("a trace for trial {trial} was asked for while that for trial {} is on", tracing.trial);
            return self.fail(Some(trial), error, Some("stop that one first".to_owned()));
        }
        match Tracing::start(trial, request) {
            Ok(tracing) => {
                let groups = tracing.groups().clone();
                self.tracing = Some(tracing);
                self.send(&FromAgent::TracingStarted { trial, groups })
            }
            Err(error) => self.fail_tracing(trial, &error),
        }
    }

    fn stop_tracing(&mut self, trial: u64) -> Result<()> {
        let Some(tracing) = self.tracing.take_if(|tracing| tracing.trial == trial) else {
            return self.fail(Some(trial), format!("no trace for trial {trial} is on"), None);
        };
        match tracing.stop() {
            Ok(traced) => {
                let tsc_hz = self.rate().hz;
                let outcome = self.send_trace(trial, traced, tsc_hz)?;
                self.send(&FromAgent::TracingDone { trial, outcome })
            }
            Err(error) => self.fail_tracing(trial, &error),
        }
    }

    fn fail_tracing(&mut self, trial: u64, error: &anyhow::Error) -> Result<()> {
        let hint = error.downcast_ref::<TraceError>().and_then(TraceError::hint);
        self.fail(Some(trial), remarks::in_full(error), hint)
    }

    fn start_program(&mut self, arguments: &[String]) -> Result<()> {
        match Program::start(arguments) {
            Ok(program) => {
                let process = program.id();
                self.program = Some(program);
                self.send(&FromAgent::ProgramStarted { process })
            }
            Err(error) => self.fail(None, remarks::in_full(&error), None),
        }
    }

    fn list_threads(&mut self, process: u32) -> Result<()> {
        if let Some(program) = &mut self.program {
            program.look();
        }
        self.send(&FromAgent::ThreadsListed { process, threads: program::list_threads(process) })
    }

    fn start_load(&mut self, trial: u64, request: &LoadRequest) -> Result<()> {
        if let Some(loading) = &self.loading {
            let error = format!("a load for trial {trial} was asked for while that for trial {} is on", loading.trial);
            return self.fail(Some(trial), error, Some("stop that one first".to_owned()));
        }
        let rate = self.rate();
        match Loading::start(trial, request, &rate, self.reader_id) {
            Ok(loading) => {
                let thread_ids = loading.thread_ids();
                self.loading = Some(loading);
                self.send(&FromAgent::LoadStarted { trial, thread_ids })
            }
            Err(error) => self.fail(Some(trial), error.to_string(), error.hint()),
        }
    }

    fn stop_load(&mut self, trial: u64) -> Result<()> {
        let events = self.events.clone();
        // The server has ended if it does not listen.
        let tell = move |result| drop(events.send(Event::LoadStopped(Box::new(result))));
        let is_stopping = self.loading.as_mut().is_some_and(|loading| loading.trial == trial && loading.stop(tell));
        if is_stopping {
            return Ok(());
        }
        self.fail(Some(trial), format!("no load for trial {trial} is on"), None)
    }

    fn finish_load(&mut self, result: Result<LoadRecording, LoadError>) -> Result<()> {
        let Some(loading) = self.loading.take() else { return Ok(()) };
        let trial = loading.trial;
        match result {
            Err(error) => self.fail(Some(trial), error.to_string(), error.hint()),
            Ok(recording) => {
                let table = |output: &mut dyn Write| load::write_table(&recording, output);
                self.send_table(trial, StreamName::Load, false, &table)?;
                self.send(&FromAgent::LoadDone { trial, outcome: recording.outcome })
            }
        }
    }

    fn tell_progress(&mut self) -> Result<()> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let (Some(watched), Some(recorder)) = (&mut running.watched, running.trial.recorder()) else {
            return Ok(());
        };
        watched.look(&recorder);
        if recorder.origin() == 0 {
            return Ok(());
        }
        let progress = recorder.progress(running.number, &running.rate, watched.longest);
        self.send(&FromAgent::Progress(progress))
    }

    fn send_table(&mut self, trial: u64, stream: StreamName, is_part: bool, table: TableWriter) -> Result<()> {
        self.send(&FromAgent::StreamBegin { trial, stream, is_part })?;
        let bytes = match (&mut self.bulk, stream) {
            (
                Some(disk),
                StreamName::Samples | StreamName::Trace | StreamName::Iterations | StreamName::MachineCounters,
            ) => {
                let start = self.bulk_position;
                let bytes = write_to_disk(disk, start, table).context("writing the bulk disk")?;
                self.bulk_position = (start + bytes).next_multiple_of(BULK_ALIGNMENT_BYTES);
                bytes
            }
            _ => write_frames(&mut self.output, table).context("sending a table")?,
        };
        self.send(&FromAgent::StreamEnd { trial, stream, bytes })
    }

    fn send(&mut self, message: &FromAgent) -> Result<()> {
        let payload = serde_json::to_vec(message).context("writing a message")?;
        let frame = encode_frame(FrameKind::Message, &payload)?;
        self.output.write_all(&frame).and_then(|()| self.output.flush()).context("writing to the channel")
    }
}
