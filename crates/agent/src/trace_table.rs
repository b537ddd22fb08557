//! The table `trace`, written batch by batch: the events of an hour do not fit in memory at once.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int16Array, Int32Array, Int64Array, RecordBatch, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use stealtime_trace::{Recorded, Row};

/// 2 MiB of rows.
const BATCH_ROWS: usize = 1 << 16;

/// Takes all rows of a recording and writes them.
pub fn write(recorded: &mut Recorded, tsc_hz: f64, output: impl Write) -> Result<(), ArrowError> {
    let schema = schema(recorded.clock, tsc_hz);
    let mut writer = StreamWriter::try_new(output, &schema)?;
    let mut rows = Vec::with_capacity(BATCH_ROWS);
    loop {
        rows.clear();
        let has_more =
            recorded.take(BATCH_ROWS, &mut rows).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
        if !rows.is_empty() {
            writer.write(&batch(&schema, &rows)?)?;
        }
        if !has_more {
            return writer.finish();
        }
    }
}

fn schema(clock: &str, tsc_hz: f64) -> Arc<Schema> {
    let columns = [
        ("time", DataType::UInt64),
        ("cpu", DataType::UInt16),
        ("kind", DataType::UInt8),
        ("thread", DataType::Int32),
        ("value", DataType::Int64),
        ("other", DataType::Int32),
        ("priority", DataType::Int16),
        ("name", DataType::UInt32),
    ];
    let columns: Vec<Field> = columns.into_iter().map(|(name, kind)| Field::new(name, kind, false)).collect();
    let description = serde_json::json!({ "schema_version": 1, "clock": clock, "units_per_s": tsc_hz });
    let metadata = HashMap::from([("stealtime".to_owned(), description.to_string())]);
    Arc::new(Schema::new_with_metadata(columns, metadata))
}

fn batch(schema: &Arc<Schema>, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.time))),
        Arc::new(UInt16Array::from_iter_values(rows.iter().map(|row| row.cpu))),
        Arc::new(UInt8Array::from_iter_values(rows.iter().map(|row| row.kind as u8))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.thread))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.value))),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.other))),
        Arc::new(Int16Array::from_iter_values(rows.iter().map(|row| row.priority))),
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.name))),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
}
