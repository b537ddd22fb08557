//! How a table leaves the agent: cut into Arrow frames, or over a bulk disk that the host can read.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use anyhow::Result;
use arrow_schema::ArrowError;
use stealtime_wire::frame::ARROW_LIMIT_BYTES;
use stealtime_wire::{FrameKind, encode_frame};

/// Arrow bytes that are put into one frame; a quarter of the limit keeps the reader's latency low.
const ARROW_FRAME_BYTES: usize = ARROW_LIMIT_BYTES / 4;

/// Each table of a trial begins on the bulk disk at the next multiple of this; the first at 0.
pub const BULK_ALIGNMENT_BYTES: u64 = 4096;

/// Writes a table as an Arrow IPC stream.
pub type TableWriter<'a> = &'a dyn Fn(&mut dyn Write) -> Result<(), ArrowError>;

/// Sends a table as frames; gives its bytes.
pub fn write_frames(output: &mut (dyn Write + Send), table: TableWriter) -> Result<u64> {
    let mut frames = ArrowFrames { output, pending: Vec::with_capacity(ARROW_FRAME_BYTES), sent: 0 };
    table(&mut frames)?;
    frames.flush()?;
    Ok(frames.sent)
}

/// Writes a table from the byte `start` of the disk and waits until the host can read it; gives its bytes.
pub fn write_to_disk(disk: &mut File, start: u64, table: TableWriter) -> Result<u64> {
    disk.seek(SeekFrom::Start(start))?;
    let mut buffered = BufWriter::with_capacity(ARROW_FRAME_BYTES, &mut *disk);
    table(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    disk.sync_all()?;
    Ok(disk.stream_position()? - start)
}

/// Cuts a byte stream into Arrow frames.
struct ArrowFrames<'a> {
    output: &'a mut (dyn Write + Send),
    pending: Vec<u8>,
    sent: u64,
}

impl Write for ArrowFrames<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = ARROW_FRAME_BYTES - self.pending.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.pending.extend_from_slice(taken);
        if self.pending.len() == ARROW_FRAME_BYTES {
            self.flush()?;
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let frame = encode_frame(FrameKind::Arrow, &self.pending).map_err(io::Error::other)?;
        self.output.write_all(&frame)?;
        self.output.flush()?;
        self.sent += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
