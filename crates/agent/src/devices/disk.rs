//! `disk` and `mark-disk`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use stealtime_console::quantities::{nanoseconds, parse_bytes};
use stealtime_console::remarks;
use stealtime_probe::disk::mark;
use stealtime_wire::{Disk, DiskEngine, DiskOperation, DiskOrder, DiskTarget, Probe};

use super::measuring::{Measure, measure};

/// In which order blocks are transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Each is drawn anew
    Random,
    /// From the first to the last, and again
    Sequential,
}

/// What hands transfers to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    IoUring,
    /// Linux AIO
    Aio,
}

/// `disk`
#[derive(Debug, Args)]
pub struct DiskArguments {
    #[command(flatten)]
    target: Where,
    /// Write instead of reading
    #[arg(long)]
    write: bool,
    /// Consent to lose what the --target holds
    #[arg(long, requires = "target")]
    overwrite: bool,
    /// What the mark of the --marked disk calls its device, where there are several
    #[arg(long, value_name = "NAME", requires = "marked")]
    device: Option<String>,
    /// The size of the scratch file
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_bytes)]
    size: u64,
    /// The size of each transfer, a multiple of 512 B and of the disk's blocks
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_block)]
    block: u32,
    /// How many transfers may be under way at a time
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// Open loop: a transfer is due each interval, whatever became of those before. Default: a closed loop, in which
    /// each that ends is followed by another
    #[arg(short, long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    interval: Option<Duration>,
    /// In which order blocks are transferred
    #[arg(long, value_enum, default_value = "random")]
    order: Order,
    /// How much of the target is used [default: all of it]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    span: Option<u64>,
    /// Of the order of blocks, and of what is written
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What hands transfers to the kernel [default: io-uring, where the kernel has it, else aio]
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    #[command(flatten)]
    measure: Measure,
}

/// One of these says what is transferred from or to.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Where {
    /// A file or a disk that is there
    #[arg(long, value_name = "PATH")]
    target: Option<PathBuf>,
    /// A new file without a name on the file system of this folder
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// The only disk of this machine that was made with mark-disk
    #[arg(long)]
    marked: bool,
}

/// `mark-disk`
#[derive(Debug, Args)]
pub struct MarkDisk {
    /// The image, which must not exist
    file: PathBuf,
    /// What the mark calls the device that the disk is on, at most 32 letters
    #[arg(long, value_name = "NAME", default_value = "")]
    device: String,
    /// How large it is; all of it is written
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_bytes)]
    size: u64,
}

fn parse_block(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_multiple_of(512) && (512..=16 << 20).contains(&bytes) => Ok(bytes),
        _ => Err(format!("{text:?} is no size of a transfer: a multiple of 512 B from 512 B to 16 MiB")),
    }
}

/// `stealtime-agent disk`
pub fn run(arguments: &DiskArguments) -> Result<ExitCode> {
    measure(Probe::Disk(arguments.request()?), &arguments.measure, "stealtime-agent disk")
}

impl DiskArguments {
    fn request(&self) -> Result<Disk> {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let target = match &self.target {
            Where { target: Some(path), .. } => DiskTarget::Given { path: text(path), overwrite: self.overwrite },
            Where { scratch: Some(folder), .. } => DiskTarget::Scratch { folder: text(folder), bytes: self.size },
            Where { .. } => DiskTarget::Marked { path: None, device: self.device.clone() },
        };
        Ok(Disk {
            target,
            operation: if self.write { DiskOperation::Write } else { DiskOperation::Read },
            order: match self.order {
                Order::Random => DiskOrder::Random,
                Order::Sequential => DiskOrder::Sequential,
            },
            block_bytes: self.block,
            depth: self.depth,
            interval_ns: self.interval.map(nanoseconds).transpose()?,
            span_bytes: self.span,
            seed: self.seed,
            engine: self.engine.map(|engine| match engine {
                Engine::IoUring => DiskEngine::IoUring,
                Engine::Aio => DiskEngine::Aio,
            }),
        })
    }
}

/// `stealtime-agent mark-disk`
pub fn mark(arguments: &MarkDisk) -> Result<ExitCode> {
    let (path, least) = (arguments.file.display(), 2 * mark::FIRST_BYTE);
    anyhow::ensure!(arguments.size >= least, "a marked disk of {} bytes has no room: give it {least}", arguments.size);
    let made = mark::make(&arguments.file, &arguments.device, arguments.size, 1);
    made.with_context(|| format!("{path} cannot be made a disk of {} bytes", arguments.size))?;
    remarks::say(format_args!("{path} is a disk that `disk --marked` may write to"));
    Ok(ExitCode::SUCCESS)
}
