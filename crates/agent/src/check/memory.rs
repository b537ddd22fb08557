//! What the kernel remembers of the last moments: ring buffers that overwrite their oldest events, and are read
//! only when somebody was late. So a check costs the same on an idle machine and on one that switches a million
//! times a second, and takes no more memory than the buffers have.

use std::sync::Arc;

use anyhow::Context;
use stealtime_trace::{Recorded, Recorder, Tracefs};
use stealtime_wire::TraceRequest;

use crate::restore::Watchdog;

/// Of all CPUs together, and of each at most and at least. 512 KiB hold some 20,000 events: the last 0.1 s where
/// 200,000 come in a second.
const ALL_BYTES: u64 = 64 << 20;
const MOST_BYTES: u64 = 512 << 10;
const LEAST_BYTES: u64 = 64 << 10;

/// So often the buffers are read at most: each time takes a few milliseconds a CPU, at low priority.
const MOST_READINGS: u32 = 40;

/// A wait that is not over is looked at each time it has doubled: nobody knows when it ends.
const WAIT_GROWTH: u64 = 2;

/// Rounds over all buffers in one reading. What is written meanwhile is none of what was looked for.
const MOST_ROUNDS: u32 = 64;

/// The ring buffers, on from [`Self::begin`] on.
pub struct Memory {
    recorder: Recorder,
    /// What is not later than this is not worth a reading.
    level_ns: u64,
    latest_ns: u64,
    latest_wait_ns: u64,
    readings: u32,
    failure: Option<String>,
    /// Removes the instance if this process is killed.
    watchdog: Watchdog,
}

impl Memory {
    /// Sets up the buffers; says why there are none.
    pub fn prepare(cpus: &[u32], level_ns: u64) -> Result<Self, String> {
        let bytes = (ALL_BYTES / cpus.len().max(1) as u64).clamp(LEAST_BYTES, MOST_BYTES);
        let request = TraceRequest {
            cpus: cpus.to_vec(),
            buffer_bytes_per_cpu: bytes,
            hidden_threads: None,
            user_mode_linux: Vec::new(),
            extra_groups: Vec::new(),
            keep_bytes_per_cpu: None,
            processes: Vec::new(),
        };
        let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
        // Before there is something to remove.
        let watchdog = Watchdog::start().map_err(|error| format!("{error:#}"))?;
        let recorder = Recorder::prepare(Arc::new(tracefs), &request).map_err(|error| error.to_string())?;
        Ok(Self { recorder, level_ns, latest_ns: 0, latest_wait_ns: 0, readings: 0, failure: None, watchdog })
    }

    pub fn begin(&self) -> anyhow::Result<()> {
        self.recorder.switch().on().context("the kernel's trace cannot be switched on")
    }

    /// Reads the buffers if a wake-up was later than all before, or has been waited for so long.
    pub fn note(&mut self, done_ns: u64, waits_ns: u64) {
        let is_latest = done_ns > self.level_ns.max(self.latest_ns);
        let is_long_wait = waits_ns > self.level_ns.max(self.latest_ns).max(self.latest_wait_ns * WAIT_GROWTH);
        if (is_latest || is_long_wait) && self.failure.is_none() {
            self.read(done_ns, waits_ns);
        }
    }

    fn read(&mut self, done_ns: u64, waits_ns: u64) {
        if self.readings >= MOST_READINGS {
            self.failure = Some(format!("the kernel's buffers were read {MOST_READINGS} times already"));
            return;
        }
        self.readings += 1;
        for _ in 0..MOST_ROUNDS {
            match self.recorder.drain() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.failure = Some(error.to_string());
                    break;
                }
            }
        }
        self.latest_ns = self.latest_ns.max(done_ns);
        self.latest_wait_ns = self.latest_wait_ns.max(waits_ns);
    }

    /// Ends it and gives what was read, with the rest.
    pub fn end(self) -> Result<Recorded, String> {
        let Self { recorder, failure, watchdog, .. } = self;
        let recorded = recorder.finish().map_err(|error| error.to_string());
        drop(watchdog);
        failure.map_or(recorded, Err)
    }
}
