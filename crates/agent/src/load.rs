//! A load that a control plane has asked for, and its table.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::thread;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use stealtime_probe::clock::TscRate;
use stealtime_probe::load::{LoadError, LoadRecording, LoadRow, RunningLoad};
use stealtime_wire::LoadRequest;

/// 6 MiB of rows.
const BATCH_ROWS: usize = 1 << 18;

/// A load of the server; dropped, it ends by itself.
pub struct Loading {
    pub trial: u64,
    /// `None` while it is being stopped.
    load: Option<RunningLoad>,
}

impl Loading {
    /// Starts a load. As long as one of `SCHED_FIFO` is on, the calling thread and the one that reads the channel keep
    /// off its CPUs.
    ///
    /// # Errors
    /// [`LoadError`]; nothing runs then.
    pub fn start(trial: u64, request: &LoadRequest, rate: &TscRate, reader: u32) -> Result<Self, LoadError> {
        let load = RunningLoad::start_beside(request, rate, &[reader])?;
        Ok(Self { trial, load: Some(load) })
    }

    pub fn thread_ids(&self) -> Vec<u32> {
        self.load.as_ref().map(|load| load.thread_ids().to_vec()).unwrap_or_default()
    }

    /// Ends the load and tells what came of it; `false` if it is being stopped already.
    ///
    /// On a thread of its own: one of the load's threads may wait for its CPU for as long as something of
    /// higher priority has it, and the agent must answer meanwhile.
    pub fn stop(&mut self, tell: impl FnOnce(Result<LoadRecording, LoadError>) + Send + 'static) -> bool {
        let Some(load) = self.load.take() else { return false };
        thread::spawn(move || tell(load.stop()));
        true
    }
}

pub fn write_table(recording: &LoadRecording, output: impl Write) -> Result<(), ArrowError> {
    let wide = |name: &str| Field::new(name, DataType::UInt64, false);
    let columns = vec![Field::new("thread", DataType::UInt32, false), wide("start"), wide("duration"), wide("work")];
    let outcome = &recording.outcome;
    let description = serde_json::json!({
        "schema_version": 1,
        "clock": "tsc",
        "units_per_s": outcome.tsc_hz,
        "work": outcome.unit,
    });
    let metadata = HashMap::from([("stealtime".to_owned(), description.to_string())]);
    let schema = Arc::new(Schema::new_with_metadata(columns, metadata));
    let mut writer = StreamWriter::try_new(output, &schema)?;
    for rows in recording.rows.chunks(BATCH_ROWS) {
        let number =
            |of: fn(&LoadRow) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(rows.iter().map(of))) };
        let threads: ArrayRef = Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.thread)));
        let columns = vec![threads, number(|row| row.start), number(|row| row.duration), number(|row| row.work)];
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    writer.finish()
}
