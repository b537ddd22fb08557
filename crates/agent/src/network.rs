//! A guest's network: its first Ethernet interface, with the address that the kernel command line names.
//!
//! `stealtime.address=10.77.0.2/24 stealtime.gateway=10.77.0.1`. The kernel's own `ip=` does the same only
//! where `CONFIG_IP_PNP` is set (Debian's kernels have it not) and the driver is built in. A link-local IPv6
//! address comes by itself once the interface is up.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::netlink::{Request, Routing};

/// The kernel argument that names the guest's address.
pub const ADDRESS_ARGUMENT: &str = "stealtime.address=";

/// The kernel argument that names the guest's router.
pub const GATEWAY_ARGUMENT: &str = "stealtime.gateway=";

const INTERFACES: &str = "/sys/class/net";

/// `ARPHRD_ETHER` (`linux/if_arp.h`)
const ETHERNET: u32 = 1;

/// A driver's module is loaded before its device is ready; under TCG that took less than a second.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Why a guest has no network.
#[derive(Debug, Error)]
pub enum NetworkError {
    #[error("{0:?} is no address with the length of its network, write for example 10.77.0.2/24")]
    Address(String),
    #[error("{0:?} is no IPv4 address of a gateway, write for example 10.77.0.1")]
    Gateway(String),
    #[error("no Ethernet interface came up within {} s: is there a card, and is its module in the initramfs?", LONGEST_WAIT.as_secs())]
    NoInterface,
    #[error("the kernel refused {request:?}")]
    Refused { request: Request, source: std::io::Error },
    #[error("the kernel's routing cannot be reached")]
    Routing(#[from] std::io::Error),
}

/// The address of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    address: Ipv4Addr,
    prefix_bits: u8,
}

impl FromStr for Interface {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let parsed = text.split_once('/').and_then(|(address, bits)| {
            let prefix_bits = bits.parse().ok().filter(|&bits| bits <= 32)?;
            Some(Self { address: address.parse().ok()?, prefix_bits })
        });
        parsed.ok_or_else(|| NetworkError::Address(text.to_owned()))
    }
}

/// Brings the first Ethernet interface up.
pub fn bring_up(address: &str, gateway: Option<&str>) -> Result<(), NetworkError> {
    let interface: Interface = address.parse()?;
    let gateway =
        gateway.map(|text| text.parse::<Ipv4Addr>().map_err(|_| NetworkError::Gateway(text.to_owned()))).transpose()?;
    configure(wait_for_interface(Path::new(INTERFACES))?, interface, gateway)
}

fn configure(index: u32, interface: Interface, gateway: Option<Ipv4Addr>) -> Result<(), NetworkError> {
    let routing = Routing::open()?;
    let Interface { address, prefix_bits } = interface;
    let requests = [
        Some(Request::Up { interface: index }),
        Some(Request::Address { interface: index, address, prefix_bits }),
        gateway.map(|gateway| Request::DefaultRoute { interface: index, gateway }),
    ];
    for request in requests.into_iter().flatten() {
        routing.request(request).map_err(|source| NetworkError::Refused { request, source })?;
    }
    Ok(())
}

fn wait_for_interface(folder: &Path) -> Result<u32, NetworkError> {
    let deadline = Instant::now() + LONGEST_WAIT;
    loop {
        if let Some(index) = first_ethernet(folder) {
            return Ok(index);
        }
        if Instant::now() >= deadline {
            return Err(NetworkError::NoInterface);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// The lowest index of an Ethernet interface; indices rise in the order of appearance.
fn first_ethernet(folder: &Path) -> Option<u32> {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u32>().ok();
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries
        .filter(|path| number(&path.join("type")) == Some(ETHERNET))
        .filter_map(|path| number(&path.join("ifindex")))
        .min()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use nix::errno::Errno;
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn addresses_name_their_network() {
        let interface = Interface { address: Ipv4Addr::new(10, 77, 0, 2), prefix_bits: 24 };
        assert_eq!("10.77.0.2/24".parse::<Interface>().unwrap(), interface);
        for wrong in ["", "10.77.0.2", "10.77.0.2/33", "10.77.0/24", "::1/64"] {
            assert!(wrong.parse::<Interface>().unwrap_err().to_string().contains("10.77.0.2/24"), "{wrong}");
        }
        let refused = bring_up("10.77.0.2/24", Some("router")).unwrap_err();
        assert!(refused.to_string().starts_with("\"router\" is no IPv4 address"));
    }

    #[test]
    fn the_first_ethernet_interface_is_taken_and_no_other_kind() {
        let folder = std::env::temp_dir().join(format!("stealtime-network-{}", std::process::id()));
        for (name, kind, index) in [("lo", 772, 1), ("eth1", 1, 4), ("eth0", 1, 3), ("sit0", 776, 2)] {
            fs::create_dir_all(folder.join(name)).unwrap();
            fs::write(folder.join(name).join("type"), format!("{kind}\n")).unwrap();
            fs::write(folder.join(name).join("ifindex"), format!("{index}\n")).unwrap();
        }
        assert_eq!(first_ethernet(&folder), Some(3));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(first_ethernet(&folder), None);
    }

    /// In a network namespace of this thread alone, where the loopback interface is down and has no address.
    #[test]
    fn an_interface_gets_its_address_and_route_from_the_kernel() {
        let configured = thread::spawn(|| {
            match unshare(CloneFlags::CLONE_NEWNET) {
                // Only root may make a namespace; the guest tests do the same in a real machine.
                Err(Errno::EPERM) => {
                    eprintln!("skipped: only root may make a network namespace");
                    return;
                }
                other => other.unwrap(),
            }
            let address = Ipv4Addr::new(10, 77, 0, 2);
            let local_address = |peer: [u8; 4]| {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
                socket.connect((Ipv4Addr::from(peer), 9)).and_then(|()| socket.local_addr())
            };
            assert!(local_address([10, 77, 0, 1]).is_err());
            let interface = Interface { address, prefix_bits: 24 };
            configure(1, interface, Some(Ipv4Addr::new(10, 77, 0, 1))).unwrap();
            for peer in [[10, 77, 0, 9], [192, 0, 2, 1]] {
                assert_eq!(local_address(peer).unwrap().ip(), address, "to {peer:?}");
            }
            // Interface, destination, gateway ..., as numbers in the machine's byte order.
            let routes = fs::read_to_string("/proc/thread-self/net/route").unwrap();
            let gateway = format!("{:08X}", u32::from_ne_bytes([10, 77, 0, 1]));
            assert!(routes.lines().any(|line| line.starts_with(&format!("lo\t00000000\t{gateway}\t"))), "{routes}");
            let again = configure(1, interface, None).unwrap_err();
            assert!(matches!(again, NetworkError::Refused { request: Request::Address { .. }, .. }), "{again}");
        });
        configured.join().unwrap();
    }
}
