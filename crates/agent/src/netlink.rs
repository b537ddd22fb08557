//! The three requests to the kernel's routing that bring up an interface: link, address, route
//! (rtnetlink(7)).
//!
//! Written out by hand: these 60 bytes are all that a guest needs of a protocol whose libraries bring a
//! runtime along.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};

// linux/rtnetlink.h, linux/netlink.h, linux/if_addr.h, linux/if.h
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_ACK`
const REQUEST: u16 = 0x0005;
/// `NLM_F_CREATE | NLM_F_EXCL`
const CREATE: u16 = 0x0600;
const AF_INET: u8 = 2;
const IFF_UP: u32 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_UNICAST: u8 = 1;

const HEADER_BYTES: usize = 16;

/// A request to the kernel's routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Switch an interface on.
    Up { interface: u32 },
    /// Give it an address; the route to its network comes with it.
    Address {
        interface: u32,
        address: Ipv4Addr,
        /// How many of its bits are the network's.
        prefix_bits: u8,
    },
    /// Send over it all that goes to no other network.
    DefaultRoute { interface: u32, gateway: Ipv4Addr },
}

impl Request {
    fn encode(self) -> Vec<u8> {
        let (kind, flags, body) = match self {
            Self::Up { interface } => {
                // struct ifinfomsg: family, padding, type, index, flags, change mask.
                let mut body = vec![0; 4];
                for number in [interface, IFF_UP, IFF_UP] {
                    body.extend(number.to_ne_bytes());
                }
                (RTM_NEWLINK, REQUEST, body)
            }
            Self::Address { interface, address, prefix_bits } => {
                // struct ifaddrmsg: family, prefix length, flags, scope, index.
                let mut body = vec![AF_INET, prefix_bits, 0, RT_SCOPE_UNIVERSE];
                body.extend(interface.to_ne_bytes());
                body.extend(attribute(IFA_LOCAL, address.octets()));
                body.extend(attribute(IFA_ADDRESS, address.octets()));
                (RTM_NEWADDR, REQUEST | CREATE, body)
            }
            Self::DefaultRoute { interface, gateway } => {
                // struct rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type,
                // flags.
                let mut body =
                    vec![AF_INET, 0, 0, 0, RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE, RTN_UNICAST, 0, 0, 0, 0];
                body.extend(attribute(RTA_OIF, interface.to_ne_bytes()));
                body.extend(attribute(RTA_GATEWAY, gateway.octets()));
                (RTM_NEWROUTE, REQUEST | CREATE, body)
            }
        };
        // struct nlmsghdr: length, type, flags, sequence number, port. One request at a time needs no
        // numbers.
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
        let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        message
    }
}

/// struct rtattr and four bytes of value.
fn attribute(kind: u16, value: [u8; 4]) -> Vec<u8> {
    let mut bytes = 8_u16.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes
}

/// A connection to the kernel's routing.
pub struct Routing(OwnedFd);

impl Routing {
    pub fn open() -> io::Result<Self> {
        let protocol = SockProtocol::NetlinkRoute;
        Ok(Self(socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?))
    }

    pub fn request(&self, request: Request) -> io::Result<()> {
        let descriptor = self.0.as_raw_fd();
        sendto(descriptor, &request.encode(), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = [0; 512];
        let length = recv(descriptor, &mut answer, MsgFlags::empty())?;
        acknowledged(&answer[..length])
    }
}

/// Reads struct nlmsgerr: a header of type `NLMSG_ERROR` and a negative error number, 0 for success.
fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
    let error = answer.get(HEADER_BYTES..HEADER_BYTES + 4).and_then(|error| error.try_into().ok());
    match (kind, error.map(i32::from_ne_bytes)) {
        (Some(NLMSG_ERROR), Some(0)) => Ok(()),
        (Some(NLMSG_ERROR), Some(error)) => Err(Errno::from_raw(error.saturating_neg()).into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's routing gave no acknowledgement")),
    }
}
