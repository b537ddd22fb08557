//! A machine that is only offered: what its host asks, and whether this host would take it.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use stealtime_disk::Image as DiskImage;
use stealtime_shipping::{Offer, Refusal, RegisterLook, Verdict, judge_offer};
use stealtime_succession::MemberId;

use crate::assignment::{Assignment, wanted};
use crate::host_config::HostConfig;
use crate::spec::Spec;
use crate::{host_facts, leaving, member_folder, registers, wording};

impl Spec {
    /// What this host would ask others about its machine.
    pub fn offer(&self) -> Offer {
        Offer {
            qemu_version: qemu_version(&self.qemu),
            firmware: host_facts::firmware(&self.qemu),
            // It is made of names, numbers and paths.
            specification: serde_json::to_value(Assignment::of(self)).unwrap_or_default(),
        }
    }
}

/// What a program of QEMU says of its version, as QMP has it; nothing if it cannot be asked.
fn qemu_version(program: &Path) -> String {
    let Ok(output) = Command::new(program).arg("--version").output() else { return String::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default();
    first.split_once("version ").map_or_else(String::new, |(_, version)| version.trim().to_owned())
}

/// What a machine that comes from another host would be here.
///
/// # Errors
/// This host does not understand it.
pub fn spec_here(config: &HostConfig, specification: &serde_json::Value) -> Result<Spec, Box<Refusal>> {
    let hint = "use the same version of stealtime on both hosts";
    let other = |reason: String| Box::new(Refusal::Other { reason, hint: hint.to_owned() });
    let assignment = Assignment::deserialize(specification)
        .map_err(|error| other(format!("{} does not understand what is to be protected: {error}", config.name)))?;
    config.spec_of(assignment).map_err(|error| other(error.to_string()))
}

/// Whether this host would take a machine, as far as that can be said before it comes.
pub async fn consider(config: HostConfig, offer: Offer, their_host: String) -> Verdict {
    let considered = async {
        let spec = spec_here(&config, &offer.specification)?;
        if leaving::is_leaving(&config.folder) {
            return Err(Box::new(Refusal::Leaving { host: config.name.clone() }));
        }
        let vm = spec.machine.name.clone();
        let read = registers::once(&spec.register, move |mut register| register.read(&vm)).await;
        let unread = |reason: String| Box::new(Refusal::NoRegister { host: config.name.clone(), reason });
        read.map_err(|error| unread(error.to_string()))?;
        // It runs programs and reads files.
        let judged = tokio::task::spawn_blocking(move || compare(&config, &offer, &their_host, &spec)).await;
        judged.unwrap_or(Ok(()))
    };
    match considered.await {
        Ok(()) => Verdict::Takes,
        Err(refusal) => Verdict::Refuses(*refusal),
    }
}

fn compare(config: &HostConfig, offer: &Offer, their_host: &str, spec: &Spec) -> Result<(), Box<Refusal>> {
    // Who may have the machine is another question, which a register answers when it comes.
    let register = RegisterLook { name: spec.register.in_words(), found: Ok(None), is_here: false };
    let mut facts = host_facts::gather(config, &spec.machine, MemberId::new(&config.name, 0), register);
    facts.qemu_version = qemu_version(&config.qemu);
    judge_offer(offer, their_host, &wanted(spec), &facts)?;
    // A member that is here already has them open.
    if member_folder::is_occupied(&spec.folder) {
        return Ok(());
    }
    for (disk, file) in spec.machine.disks.iter().zip(&spec.disk_images) {
        DiskImage::check(file, disk.bytes).map_err(|error| {
            let reason = format!("{} cannot stand by: {}", config.name, wording::in_full(&error));
            Box::new(Refusal::Other { reason, hint: error.hint().to_owned() })
        })?;
    }
    Ok(())
}
