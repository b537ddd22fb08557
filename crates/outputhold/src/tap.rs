//! The TAP: the port of the host's bridge behind which the guest is.
//!
//! It is never persistent: with the process that holds it the interface vanishes, and no frame can leave by
//! it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use thiserror::Error;

use crate::addresses::HardwareAddress;
use crate::port::FramePort;
use crate::sys;

const TUN_DEVICE: &str = "/dev/net/tun";

/// `IFNAMSIZ` of Linux, less the closing zero.
const LONGEST_NAME_BYTES: usize = 15;

/// `ETH_MAX_MTU` of Linux, less the header.
const LARGEST_MTU_BYTES: libc::c_int = 65535 - 14;

/// How the highest addresses begin that are of one interface and locally administered. The first byte alone would not
/// do: the kernel draws the addresses of veth pairs, and one in 64 begins with it.
const HIGHEST_OWN_ADDRESS: [u8; 2] = [0xfe, 0xff];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TapSettings {
    /// Its name, which must be free.
    pub name: String,
    /// The bridge that it becomes a port of. Its largest packet is the bridge's: a bridge takes the smallest of its
    /// ports' for its own, and should not change it when a guest comes.
    pub bridge: Option<String>,
    /// The guest's hardware address. The TAP's own is then the same with `fe:ff` in front: a bridge takes the lowest
    /// address of its ports for its own, and should not change it when a guest comes.
    pub guest: Option<HardwareAddress>,
}

/// A TAP that cannot be had.
#[derive(Debug, Error)]
pub enum TapError {
    #[error(
        "{name:?} cannot name a {kind}: 1 to {LONGEST_NAME_BYTES} letters, digits, '.', '_' or '-', and neither \
         \".\" nor \"..\""
    )]
    Name { kind: &'static str, name: String },
    /// The driver is not there.
    #[error("{TUN_DEVICE} cannot be opened: {0} (hint: modprobe tun)")]
    NoDriver(#[source] io::Error),
    #[error(
        "no permission to {action} {name}: it takes CAP_NET_ADMIN (hint: run as root, or give the program \
         AmbientCapabilities=CAP_NET_ADMIN in its systemd unit)"
    )]
    NotPermitted {
        /// What was being done.
        action: &'static str,
        name: String,
    },
    #[error(
        "a network interface {0} exists already (hint: is this machine protected by another process? Else remove it: \
         ip link delete {0})"
    )]
    Exists(String),
    #[error("there is no bridge {0} (hint: ip link add {0} type bridge; ip link set {0} up)")]
    NoBridge(String),
    #[error("cannot {action} {name}: {source}")]
    Failed {
        /// What was being done.
        action: &'static str,
        name: String,
        source: io::Error,
    },
}

/// An open TAP, up, and a port of its bridge.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Make the TAP in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`TapError`]; nothing stays behind then.
    pub fn open(settings: &TapSettings) -> Result<Self, TapError> {
        let name = settings.name.as_str();
        check_name("TAP", name)?;
        let bridge = settings.bridge.as_deref();
        if let Some(bridge) = bridge {
            check_name("bridge", bridge)?;
            if if_nametoindex(bridge).is_err() {
                return Err(TapError::NoBridge(bridge.to_owned()));
            }
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(TUN_DEVICE)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => not_permitted("open the TAP", name),
                _ => TapError::NoDriver(error),
            })?;
        sys::create_tap(&file, name).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => TapError::Exists(name.to_owned()),
            _ => failed("make the TAP", name, error),
        })?;
        if let Some(bridge) = bridge {
            let mtu_bytes = sys::mtu_bytes(bridge).map_err(|error| failed("read the MTU of", bridge, error))?;
            sys::set_mtu(name, mtu_bytes.min(LARGEST_MTU_BYTES))
                .map_err(|error| failed("set the MTU of", name, error))?;
        }
        if let Some(HardwareAddress(mut address)) = settings.guest {
            address[..HIGHEST_OWN_ADDRESS.len()].copy_from_slice(&HIGHEST_OWN_ADDRESS);
            sys::set_hardware_address(name, address)
                .map_err(|error| failed("set the hardware address of", name, error))?;
        }
        if let Some(bridge) = bridge {
            enslave(name, bridge)?;
        }
        sys::set_up(name).map_err(|error| failed("take into use", name, error))?;
        Ok(Self { file, name: name.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl FramePort for Tap {
    fn read_frame(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }

    fn write_frame(&mut self, frame: &[u8]) -> io::Result<()> {
        // The driver takes a frame whole or not at all.
        self.file.write(frame).map(|_| ())
    }
}

fn check_name(kind: &'static str, name: &str) -> Result<(), TapError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=LONGEST_NAME_BYTES).contains(&name.len());
    if !fits || !name.bytes().all(is_plain) || name == "." || name == ".." {
        return Err(TapError::Name { kind, name: name.to_owned() });
    }
    Ok(())
}

fn enslave(name: &str, bridge: &str) -> Result<(), TapError> {
    let index = if_nametoindex(name).map_err(|error| failed("find", name, error.into()))?;
    sys::add_to_bridge(bridge, index).map_err(|error| match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::EOPNOTSUPP => TapError::NoBridge(bridge.to_owned()),
        _ => failed("add the TAP to bridge", bridge, error),
    })?;
    // The host itself has no business on this port; without this its own IPv6 would send to the guest. A
    // kernel without IPv6 has no such file, and what it would send does no harm: so it is no error.
    let switch = Path::new("/proc/sys/net/ipv6/conf").join(name).join("disable_ipv6");
    let _ = std::fs::write(switch, "1");
    Ok(())
}

fn not_permitted(action: &'static str, name: &str) -> TapError {
    TapError::NotPermitted { action, name: name.to_owned() }
}

fn failed(action: &'static str, name: &str, source: io::Error) -> TapError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => not_permitted(action, name),
        _ => TapError::Failed { action, name: name.to_owned(), source },
    }
}
