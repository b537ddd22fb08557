//! The counter's options: from its command line, or from one word of the kernel's.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use stealtime_console::quantities::parse_bytes;

use crate::counter::memory::PAGE_BYTES;

/// `counter`
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("transport").required(true).multiple(true).args(["tcp", "udp"]))]
pub struct Counter {
    /// Listen for TCP on this port, or this address and port; port 0: any free port
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub tcp: Option<Place>,
    /// Listen for UDP on this port, or this address and port
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub udp: Option<Place>,
    /// How much memory to rewrite and verify, e.g. 64MiB
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_memory)]
    pub memory: usize,
    /// How many pages of that memory to rewrite per interval
    #[arg(long, value_name = "PAGES/INTERVAL", default_value = "200/10ms")]
    pub dirty: Rate,
    /// How many bytes of each rewritten page change
    #[arg(long, value_name = "SIZE", default_value = "256B", value_parser = parse_fill)]
    pub fill: usize,
    /// A disk that each total is written to as well, e.g. /dev/vda; what is on it is lost
    #[arg(long, value_name = "PATH")]
    pub disk: Option<PathBuf>,
}

/// Where a counter listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On all addresses of the machine.
    Port(u16),
    Address(SocketAddr),
}

impl Place {
    /// What to bind, best first. A socket on `::` takes both kinds of addresses, where the kernel has IPv6.
    pub fn candidates(self) -> Vec<SocketAddr> {
        match self {
            Self::Port(port) => {
                vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
            }
            Self::Address(address) => vec![address],
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.parse().map(Self::Port);
        let place = port.or_else(|_| text.parse().map(Self::Address));
        place.map_err(|_| format!("{text:?} is no port and no address with a port, write for example 7000"))
    }
}

/// So many pages each interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub pages: u64,
    pub interval: Duration,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = text.split_once('/').and_then(|(pages, interval)| {
            let interval = humantime::parse_duration(interval).ok().filter(|interval| !interval.is_zero())?;
            Some(Self { pages: pages.parse().ok()?, interval })
        });
        rate.ok_or_else(|| format!("{text:?} is no rate, write for example 200/10ms"))
    }
}

fn parse_memory(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)?;
    let whole_pages = bytes.is_multiple_of(PAGE_BYTES as u64);
    let bytes = usize::try_from(bytes).ok().filter(|_| whole_pages);
    bytes.ok_or_else(|| format!("{text} is no multiple of a page of {PAGE_BYTES} bytes"))
}

fn parse_fill(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(parse_bytes(text)?).unwrap_or(usize::MAX);
    if (1..=PAGE_BYTES).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("{text} is not within a page of {PAGE_BYTES} bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ports_or_addresses() {
        assert_eq!("7000".parse(), Ok(Place::Port(7000)));
        assert_eq!("127.0.0.1:0".parse(), Ok(Place::Address((Ipv4Addr::LOCALHOST, 0).into())));
        assert_eq!("[::1]:5".parse(), Ok(Place::Address((Ipv6Addr::LOCALHOST, 5).into())));
        for wrong in ["", "70000", "localhost:7000", "10.0.0.1"] {
            assert!(wrong.parse::<Place>().unwrap_err().contains("for example 7000"), "{wrong}");
        }
    }

    #[test]
    fn rates_are_pages_and_an_interval() {
        let rate = Rate { pages: 200, interval: Duration::from_millis(10) };
        assert_eq!("200/10ms".parse(), Ok(rate));
        for wrong in ["200", "/10ms", "200/", "200/0s", "-1/10ms", "200/10"] {
            assert!(wrong.parse::<Rate>().unwrap_err().contains("200/10ms"), "{wrong}");
        }
    }

    #[test]
    fn sizes_fit_pages() {
        assert_eq!(parse_memory("64MiB"), Ok(64 << 20));
        assert!(parse_memory("1MB").unwrap_err().contains("multiple of a page"));
        assert_eq!(parse_fill("4096"), Ok(4096));
        assert!(parse_fill("0").is_err() && parse_fill("4097").is_err());
    }
}
