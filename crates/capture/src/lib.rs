//! What one epoch takes from a stopped QEMU: written pages and the state of its devices.
//!
//! A guest is a stock QEMU whose memory is a shared file that this process maps too ([`RamFile`]). Which
//! pages of it were written since they were staged is told by [`TrackedMemory`]; the state of virtual CPUs
//! and devices by a [`DeviceState`]; both are asked over QMP ([`Qmp`]) while the guest is stopped. [`Guest`]
//! ties them to a process: one that boots, or a paused standby into which a saved state is loaded.
//!
//! One epoch, in this order (nothing may run between `stop` and the end of the copy): `stop` ->
//! [`DeviceState::begin_capture`] -> drain and cut the network queue -> [`DeviceState::finish_capture`] ->
//! [`TrackedMemory::collect`] -> [`TrackedMemory::stage`] -> `cont`. The scan comes after the devices are
//! saved, so that what saving wrote is in it.

mod arguments;
mod blocks;
mod bounded_file;
mod console;
mod device_state;
mod devices;
mod event;
mod firmware;
mod guest;
/// The words of the preloaded library; its file belongs to `stealtime-pagetrack`, which cannot be linked
/// here: its `mmap` would come with it.
#[path = "../../pagetrack/src/handover.rs"]
pub mod handover;
mod ignore_shared;
mod images;
mod lent;
mod machine;
mod notice;
mod pages;
mod process;
mod qmp;
mod ram;
mod reception;
mod rights;
mod sys;
mod track;
mod tracked;

pub use arguments::{Inherited, Role, arguments};
pub use blocks::{BlockError, RamBlock, check_blocks, parse_blocks};
pub use bounded_file::{BoundedFile, bound_appended};
pub use device_state::{DeviceState, DeviceStateError, DeviceStateKind, XenSave};
pub use devices::{ALLOWED_DEVICES, RunningDeviceError, UnsupportedDevice, check_devices, check_running_devices};
pub use event::{Event, Shutdown};
pub use firmware::find_firmware;
pub use guest::{Guest, GuestError, GuestSettings, QEMU_LOG, Sockets};
pub use ignore_shared::IgnoreSharedMigration;
pub use images::{ImageError, hash_file, program_version, verify_images};
pub use machine::{Accelerator, BootFile, DiskBus, DiskSpec, MachineSpec, MachineSpecError, Virtio};
pub use notice::{Notice, heed, standing};
pub use pages::{PAGE_BYTES, PageRange, StagedPages, count_pages};
pub use process::{ExitWatch, ProcessError, QemuProcess};
pub use qmp::{Qmp, QmpError, Ticket};
pub use ram::{RamError, RamFile};
pub use reception::{Handover, HandoverError, Reception};
pub use rights::{QemuUser, Rights};
pub use track::{
    ShadowCompare, SoftDirtyTracker, TrackError, TrackerChoice, TrackerKind, TrackerRefusal, UserfaultTracker,
    WriteTracker, choose_tracker,
};
pub use tracked::TrackedMemory;
