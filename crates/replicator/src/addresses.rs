//! What the guest goes by on the network, as it is learned here and as it goes over the line.

use stealtime_outputhold::{LearnedAddresses, VlanAddresses};
use stealtime_shipping::{Addresses, AddressesInVlan};
use stealtime_succession::Term;

/// What is told of it to the standby.
pub fn told(term: Term, learned: LearnedAddresses) -> Addresses {
    let LearnedAddresses { ipv4, ipv6, vlans } = learned;
    let vlans = vlans.into_iter().map(|VlanAddresses { vlan, ipv4, ipv6 }| AddressesInVlan { vlan, ipv4, ipv6 });
    Addresses { term, ipv4, ipv6, vlans: vlans.collect() }
}

/// What the active member has learned.
pub fn learned(told: Addresses) -> LearnedAddresses {
    let Addresses { ipv4, ipv6, vlans, .. } = told;
    let vlans = vlans.into_iter().map(|AddressesInVlan { vlan, ipv4, ipv6 }| VlanAddresses { vlan, ipv4, ipv6 });
    LearnedAddresses { ipv4, ipv6, vlans: vlans.collect() }
}
