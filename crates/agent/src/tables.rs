//! The tables of a trial as Arrow IPC streams, written batch by batch so that no second copy of all samples
//! exists.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use stealtime_probe::running::Taken;
use stealtime_probe::{Iteration, Job, Reading, Recording, Rows};
use stealtime_wire::{StreamName, TrialOutcome};

use crate::sample_source::{BATCH_ROWS, Event, SampleSource};

/// Writes a table; of samples those that were not taken away while the trial ran.
pub fn write(recording: &Recording, taken: Taken, stream: StreamName, output: impl Write) -> Result<(), ArrowError> {
    match stream {
        StreamName::Samples | StreamName::Events => {
            write_part(&SampleSource::rest(recording, taken), &recording.outcome, stream, output)
        }
        StreamName::Iterations | StreamName::Jobs => match &recording.rows {
            Rows::Iterations(rows, _) => write_iterations(recording, rows, output),
            Rows::Jobs(rows) => write_jobs(recording, rows, output),
            Rows::None => Err(no_table(stream)),
        },
        StreamName::MachineCounters => match &recording.rows {
            Rows::Iterations(_, readings) => write_readings(recording, readings, output),
            Rows::Jobs(_) | Rows::None => Err(no_table(stream)),
        },
        StreamName::Trace | StreamName::Load => Err(no_table(stream)),
    }
}

/// Writes a table of some samples.
pub fn write_part(
    source: &SampleSource,
    outcome: &TrialOutcome,
    stream: StreamName,
    output: impl Write,
) -> Result<(), ArrowError> {
    match stream {
        StreamName::Samples => write_samples(source, outcome, output),
        StreamName::Events => write_events(&source.events(), outcome, output),
        _ => Err(no_table(stream)),
    }
}

fn no_table(stream: StreamName) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("a recording has no table {stream:?}"))
}

/// The tables that a trial has.
pub fn streams(recording: &Recording) -> &'static [StreamName] {
    match recording.rows {
        Rows::None => &[StreamName::Samples, StreamName::Events],
        Rows::Iterations(..) => &[StreamName::Iterations, StreamName::MachineCounters],
        Rows::Jobs(_) => &[StreamName::Jobs, StreamName::Events],
    }
}

fn write_jobs(recording: &Recording, jobs: &[Job], output: impl Write) -> Result<(), ArrowError> {
    type Column = (&'static str, fn(&Job) -> u64);
    const TIMES: [Column; 3] =
        [("release", |job| job.release), ("start", |job| job.start), ("finish", |job| job.finish)];
    let column = |name: &str, kind: DataType| Field::new(name, kind, false);
    let fields: Vec<Field> = [column("task", DataType::UInt16), column("job", DataType::UInt32)]
        .into_iter()
        .chain(TIMES.map(|(name, _)| column(name, DataType::UInt64)))
        .chain([column("cpu", DataType::UInt16)])
        .collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, description(&recording.outcome)));
    let mut writer = StreamWriter::try_new(output, &schema)?;
    for rows in jobs.chunks(BATCH_ROWS) {
        let short = |of: fn(&Job) -> u16| -> ArrayRef { Arc::new(UInt16Array::from_iter_values(rows.iter().map(of))) };
        let mut arrays =
            vec![short(|job| job.task), Arc::new(UInt32Array::from_iter_values(rows.iter().map(|job| job.job)))];
        arrays.extend(
            TIMES.iter().map(|(_, of)| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) }),
        );
        arrays.push(short(|job| job.cpu));
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), arrays)?)?;
    }
    writer.finish()
}

fn write_iterations(recording: &Recording, iterations: &[Iteration], output: impl Write) -> Result<(), ArrowError> {
    type Column = (&'static str, fn(&Iteration) -> u64);
    const WIDE: [Column; 10] = [
        ("start_ns", |row| row.start_ns),
        ("duration_ns", |row| row.duration_ns),
        ("cpu_ns", |row| row.cpu_ns),
        ("fill_cpu_ns", |row| row.fill_cpu_ns),
        ("fault_cpu_ns", |row| row.fault_cpu_ns),
        ("lock_wait_ns", |row| row.lock_wait_ns),
        ("io_ns", |row| row.io_ns),
        ("minor_faults", |row| row.minor_faults),
        ("major_faults", |row| row.major_faults),
        ("involuntary_switches", |row| row.involuntary_switches),
    ];
    let narrow = ["task", "iteration"].map(|name| Field::new(name, DataType::UInt32, false));
    let wide = WIDE.map(|(name, _)| Field::new(name, DataType::UInt64, false));
    let fields: Vec<Field> = narrow.into_iter().chain(wide).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, description(&recording.outcome)));
    let mut writer = StreamWriter::try_new(output, &schema)?;
    for rows in iterations.chunks(BATCH_ROWS) {
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.task))),
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.iteration))),
        ];
        arrays.extend(
            WIDE.iter().map(|(_, of)| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) }),
        );
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), arrays)?)?;
    }
    writer.finish()
}

fn write_readings(recording: &Recording, readings: &[Reading], output: impl Write) -> Result<(), ArrowError> {
    type Column<T> = fn(&Reading) -> T;
    const TIMES: [(&str, Column<u64>); 2] = [("at_ns", |row| row.at_ns), ("elapsed_ns", |row| row.elapsed_ns)];
    type Words = fn(&Reading) -> &str;
    const WORDS: [(&str, Words); 2] = [("program", |row| &row.program), ("figure", |row| row.figure)];
    let fields: Vec<Field> = (TIMES.iter().map(|(name, _)| Field::new(*name, DataType::UInt64, false)))
        .chain(WORDS.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)))
        .chain([Field::new("value", DataType::UInt64, false)])
        .collect();
    let schema = Arc::new(Schema::new_with_metadata(fields, description(&recording.outcome)));
    let mut writer = StreamWriter::try_new(output, &schema)?;
    for rows in readings.chunks(BATCH_ROWS) {
        let numbers = |of: Column<u64>| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) };
        let words = |of: Words| -> ArrayRef { Arc::new(StringArray::from_iter_values(rows.iter().map(of))) };
        let mut arrays: Vec<ArrayRef> = TIMES.iter().map(|(_, of)| numbers(*of)).collect();
        arrays.extend(WORDS.iter().map(|(_, of)| words(*of)));
        arrays.push(numbers(|row| row.value));
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), arrays)?)?;
    }
    writer.finish()
}

fn write_samples(source: &SampleSource, outcome: &TrialOutcome, output: impl Write) -> Result<(), ArrowError> {
    let column = |name: &str| Field::new(name, DataType::UInt32, false);
    let mut columns = vec![column("duration")];
    if source.layout().has_gaps() {
        columns.insert(0, column("gap"));
    }
    columns.extend(source.layout().further_columns().iter().map(|name| column(name)));
    let schema = Arc::new(Schema::new_with_metadata(columns, description(outcome)));
    let mut writer = StreamWriter::try_new(output, &schema)?;
    for rows in source.batches() {
        let array = |values: Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(values)) };
        let mut arrays: Vec<ArrayRef> = rows.gaps.map(array).into_iter().collect();
        arrays.push(array(rows.durations));
        arrays.extend(rows.further.into_iter().map(array));
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), arrays)?)?;
    }
    writer.finish()
}

fn write_events(rows: &[Event], outcome: &TrialOutcome, output: impl Write) -> Result<(), ArrowError> {
    let column = |name: &str| Field::new(name, DataType::UInt64, false);
    let columns = vec![Field::new("kind", DataType::Utf8, false), column("index"), column("start"), column("duration")];
    let schema = Arc::new(Schema::new_with_metadata(columns, description(outcome)));
    let number =
        |pick: fn(&Event) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(rows.iter().map(pick))) };
    let kinds: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0)));
    let arrays = vec![kinds, number(|row| row.1), number(|row| row.2), number(|row| row.3)];
    let mut writer = StreamWriter::try_new(output, &schema)?;
    writer.write(&RecordBatch::try_new(Arc::clone(&schema), arrays)?)?;
    writer.finish()
}

/// So that a table can be read alone, under the same key as in a run's Parquet files (`docs/run-format.md`).
fn description(outcome: &TrialOutcome) -> HashMap<String, String> {
    let description = serde_json::json!({
        "schema_version": 1,
        "layout": outcome.layout,
        "units_per_s": outcome.clock.units_per_s,
        "clock": outcome.clock,
    });
    HashMap::from([("stealtime".to_owned(), description.to_string())])
}
