//! What each epoch cost, a line each: `epochs.csv` in the folder of the member.

use std::io;
use std::path::Path;

use serde::Serialize;
use stealtime_capture::BoundedFile;

/// One epoch; times in nanoseconds, of the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EpochRow {
    /// The term in which it was captured.
    pub term: u64,
    pub epoch: u64,
    /// When the guest was told to stop.
    pub begin_ns: u64,
    /// Until the guest stood still.
    pub stop_ns: u64,
    /// Until all of its output was read and the queue was cut.
    pub cut_ns: u64,
    /// Until the state of its devices was there, beyond the cut.
    pub save_ns: u64,
    /// To find the written pages.
    pub scan_ns: u64,
    /// To copy them aside.
    pub copy_ns: u64,
    /// Until the guest ran again.
    pub continue_ns: u64,
    /// The sum of the six: how long the guest stood.
    pub pause_ns: u64,
    /// Since the epoch before, how long the guest stood because its standby could not follow.
    pub held_back_ns: u64,
    /// Of it, at once.
    pub held_back_longest_ns: u64,
    /// To encode the pages.
    pub encode_ns: u64,
    /// From the first byte into the link to the last.
    pub ship_ns: u64,
    /// From the last byte to the acknowledgement.
    pub acknowledge_ns: u64,
    /// From the cut to the release of the output.
    pub hold_ns: u64,
    pub pages: u64,
    pub raw_bytes: u64,
    /// Of them, those that hold nothing but zeros.
    pub zero_pages: u64,
    /// Those that hold what they held before.
    pub same_pages: u64,
    /// Those that went as the difference from what they held before.
    pub delta_pages: u64,
    /// Those that went as they are.
    pub whole_pages: u64,
    /// What travelled, with device state and headers.
    pub shipped_bytes: u64,
    /// Of it, the state of the devices.
    pub device_bytes: u64,
    /// Of it, what was written of the disks.
    pub disk_bytes: u64,
    /// Frames of the guest that were cut into this epoch.
    pub frames: u64,
    /// The interval that was aimed at when it began.
    pub interval_ns: u64,
}

#[derive(Debug)]
pub struct EpochLog {
    lines: BoundedFile,
}

impl EpochLog {
    /// Begin a new file of at most so many bytes, as soon as there is something to write. Each part of it
    /// begins with the names.
    pub fn new(folder: &Path, limit_bytes: u64) -> Self {
        let with_names = text_of(&EpochRow::default(), true).unwrap_or_default();
        let names = with_names.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        Self { lines: BoundedFile::anew(folder.join("epochs.csv"), limit_bytes).with_head(names.to_vec()) }
    }

    pub fn add(&mut self, row: &EpochRow) -> io::Result<()> {
        self.lines.add(&text_of(row, false)?)
    }
}

fn text_of(row: &EpochRow, with_names: bool) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(with_names).from_writer(Vec::new());
    writer.serialize(row).map_err(io::Error::other)?;
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_there_before_the_file_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = EpochLog::new(folder.path(), 1 << 20);
        log.add(&EpochRow { term: 2, epoch: 7, pages: 1850, ..EpochRow::default() }).unwrap();
        log.add(&EpochRow { term: 2, epoch: 8, ..EpochRow::default() }).unwrap();
        let text = std::fs::read_to_string(folder.path().join("epochs.csv")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("term,epoch,begin_ns,stop_ns"), "{text}");
        assert!(lines[1].starts_with("2,7,0,0") && lines[1].contains(",1850,"), "{text}");
        assert!(lines[2].starts_with("2,8,0,0") && lines.len() == 3, "{text}");
    }
}
