//! What two hosts tell each other before a machine is protected, and the judgement of whether they fit
//! together.
//!
//! Device state can be loaded only into a QEMU of the same release, machine type and device set (QEMU,
//! docs/devel/migration: "configuration has to be exactly the same"), and a difference would show at the
//! failover, when it is too late.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stealtime_succession::{MemberId, Record, Term};

use crate::page::PAGE_BYTES;
use crate::refusal::Refusal;

/// A block of guest memory as QEMU names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RamBlock {
    /// QEMU's name, for example `pc.ram`.
    pub name: String,
    pub bytes: u64,
}

/// A file that the machine boots from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Its path, the same on both hosts.
    pub path: String,
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// The machine that the active member wants protected.
///
/// What the machine is stands in `specification` alone: what is judged is read from what is used
/// ([`Wanted`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The active member's term.
    #[serde(skip)]
    pub term: Term,
    /// The name of the active member's host.
    pub host: String,
    /// This life of the active member.
    pub member: MemberId,
    /// How often it had shown itself in its register by then: what the standby's own register must hold, too.
    pub renewals: u64,
    /// What QEMU says of its version, with the package's part.
    pub qemu_version: String,
    /// The firmware there: by its name, as it may lie elsewhere on another host.
    pub firmware: Option<Image>,
    /// All blocks of guest memory, in QEMU's order.
    pub ram_blocks: Vec<RamBlock>,
    /// Whether pages are to be shipped as differences from what was shipped before.
    pub wants_delta: bool,
    /// What the standby needs to start its own QEMU and to go on protecting after a failover; the members'
    /// own type.
    pub specification: serde_json::Value,
}

/// A machine that a host is only asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// What QEMU says of its version where the machine is to run.
    pub qemu_version: String,
    /// As in a [`Hello`].
    pub firmware: Option<Image>,
    /// As in a [`Hello`].
    pub specification: serde_json::Value,
}

/// What a machine needs of a host, as it stands in the specification of a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The name of the virtual machine.
    pub vm: String,
    /// The machine type, for example `pc-i440fx-7.2`.
    pub machine: String,
    /// `tcg` or `kvm`.
    pub accelerator: String,
    /// The length of the RAM file.
    pub memory_bytes: u64,
    /// The files that the machine boots from: a guest that reboots after a failover reads them again.
    pub images: Vec<Image>,
}

/// The standby takes the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// The term of the hello.
    #[serde(skip)]
    pub term: Term,
    /// The name of the standby's host.
    pub host: String,
    /// This life of the standby, as the register is to name it.
    pub member: MemberId,
    /// Whether pages may be shipped as differences.
    pub delta: bool,
    /// What QEMU says of its version there; a host of protocol version 5 does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu_version: Option<String>,
}

/// What a host's register says of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterLook {
    /// The register, in words.
    pub name: String,
    /// Its record, if it has one; or why it gives no answer.
    pub found: Result<Option<Record>, String>,
    /// Whether a member of this machine is on this host.
    pub is_here: bool,
}

/// What the judging host knows of itself.
#[derive(Debug, Clone)]
pub struct LocalFacts {
    pub host: String,
    /// This life of the member that would stand by.
    pub member: MemberId,
    /// What its QEMU says of its version, with the package's part.
    pub qemu_version: String,
    /// The machine types of its QEMU.
    pub machines: Vec<String>,
    /// The accelerators that work on it.
    pub accelerators: Vec<String>,
    /// Memory that may be given to one more machine: to its RAM file and to what is staged of an epoch.
    pub available_bytes: u64,
    /// The SHA-256 of each file of the hello that there is.
    pub images: BTreeMap<String, String>,
    /// What its register holds of this machine.
    pub register: RegisterLook,
    /// The memory blocks of the standby QEMU, once it has been started.
    pub ram_blocks: Option<Vec<RamBlock>>,
    /// Whether it keeps the content of a machine between epochs, so that differences can be applied.
    pub delta: bool,
}

/// What a QEMU takes beside the guest's memory; 15 MB were seen of one that waits, and the files that it
/// maps.
const QEMU_BYTES: u64 = 64 << 20;

/// What a machine needs at the standby: its RAM, and as much again, as an epoch is staged in whole before it
/// is applied, and the first epoch is all of the RAM; the QEMU that waits, and the one on which states are
/// tried.
pub fn needed_bytes(wanted: &Wanted) -> u64 {
    wanted.memory_bytes.saturating_mul(2).saturating_add(2 * QEMU_BYTES)
}

/// Says whether this host may stand by for the machine that `hello` wants protected, and if not, what differs
/// first.
///
/// # Errors
/// The first difference, from the most to the least fundamental.
pub fn judge(hello: &Hello, wanted: &Wanted, facts: &LocalFacts) -> Result<Welcome, Refusal> {
    let (host, vm) = (facts.host.clone(), wanted.vm.clone());
    let their_host = hello.host.clone();
    if hello.member.host() != hello.host {
        return Err(Refusal::Member { member: hello.member.to_string(), their_host });
    }
    if hello.host == facts.host {
        return Err(Refusal::SameHost { host, vm });
    }
    compare_registers(hello, &vm, facts)?;
    let their = Programs { host: &hello.host, qemu_version: &hello.qemu_version, firmware: hello.firmware.as_ref() };
    compare_machines(&their, wanted, facts)?;
    if let Some(ours) = &facts.ram_blocks {
        compare_ram_blocks(hello, ours, &host)?;
    }
    let (member, qemu_version) = (facts.member.clone(), Some(facts.qemu_version.clone()));
    Ok(Welcome { term: hello.term, host, member, delta: hello.wants_delta && facts.delta, qemu_version })
}

/// The part of [`judge`] that can be said before the machine runs anywhere.
///
/// # Errors
/// The first difference.
pub fn judge_offer(offer: &Offer, their_host: &str, wanted: &Wanted, facts: &LocalFacts) -> Result<(), Refusal> {
    let their = Programs { host: their_host, qemu_version: &offer.qemu_version, firmware: offer.firmware.as_ref() };
    compare_machines(&their, wanted, facts)
}

/// What a machine runs with on the host that it comes from.
struct Programs<'a> {
    host: &'a str,
    qemu_version: &'a str,
    firmware: Option<&'a Image>,
}

fn compare_machines(their: &Programs<'_>, wanted: &Wanted, facts: &LocalFacts) -> Result<(), Refusal> {
    let (host, vm, their_host) = (facts.host.clone(), wanted.vm.clone(), their.host.to_owned());
    if !may_load_state_of(&facts.qemu_version, their.qemu_version) {
        let (theirs, ours) = (their.qemu_version.to_owned(), facts.qemu_version.clone());
        return Err(Refusal::QemuVersion { host, their_host, theirs, ours });
    }
    if !facts.machines.contains(&wanted.machine) {
        return Err(Refusal::Machine { host, machine: wanted.machine.clone() });
    }
    if !facts.accelerators.contains(&wanted.accelerator) {
        return Err(Refusal::Accelerator { host, vm, accelerator: wanted.accelerator.clone() });
    }
    if wanted.memory_bytes == 0 || !wanted.memory_bytes.is_multiple_of(PAGE_BYTES as u64) {
        return Err(Refusal::MemorySize { vm, memory_bytes: wanted.memory_bytes });
    }
    if needed_bytes(wanted) > facts.available_bytes {
        let (needed_bytes, available_bytes) = (needed_bytes(wanted), facts.available_bytes);
        return Err(Refusal::Memory { host, vm, needed_bytes, available_bytes });
    }
    for Image { path, sha256 } in wanted.images.iter().chain(their.firmware) {
        let Some(ours) = facts.images.get(path) else {
            return Err(Refusal::ImageMissing { host, path: path.clone() });
        };
        if !ours.eq_ignore_ascii_case(sha256) {
            // Ours stays here: it would tell of any file whether its content is one that somebody guesses.
            let (path, theirs) = (path.clone(), sha256.clone());
            return Err(Refusal::ImageDiffers { host, their_host, path, theirs });
        }
    }
    Ok(())
}

/// Whether a QEMU may be tried on the state of another one: of the same release, as a distribution's updates within a
/// release change nothing of what a versioned machine type is. That it loads the state is then seen by trial, before
/// the machine counts as protected and every minute.
fn may_load_state_of(ours: &str, theirs: &str) -> bool {
    fn release(version: &str) -> Option<(&str, &str)> {
        let (major, rest) = version.split_once('.')?;
        Some((major, rest.split(['.', ' ']).next()?))
    }
    ours == theirs || release(ours).is_some_and(|release_of_ours| release(theirs) == Some(release_of_ours))
}

/// Sees that this host's register is the active member's: it must hold what that has written there last. A standby that
/// looks into another one could not take over, and of two hosts with one each, each might run the machine.
fn compare_registers(hello: &Hello, vm: &str, facts: &LocalFacts) -> Result<(), Refusal> {
    let (host, vm, register) = (facts.host.clone(), vm.to_owned(), facts.register.name.clone());
    let their_host = hello.host.clone();
    let found = match &facts.register.found {
        Ok(found) => found.as_ref(),
        Err(reason) => return Err(Refusal::NoRegister { host, reason: reason.clone() }),
    };
    let Some(record) = found else {
        return Err(Refusal::OtherRegister { host, their_host, vm, register, known: None, asked: hello.term });
    };
    let holder = record.holder.as_ref();
    // A record that names nobody, or this host as the holder of what is not here, says of nobody that he runs it.
    let elsewhere = holder.filter(|holder| holder.host() != facts.host || facts.register.is_here);
    if let Some(holder) = elsewhere.filter(|_| record.term > hello.term) {
        let holder = holder.to_string();
        return Err(Refusal::OldTerm { host, vm, known: record.term, asked: hello.term, holder });
    }
    let is_the_same = record.term == hello.term && holder == Some(&hello.member) && record.renewals >= hello.renewals;
    if is_the_same {
        return Ok(());
    }
    let known = Some(record.term);
    Err(Refusal::OtherRegister { host, their_host, vm, register, known, asked: hello.term })
}

/// Compares block by block; order does not matter, since QEMU finds blocks by name.
fn compare_ram_blocks(hello: &Hello, ours: &[RamBlock], host: &str) -> Result<(), Refusal> {
    let lengths = |blocks: &[RamBlock]| -> BTreeMap<String, u64> {
        blocks.iter().map(|block| (block.name.clone(), block.bytes)).collect()
    };
    let (theirs, ours) = (lengths(&hello.ram_blocks), lengths(ours));
    let words = |bytes: Option<&u64>| bytes.map_or_else(|| "no byte".to_owned(), |bytes| format!("{bytes} bytes"));
    for block in theirs.keys().chain(ours.keys()) {
        if theirs.get(block) != ours.get(block) {
            return Err(Refusal::RamBlock {
                host: host.to_owned(),
                their_host: hello.host.clone(),
                block: block.clone(),
                theirs: words(theirs.get(block)),
                ours: words(ours.get(block)),
            });
        }
    }
    Ok(())
}
