//! What would keep a machine from being started here and protected: asked of all that a start would ask, and nothing is
//! started.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use stealtime_capture::{Accelerator, Rights};
use stealtime_disk::{Currency, Image, ImageFile};
use stealtime_shipping::{Inquire, Offer, Told, Verdict};
use stealtime_succession::{MemberId, Record, Term};

use crate::disks::last_held;
use crate::inquiry::inquire;
use crate::spec::{Spec, StandbyHost};
use crate::{member_folder, registers, wording};

/// All hosts are asked at the same time.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// What it is: `register`, `disk root`, `standby host b` ...
    pub subject: String,
    pub state: CheckState,
    /// One sentence.
    pub text: String,
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckState {
    Fine,
    /// A start would be refused, or the machine not be protected.
    Refused,
    /// It cannot be said before the start.
    NotJudged,
}

impl Check {
    fn fine(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), state: CheckState::Fine, text: text.into(), hint: None }
    }

    fn refused(subject: impl Into<String>, text: impl Into<String>, hint: &str) -> Self {
        let hint = Some(hint.to_owned()).filter(|hint| !hint.is_empty());
        Self { subject: subject.into(), state: CheckState::Refused, text: text.into(), hint }
    }
}

/// Look at everything, in the order in which a start would.
pub async fn check(spec: &Spec) -> Vec<Check> {
    let mut checks = vec![boot_files(spec), accelerator(spec), member(spec)];
    let (register, record) = register(spec).await;
    checks.push(register);
    checks.extend(disks(spec, record.as_ref()));
    let offer = spec.offer();
    let asked: Vec<_> = spec
        .standby_hosts
        .iter()
        .filter(|host| host.name != spec.host)
        .map(|host| (host.clone(), tokio::spawn(ask(spec.clone(), host.clone(), offer.clone()))))
        .collect();
    for (host, asking) in asked {
        let told = asking.await.unwrap_or_else(|error| Err(error.to_string()));
        checks.push(standby_host(&host, told));
    }
    checks
}

fn boot_files(spec: &Spec) -> Check {
    let subject = "boot files";
    match stealtime_capture::verify_images(&spec.machine) {
        Ok(()) if spec.machine.boot_files().next().is_none() => {
            Check::fine(subject, "the first disk has its own boot loader")
        }
        Ok(()) => Check::fine(subject, "the kernel and the initramfs are there"),
        Err(error) => Check::refused(subject, wording::in_full(&error), "name others in VM.toml"),
    }
}

fn accelerator(spec: &Spec) -> Check {
    let (subject, accelerator) = ("accelerator", spec.machine.accelerator);
    match accelerator {
        Accelerator::Kvm if !Rights::of(spec.qemu_user.as_ref(), accelerator).may_use_kvm() => Check::refused(
            subject,
            "QEMU's user may not use /dev/kvm here, or there is none",
            "give accelerator = \"tcg\", or see `stealtime doctor`",
        ),
        _ => Check::fine(subject, accelerator.name()),
    }
}

fn member(spec: &Spec) -> Check {
    let (subject, vm, host) = ("member", &spec.machine.name, &spec.host);
    if member_folder::is_occupied(&spec.folder) {
        let text = format!("{vm} already has a member on {host}");
        return Check::refused(subject, text, "`stealtime protect status` shows it; `stealtime protect stop` ends it");
    }
    Check::fine(subject, format!("{vm} has none on {host}"))
}

async fn register(spec: &Spec) -> (Check, Option<Record>) {
    let subject = "register";
    let vm = spec.machine.name.clone();
    let read = registers::once(&spec.register, move |mut register| register.read(&vm)).await;
    let name = spec.register.in_words();
    match read {
        Err(error) => {
            let hint = "see that it runs, and that it is reached from here";
            (Check::refused(subject, wording::in_full(&error), hint), None)
        }
        Ok(None) => {
            (Check::fine(subject, format!("the register {name} answers, and knows nothing of the machine")), None)
        }
        Ok(Some(found)) => {
            let record = found.record;
            let term = record.term.0;
            let check = match &record.holder {
                None => {
                    Check::fine(subject, format!("the register {name} answers: nobody holds the machine (term {term})"))
                }
                Some(holder) => Check::refused(
                    subject,
                    format!("the register {name} says that {holder} holds the machine (term {term})"),
                    "`stealtime protect recover` tells whether it lives",
                ),
            };
            (check, Some(record))
        }
    }
}

fn disks(spec: &Spec, record: Option<&Record>) -> Vec<Check> {
    let newest = last_held(record);
    let images = spec.machine.disks.iter().zip(&spec.disk_images);
    images.map(|(disk, file)| self::disk(&format!("disk {}", disk.name), file, disk.bytes, newest)).collect()
}

fn disk(subject: &str, file: &ImageFile, bytes: u64, newest: Term) -> Check {
    if let Err(error) = Image::look(file, bytes) {
        return Check::refused(subject, wording::in_full(&error), error.hint());
    }
    if let Err(error) = Currency::of(&file.path).check(newest.0, false) {
        return Check::refused(subject, wording::in_full(&error), error.hint());
    }
    let (path, format) = (file.path.display(), file.format.name());
    Check::fine(subject, format!("{path} ({format}, {bytes} bytes) can be read and written, and is current"))
}

async fn ask(spec: Spec, host: StandbyHost, offer: Offer) -> Result<Told, String> {
    let (vm, member) = (spec.machine.name.clone(), MemberId::new(&host.name, 0));
    let question =
        Inquire { term: Term(0), host: spec.host.clone(), vm, member, wants_living: true, offer: Some(offer) };
    let answer = tokio::time::timeout(ANSWER_WITHIN, inquire(&host, spec.identity.as_ref(), &question)).await;
    answer.unwrap_or_else(|_| Err(format!("it gave no answer within {} s", ANSWER_WITHIN.as_secs())))
}

fn standby_host(host: &StandbyHost, told: Result<Told, String>) -> Check {
    let subject = format!("standby host {}", host.name);
    match told {
        Err(reason) => {
            let usual = "see that its daemon runs (`systemctl status stealtime-host`) and that it is reached from here";
            let (reason, hint) = reason.split_once(" (hint: ").unwrap_or((&reason, usual));
            let text = format!("{} ({}) cannot be asked: {reason}", host.name, host.endpoint);
            Check::refused(subject, text, hint.trim_end_matches(')'))
        }
        Ok(Told { is_over: false, .. }) => Check::refused(
            subject,
            format!("a member of the machine lives on {} already", host.name),
            "see `stealtime protect status` there",
        ),
        Ok(Told { verdict: Some(Verdict::Takes), .. }) => {
            Check::fine(subject, format!("{} would take the machine", host.name))
        }
        Ok(Told { verdict: Some(Verdict::Refuses(refusal)), .. }) => {
            Check::refused(subject, refusal.to_string(), refusal.hint())
        }
        Ok(Told { verdict: None, .. }) => Check {
            subject,
            state: CheckState::NotJudged,
            text: format!("{} answers, and its version of stealtime does not tell what it would take", host.name),
            hint: Some("update stealtime there".to_owned()),
        },
    }
}
