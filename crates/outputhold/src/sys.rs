//! The requests that make a TAP and set up a network interface: the only unsafe code of this crate.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;

/// `SIOCBRADDIF` of `linux/sockios.h`, which the libc crate leaves out.
const ADD_TO_BRIDGE: libc::Ioctl = 0x89a2;

/// An interface request for `name`, all else zero.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain data of the C library, for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (target, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *target = libc::c_char::from_ne_bytes([byte]);
    }
    Ok(request)
}

fn ioctl(fd: BorrowedFd<'_>, number: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the descriptor is open; every number used in this module takes a pointer to an ifreq, reads and
    // writes no more than it, and keeps no reference to it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), number, std::ptr::from_mut(request)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Any socket serves for requests about interfaces; this kind needs no IP stack.
fn interface_socket() -> io::Result<UnixDatagram> {
    UnixDatagram::unbound()
}

/// Make `file`, opened from `/dev/net/tun`, the other side of a new TAP. It vanishes with the file.
pub(crate) fn create_tap(file: &File, name: &str) -> io::Result<()> {
    let mut request = request(name)?;
    // IFF_TUN_EXCL (0x8000) is the sign bit of this C short.
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    let [low, high, ..] = flags.to_le_bytes();
    request.ifr_ifru.ifru_flags = libc::c_short::from_le_bytes([low, high]);
    ioctl(file.as_fd(), libc::TUNSETIFF as libc::Ioctl, &mut request)
}

/// The largest packet of an interface, without the Ethernet header.
pub(crate) fn mtu_bytes(name: &str) -> io::Result<libc::c_int> {
    let mut request = request(name)?;
    ioctl(interface_socket()?.as_fd(), libc::SIOCGIFMTU as libc::Ioctl, &mut request)?;
    // SAFETY: SIOCGIFMTU has just written this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu })
}

/// Set the largest packet of an interface, without the Ethernet header.
pub(crate) fn set_mtu(name: &str, mtu_bytes: libc::c_int) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = mtu_bytes;
    ioctl(interface_socket()?.as_fd(), libc::SIOCSIFMTU as libc::Ioctl, &mut request)
}

/// Set the Ethernet address of an interface.
pub(crate) fn set_hardware_address(name: &str, address: [u8; 6]) -> io::Result<()> {
    let mut request = request(name)?;
    let mut data = [0; 14];
    for (target, byte) in data.iter_mut().zip(address) {
        *target = libc::c_char::from_ne_bytes([byte]);
    }
    request.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data };
    ioctl(interface_socket()?.as_fd(), libc::SIOCSIFHWADDR as libc::Ioctl, &mut request)
}

/// Make the interface with this index a port of `bridge`.
pub(crate) fn add_to_bridge(bridge: &str, port_index: libc::c_uint) -> io::Result<()> {
    let mut request = request(bridge)?;
    request.ifr_ifru.ifru_ifindex = libc::c_int::try_from(port_index).map_err(io::Error::other)?;
    ioctl(interface_socket()?.as_fd(), ADD_TO_BRIDGE, &mut request)
}

/// Whether an interface is in use.
pub(crate) fn is_up(name: &str) -> io::Result<bool> {
    let mut request = request(name)?;
    ioctl(interface_socket()?.as_fd(), libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has just written this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(libc::c_int::from(flags) & libc::IFF_UP != 0)
}

/// Take an interface into use.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    let socket = interface_socket()?;
    let mut request = request(name)?;
    ioctl(socket.as_fd(), libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    let up = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
    // SAFETY: SIOCGIFFLAGS has just written this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | up;
    ioctl(socket.as_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}
