//! The byte stream to the control plane: standard streams, a serial line or a virtio port.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// A device may appear a little after its driver was loaded.
const DEVICE_PATIENCE: Duration = Duration::from_secs(5);

/// The two directions of a channel.
pub struct Channel {
    /// From the control plane.
    pub input: Box<dyn Read + Send>,
    /// To the control plane.
    pub output: Box<dyn Write + Send>,
}

/// Opens a channel by its name on the kernel command line: a path, or `virtio:NAME`.
pub fn open(name: &str) -> Result<Channel> {
    let device = wait_for_device(name)?;
    let file = OpenOptions::new().read(true).write(true).open(&device).with_context(|| device.display().to_string())?;
    make_raw(&file).with_context(|| device.display().to_string())?;
    let input = file.try_clone().context("the channel cannot be duplicated")?;
    Ok(Channel { input: Box::new(input), output: Box::new(file) })
}

/// Opens the disk that samples are written to.
pub fn open_bulk(name: &str) -> Result<File> {
    let device = wait_for_device(name)?;
    OpenOptions::new().write(true).open(&device).with_context(|| device.display().to_string())
}

fn wait_for_device(name: &str) -> Result<PathBuf> {
    let started = Instant::now();
    loop {
        let found = match name.strip_prefix("virtio:") {
            Some(port) => virtio_port(Path::new("/sys/class/virtio-ports"), port),
            None => Some(PathBuf::from(name)).filter(|path| path.exists()),
        };
        match found {
            Some(path) => return Ok(path),
            None if started.elapsed() > DEVICE_PATIENCE => bail!("the device {name} did not appear"),
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The device of the virtio port with this name. Without udev there is no link under `/dev/virtio-ports`.
fn virtio_port(class: &Path, port: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(class).ok()?;
    let has_name =
        |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == port);
    let entry = entries.filter_map(Result::ok).find(has_name)?;
    Some(Path::new("/dev").join(entry.file_name())).filter(|path| path.exists())
}

/// A terminal line must not echo or translate bytes; other files have nothing to set.
fn make_raw(file: &File) -> Result<()> {
    let Ok(mut attributes) = tcgetattr(file.as_fd()) else { return Ok(()) };
    cfmakeraw(&mut attributes);
    tcsetattr(file.as_fd(), SetArg::TCSANOW, &attributes).context("the line cannot be set to raw mode")
}
