//! A guest: a QEMU, its memory, and what is needed to checkpoint it or to let it go on from a checkpoint.

use std::fs::File;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::json;

use crate::arguments::{Inherited, Role, arguments, disk_node};
use crate::blocks::{BlockError, check_blocks, parse_blocks};
use crate::console::Console;
use crate::device_state::{DeviceState, DeviceStateError, DeviceStateKind, XenSave, capabilities};
use crate::devices::{RunningDeviceError, UnsupportedDevice, check_running_devices};
use crate::event::Event;
use crate::firmware::find_firmware;
use crate::handover::{FILE_VARIABLE, SOCKET_VARIABLE};
use crate::ignore_shared::IgnoreSharedMigration;
use crate::images::ImageError;
use crate::lent::{Lent, lend, path_of};
use crate::machine::{Accelerator, BootFile, MachineSpec, MachineSpecError};
use crate::process::{ProcessError, QemuProcess};
use crate::qmp::{Qmp, QmpError};
use crate::ram::{RamError, RamFile};
use crate::reception::Reception;
use crate::rights::{QemuUser, Rights};
use crate::track::{TrackerKind, TrackerRefusal, choose_tracker};
use crate::tracked::TrackedMemory;

/// The preloaded library's file name.
const LIBRARY_NAME: &str = "libstealtime_pagetrack.so";
/// What QEMU says goes there.
pub const QEMU_LOG: &str = "qemu.log";
/// How long QEMU may take to start and to answer. Generous: on an overloaded host only an answer that never
/// comes matters.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What a console may take that nobody has set a bound for.
const CONSOLE_BYTES: u64 = 16 << 20;
/// How long QEMU may take to end after it closed its control socket.
const END_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("QEMU ended by itself ({status}); the end of its log: {log_tail}")]
    Ended {
        status: ExitStatus,
        /// The end of its messages.
        log_tail: String,
    },
    #[error(transparent)]
    Qmp(#[from] QmpError),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Ram(#[from] RamError),
    #[error(transparent)]
    State(#[from] DeviceStateError),
    #[error(transparent)]
    Machine(#[from] MachineSpecError),
    #[error(transparent)]
    Device(#[from] UnsupportedDevice),
    #[error(transparent)]
    Blocks(#[from] BlockError),
    /// The user that QEMU runs as has no part in KVM.
    #[error(
        "QEMU runs as {user}, which may not open /dev/kvm: give the device a group that may read and write it, or \
        name a user that may with `qemu_user`"
    )]
    Kvm { user: String },
    #[error("the {what} for QEMU cannot be made")]
    Prepare { what: &'static str, source: io::Error },
    #[error("a state can be loaded once, and only into a standby")]
    NotAStandby,
    #[error("the state of the devices cannot be given to QEMU")]
    Load(#[source] io::Error),
    #[error(
        "QEMU could not load the state of the devices: its migration is `{status}`; the end of its log: {log_tail}"
    )]
    LoadFailed {
        status: String,
        /// The end of its messages.
        log_tail: String,
    },
}

impl From<RunningDeviceError> for GuestError {
    fn from(error: RunningDeviceError) -> Self {
        match error {
            RunningDeviceError::Unsupported(refused) => Self::Device(refused),
            RunningDeviceError::Qmp(error) => Self::Qmp(error),
        }
    }
}

/// How a guest is started on this host.
#[derive(Clone, Debug)]
pub struct GuestSettings {
    pub program: PathBuf,
    /// An existing folder for the console (`console.log`, before it `console.log.1`) and QEMU's messages
    /// (`qemu.log`).
    pub folder: PathBuf,
    /// `libstealtime_pagetrack.so`; without it another tracker is taken.
    pub library: Option<PathBuf>,
    /// The tracker to begin with, see [`choose_tracker`].
    pub tracker: Option<TrackerKind>,
    /// How long QEMU may take to start, and to answer.
    pub timeout: Duration,
    /// What the console's files may take together.
    pub console_bytes: u64,
    /// As whom QEMU runs. None: a user of its own if this process is root's, else the user of this process.
    pub user: Option<QemuUser>,
}

impl GuestSettings {
    /// The usual ones; the library is looked for beside this program.
    pub fn new(program: &Path, folder: &Path) -> Self {
        Self {
            program: program.into(),
            folder: folder.into(),
            library: find_library(),
            tracker: None,
            timeout: TIMEOUT,
            console_bytes: CONSOLE_BYTES,
            user: None,
        }
    }
}

/// Beside the program, or one folder up (tests lie in `deps`).
fn find_library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    program.ancestors().skip(1).take(2).map(|folder| folder.join(LIBRARY_NAME)).find(|path| path.is_file())
}

/// The other ends of what QEMU is connected to: connected stream sockets.
#[derive(Debug)]
pub struct Sockets {
    /// QEMU sends and expects frames with a big-endian length of 4 bytes before each.
    pub netdev: OwnedFd,
    /// NBD servers, one for each disk of the specification; a trial needs none.
    pub disks: Vec<OwnedFd>,
}

impl<T: Into<OwnedFd>> From<T> for Sockets {
    /// Those of a machine without disks.
    fn from(netdev: T) -> Self {
        Self { netdev: netdev.into(), disks: Vec::new() }
    }
}

/// A QEMU with its memory. Dropping it kills it.
pub struct Guest {
    pub qmp: Qmp,
    pub ram: Arc<RamFile>,
    /// What was written of it, and copies of that.
    pub tracked: TrackedMemory,
    /// Which better trackers were refused, and why.
    pub refused_trackers: Vec<TrackerRefusal>,
    process: QemuProcess,
    state_file: Arc<File>,
    state_path_in_qemu: PathBuf,
    incoming: Option<UnixStream>,
    /// Ends behind the process.
    _console: Console,
}

impl Guest {
    /// Start a guest that will boot. It is paused before its first instruction: [`Guest::resume`] lets it
    /// run.
    pub fn boot(spec: &MachineSpec, settings: &GuestSettings, sockets: impl Into<Sockets>) -> Result<Self, GuestError> {
        Self::start(spec, settings, sockets.into(), Role::Fresh, Self::memory(spec)?)
    }

    /// Start a standby: paused, its memory empty (all zeros), waiting for [`Guest::load`].
    ///
    /// Write its memory through [`Guest::ram`] any time before that; QEMU itself writes nothing to it.
    pub fn standby(
        spec: &MachineSpec,
        settings: &GuestSettings,
        sockets: impl Into<Sockets>,
    ) -> Result<Self, GuestError> {
        Self::start(spec, settings, sockets.into(), Role::Standby, Self::memory(spec)?)
    }

    /// Start a QEMU that only tries out whether a state can be loaded: [`Guest::load`], and no more.
    ///
    /// It reads `ram`, the memory of a standby, as loading does (the rings of virtio are looked at), and what
    /// it writes goes to copies of its own. So it costs the memory of QEMU itself, and the few pages that
    /// loading writes.
    pub fn trial(
        spec: &MachineSpec,
        settings: &GuestSettings,
        netdev: OwnedFd,
        ram: Arc<RamFile>,
    ) -> Result<Self, GuestError> {
        // Of each trial the end counts, and there is one again and again.
        File::create(settings.folder.join(QEMU_LOG))
            .map_err(|source| GuestError::Prepare { what: "log of a trial", source })?;
        // Nothing is tracked, so that nothing is to be preloaded.
        let settings = GuestSettings { library: None, tracker: Some(TrackerKind::Shadow), ..settings.clone() };
        Self::start(spec, &settings, netdev.into(), Role::Trial, ram)
    }

    fn memory(spec: &MachineSpec) -> Result<Arc<RamFile>, RamError> {
        Ok(Arc::new(RamFile::anonymous("guest-memory", spec.memory_bytes)?))
    }

    fn start(
        spec: &MachineSpec,
        settings: &GuestSettings,
        sockets: Sockets,
        role: Role,
        ram: Arc<RamFile>,
    ) -> Result<Self, GuestError> {
        spec.check()?;
        let failed = |what| move |source: io::Error| GuestError::Prepare { what, source };
        let rights = Rights::of(settings.user.as_ref(), spec.accelerator);
        if spec.accelerator == Accelerator::Kvm && !rights.may_use_kvm() {
            return Err(GuestError::Kvm { user: rights.to_string() });
        }
        let state_file = memfd_create("device-state", MemfdFlags::CLOEXEC);
        let state_file = File::from(state_file.map_err(|errno| failed("file of the device state")(errno.into()))?);
        let (qmp_socket, qmp_of_qemu) = UnixStream::pair().map_err(failed("control socket"))?;
        let (reception, report_socket) = Reception::pair().map_err(failed("report socket"))?;
        let duplicate = |descriptor: BorrowedFd<'_>, what| descriptor.try_clone_to_owned().map_err(failed(what));
        let (console, console_of_qemu) = Console::start(settings.folder.join("console.log"), settings.console_bytes)
            .map_err(failed("socket of the console"))?;
        let mut lent = Lent::default();
        let inherited = Inherited {
            ram: lent.add(duplicate(ram.as_fd(), "memory")?),
            qmp: lent.add(qmp_of_qemu),
            netdev: lent.add(sockets.netdev),
            disks: if role == Role::Trial {
                vec![-1; spec.disks.len()]
            } else {
                sockets.disks.into_iter().map(|socket| lent.add(socket)).collect()
            },
            console: lent.add(console_of_qemu),
            firmware: lent.add(lend(&find_firmware(&settings.program)?)?),
            kernel: lend_boot_file(spec.kernel.as_ref(), &mut lent)?,
            initramfs: lend_boot_file(spec.initramfs.as_ref(), &mut lent)?,
        };
        let state_path_in_qemu = path_of(lent.add(duplicate(state_file.as_fd(), "file of the device state")?));
        let mut command = Command::new(&settings.program);
        command.args(arguments(spec, &inherited, role));
        if let Some(library) = &settings.library {
            let (device, inode) = ram.identity()?;
            command.env("LD_PRELOAD", path_of(lent.add(lend(library)?)));
            command.env(FILE_VARIABLE, format!("{device}:{inode}"));
            command.env(SOCKET_VARIABLE, lent.add(report_socket).to_string());
        }
        let (incoming, incoming_of_qemu) = UnixStream::pair().map_err(failed("socket of the state"))?;
        let incoming_number = incoming_of_qemu.as_raw_fd();
        if role.waits_for_a_state() {
            lent.add(incoming_of_qemu);
        }
        let process = QemuProcess::spawn(command, lent.into_all(), rights, &settings.folder.join(QEMU_LOG))?;
        let qmp = Qmp::over(qmp_socket, settings.timeout).map_err(|error| explain(error, &process))?;
        // QMP answers only after the machine is made, so the memory is mapped by now.
        let library = settings
            .library
            .as_ref()
            .map_or("libstealtime_pagetrack.so (not found)".into(), |library| library.display().to_string());
        let handover = reception.conclude(&library, spec.memory_bytes);
        let choice = choose_tracker(settings.tracker, &ram, process.pid(), handover);
        let mut guest = Self {
            qmp,
            tracked: TrackedMemory::new(Arc::clone(&ram), choice.tracker),
            ram,
            refused_trackers: choice.refused,
            process,
            state_file: Arc::new(state_file),
            state_path_in_qemu,
            incoming: None,
            _console: console,
        };
        guest.check(spec)?;
        if role.waits_for_a_state() {
            guest.await_state(incoming_number)?;
            incoming.set_write_timeout(Some(settings.timeout)).map_err(failed("socket of the state"))?;
            guest.incoming = Some(incoming);
        }
        Ok(guest)
    }

    fn check(&mut self, spec: &MachineSpec) -> Result<(), GuestError> {
        let blocks = parse_blocks(&self.qmp.execute_human("info ramblock")?)?;
        check_blocks(&blocks, spec.memory_bytes)?;
        let nodes: Vec<_> = spec.disks.iter().map(|disk| disk_node(&disk.name)).collect();
        Ok(check_running_devices(&mut self.qmp, &nodes)?)
    }

    /// Let QEMU wait for the state on a socket, so that only the state itself is left to send when it
    /// matters.
    fn await_state(&mut self, socket: RawFd) -> Result<(), GuestError> {
        self.qmp.execute("migrate-set-capabilities", capabilities())?;
        self.qmp.execute("migrate-incoming", json!({"uri": format!("fd:{socket}")}))?;
        Ok(())
    }

    /// A way to take the state of this guest's devices; it is prepared.
    pub fn device_state(&mut self, kind: DeviceStateKind) -> Result<Box<dyn DeviceState>, GuestError> {
        let mut way: Box<dyn DeviceState> = match kind {
            DeviceStateKind::XenSave => {
                Box::new(XenSave::new(Arc::clone(&self.state_file), self.state_path_in_qemu.clone()))
            }
            DeviceStateKind::IgnoreShared => Box::new(IgnoreSharedMigration::default()),
        };
        way.prepare(&mut self.qmp)?;
        Ok(way)
    }

    /// Load a state into a standby. It stays paused.
    pub fn load(&mut self, device_state: &[u8]) -> Result<(), GuestError> {
        self.hand_over(device_state)?;
        self.finish_load()
    }

    /// Load a state into a standby and let it run as soon as it is loaded: a round trip less than with two
    /// calls.
    ///
    /// `cont` is sent ahead. QEMU keeps it in mind if it comes during the load, and runs at once if it comes
    /// after it. The exception is a state of [`IgnoreSharedMigration`]: it carries the word that the guest
    /// was paused, which counts more than what was kept in mind, so that `cont` is sent again.
    pub fn load_and_resume(&mut self, device_state: &[u8]) -> Result<(), GuestError> {
        let resume = self.qmp.begin("cont", json!({})).map_err(|error| explain(error, &self.process))?;
        self.hand_over(device_state)?;
        self.finish_load()?;
        self.qmp.finish(resume).map_err(|error| explain(error, &self.process))?;
        let status = self.qmp.execute("query-status", json!({}));
        let status = status.map_err(|error| explain(error, &self.process))?;
        if status["running"] == true { Ok(()) } else { self.resume() }
    }

    fn hand_over(&mut self, device_state: &[u8]) -> Result<(), GuestError> {
        let mut incoming = self.incoming.take().ok_or(GuestError::NotAStandby)?;
        incoming.write_all(device_state).map_err(GuestError::Load)?;
        incoming.shutdown(Shutdown::Write).map_err(GuestError::Load)
    }

    fn finish_load(&mut self) -> Result<(), GuestError> {
        let ended = self.qmp.wait_for_event("the load of the state", |event| migration_end(event).is_some());
        let ended = ended.map_err(|error| explain(error, &self.process))?;
        match migration_end(&ended) {
            Some("completed") => Ok(()),
            status => {
                Err(GuestError::LoadFailed { status: status.unwrap_or("?").into(), log_tail: self.process.log_tail() })
            }
        }
    }

    pub fn resume(&mut self) -> Result<(), GuestError> {
        self.qmp.execute("cont", json!({})).map(drop).map_err(|error| explain(error, &self.process))
    }

    pub fn stop(&mut self) -> Result<(), GuestError> {
        self.qmp.execute("stop", json!({})).map(drop).map_err(|error| explain(error, &self.process))
    }

    /// Kill QEMU and wait until it is gone.
    pub fn kill(&mut self) -> Result<ExitStatus, GuestError> {
        Ok(self.process.kill()?)
    }

    /// Readable once QEMU has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.process.pidfd()
    }

    pub fn process(&self) -> &QemuProcess {
        &self.process
    }
}

fn lend_boot_file(file: Option<&BootFile>, lent: &mut Lent) -> Result<Option<RawFd>, ImageError> {
    file.map(|file| Ok(lent.add(lend(&file.path)?))).transpose()
}

fn migration_end(event: &Event) -> Option<&str> {
    let status = (event.name == "MIGRATION").then(|| event.data["status"].as_str())??;
    matches!(status, "completed" | "failed").then_some(status)
}

/// Say how QEMU ended instead of that its socket closed.
fn explain(error: QmpError, process: &QemuProcess) -> GuestError {
    if !matches!(error, QmpError::Closed { .. }) {
        return GuestError::Qmp(error);
    }
    match process.wait_for_end(END_TIMEOUT) {
        Some(status) => GuestError::Ended { status, log_tail: process.log_tail() },
        None => GuestError::Qmp(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::machine::tests::machine;

    #[test]
    fn the_log_of_trials_has_the_words_of_the_last_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["bios-256k.bin", "image"] {
            std::fs::write(path(name), "").unwrap();
        }
        let script =
            format!("#!/bin/sh\n[ \"$1\" = -L ] && exec echo {}\necho one more trial\n", folder.path().display());
        std::fs::write(path("qemu"), script).unwrap();
        std::fs::set_permissions(path("qemu"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let image = || BootFile { path: path("image"), sha256: String::new() };
        let spec = MachineSpec {
            memory_bytes: 1 << 20,
            kernel: Some(image()),
            initramfs: Some(image()),
            devices: Vec::new(),
            disks: Vec::new(),
            ..machine()
        };
        // A user of its own could not enter the folder.
        let root = rustix::process::geteuid().is_root();
        let user = root.then(|| QemuUser { uid: 0, gid: 0, groups: Vec::new() });
        let settings = GuestSettings { user, ..GuestSettings::new(&path("qemu"), folder.path()) };
        for _ in 0..2 {
            let ram = Arc::new(RamFile::anonymous("test", spec.memory_bytes).unwrap());
            let (_, netdev) = UnixStream::pair().unwrap();
            let ended = Guest::trial(&spec, &settings, netdev.into(), ram).err();
            assert!(matches!(&ended, Some(GuestError::Ended { .. })), "{ended:?}");
            assert_eq!(std::fs::read_to_string(path("qemu.log")).unwrap(), "one more trial\n");
        }
    }
}
