//! Looking for a standby: host after host, until one takes the machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use stealtime_shipping::{
    Endpoint, Hello, Identity, Link, LinkError, LinkReceiver, LinkSender, Message, Refusal, Welcome, connect,
};
use stealtime_succession::{ActiveInput, MemberId, Record, Term};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use super::{Active, Input};
use crate::assignment::{self, Assignment};
use crate::clock::now;
use crate::events::Event;
use crate::guest::GuestFacts;
use crate::host_facts;
use crate::spec::{Spec, StandbyHost};
use crate::wording;

/// Between two rounds through all hosts.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a host is left alone that took the machine and could not resume it: each trial costs a copy of
/// all memory. And one whose register is another one.
const REST: Duration = Duration::from_secs(20);

/// How long a host is left alone that is to go down: each question is a process there, and it may come back.
const LEAVING_REST: Duration = Duration::from_secs(2);

/// Why a host is left alone.
struct Unfit {
    reason: String,
    /// Until this moment of the monotonic clock.
    until: Duration,
}

/// Who looks for a standby, one task at a time.
pub struct Seeker {
    task: Option<JoinHandle<()>>,
    /// Of that one: what another one found is for nobody.
    number: u64,
    /// Whether a standby is wanted at all.
    pub is_wanted: bool,
    /// Hosts that could not resume the machine, or look into another register, until that is known to be mended.
    unfit: BTreeMap<String, Unfit>,
    inputs: UnboundedSender<Input>,
}

impl Seeker {
    pub fn new(inputs: UnboundedSender<Input>) -> Self {
        Self { task: None, number: 0, is_wanted: false, unfit: BTreeMap::new(), inputs }
    }

    /// Ask the hosts of the spec but one, those that never refused first, in their order of preference. Whoever
    /// looked before asks in a term that is over, in which nobody would take the machine.
    pub fn start(&mut self, spec: &Spec, hello: Hello, but: Option<&str>) {
        let is_asked = |host: &&StandbyHost| host.name != spec.host && Some(host.name.as_str()) != but;
        let others = spec.standby_hosts.iter().filter(is_asked);
        let not_before = |host: &StandbyHost| self.unfit.get(&host.name).map_or(Duration::ZERO, |it| it.until);
        let mut hosts: Vec<_> = others.map(|host| (host.clone(), not_before(host))).collect();
        hosts.sort_by_key(|(_, not_before)| *not_before);
        if hosts.is_empty() {
            return;
        }
        self.stop();
        let (seeker, inputs) = (self.number, self.inputs.clone());
        let (identity, qemu) = (spec.identity.clone(), spec.qemu.clone());
        self.task = Some(tokio::spawn(async move {
            let tell = |host, error| drop(inputs.send(Input::NotFound(host, error)));
            let found = Box::new(seek(hosts, identity, qemu, hello, tell).await);
            let _ = inputs.send(Input::Found { seeker, found });
        }));
    }

    /// Whether somebody looks.
    pub fn is_seeking(&self) -> bool {
        self.task.is_some()
    }

    /// Stop looking, and take nothing any more that was found.
    pub fn stop(&mut self) {
        self.number += 1;
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    #[cfg(test)]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether what this one found is wanted; then nobody looks any more. It may have waited in a queue when
    /// its seeker was stopped.
    pub fn takes(&mut self, seeker: u64) -> bool {
        let takes = seeker == self.number;
        if takes {
            self.task = None;
            self.is_wanted = false;
        }
        takes
    }

    /// A host is of no use for now: it could not resume the guest, or looks into another register. Others are asked.
    pub fn leave_alone(&mut self, host: String, reason: String) {
        self.unfit.insert(host, Unfit { reason, until: now() + REST });
    }

    /// It has resumed the guest, for trial, and its register is ours.
    pub fn is_fit(&mut self, host: &str) {
        self.unfit.remove(host);
    }

    /// Why hosts are left alone.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        self.unfit.values().map(|unfit| unfit.reason.clone())
    }
}

/// How long a standby may take until its QEMU waits.
const WELCOME_WITHIN: Duration = Duration::from_secs(60);

/// A standby that agreed.
#[derive(Debug)]
pub struct Found {
    pub host: StandbyHost,
    pub standby: MemberId,
    /// Whether it takes differences.
    pub delta: bool,
    /// What QEMU says of its version there, if that is known.
    pub qemu_version: Option<String>,
    pub sender: LinkSender,
    pub receiver: LinkReceiver,
}

/// Why one host did not.
#[derive(Debug, thiserror::Error)]
pub enum SeekError {
    #[error("{}", wording::of_link(.0))]
    Link(LinkError),
    #[error("{host} refuses: {refusal} (hint: {hint})", hint = .refusal.hint())]
    Refused { host: String, refusal: Refusal },
    #[error("{host} {what}")]
    Odd { host: String, what: String },
}

impl From<LinkError> for SeekError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

impl Active {
    pub(super) fn not_found(&mut self, host: &StandbyHost, error: &SeekError) {
        if let SeekError::Refused { refusal: Refusal::OldTerm { known, holder, .. }, .. } = error {
            let holder = MemberId::from_wire(holder);
            // What it has of a third one may be from a wrong register: that is said when ours has answered.
            if holder.host() == host.name {
                self.refused(error.to_string());
            }
            return self.tell(ActiveInput::Outranked { told_by: host.name.clone(), term: *known, holder });
        }
        self.refused(match error {
            SeekError::Link(_) => format!("{} is no standby now: {error}", host.name),
            SeekError::Refused { .. } | SeekError::Odd { .. } => error.to_string(),
        });
    }

    fn refused(&mut self, reason: String) {
        if self.events.warn(reason.clone()) {
            self.events.add(&Event::Refused { reason });
        }
    }

    /// The register of a host is another one than ours: it has a later record, of which ours knows nothing.
    pub(super) fn leave_alone(&mut self, host: String, found: Term) {
        let refusal = Refusal::OtherRegister {
            host: host.clone(),
            their_host: self.spec.host.clone(),
            vm: self.spec.machine.name.clone(),
            register: format!("the register of {host}"),
            known: Some(found),
            asked: self.member.term(),
        };
        let reason = format!("{refusal} (hint: {})", refusal.hint());
        self.events.add(&Event::Refused { reason: reason.clone() });
        self.seeker.leave_alone(host, reason);
        // Others are asked, and this one later: its register may be set right meanwhile.
        self.seek();
    }
}

/// What is said of the machine, but for its firmware.
pub fn hello(spec: &Spec, member: &MemberId, held: &Record, facts: &GuestFacts) -> Hello {
    Hello {
        term: held.term,
        host: spec.host.clone(),
        member: member.clone(),
        renewals: held.renewals,
        qemu_version: facts.qemu_version.clone(),
        firmware: None,
        ram_blocks: facts.ram_blocks.clone(),
        wants_delta: true,
        // All of it is plain data.
        specification: serde_json::to_value(Assignment::of(spec)).unwrap_or_default(),
    }
}

/// Ask every host in turn, none before its time, for ever; `tell` hears of each that did not.
async fn seek(
    mut hosts: Vec<(StandbyHost, Duration)>,
    identity: Option<Identity>,
    qemu: PathBuf,
    mut hello: Hello,
    tell: impl Fn(StandbyHost, SeekError),
) -> Found {
    // QEMU is run to find it, which takes as long as to resume a guest: nobody shall wait for that.
    let firmware = tokio::task::spawn_blocking(move || host_facts::firmware(&qemu)).await;
    hello.firmware = firmware.ok().flatten();
    loop {
        for (host, not_before) in hosts.iter_mut().filter(|(_, not_before)| *not_before <= now()) {
            match ask(host, identity.as_ref(), &hello).await {
                Ok(found) => return found,
                Err(error) => {
                    if let SeekError::Refused { refusal: Refusal::Leaving { .. }, .. } = error {
                        *not_before = now() + LEAVING_REST;
                    }
                    tell(host.clone(), error);
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A host on another machine refuses whoever names socket files, which would be its own: it is not to try
/// those of this one.
fn leave_out_socket_files(hello: &mut Hello) {
    if let Some(hosts) = hello.specification["standby_hosts"].as_array_mut() {
        hosts.retain(|host| {
            let endpoint = host["endpoint"].as_str().map(str::parse);
            !matches!(endpoint, Some(Ok(Endpoint::Unix(_))))
        });
    }
}

async fn ask(host: &StandbyHost, identity: Option<&Identity>, hello: &Hello) -> Result<Found, SeekError> {
    let odd = |what: String| SeekError::Odd { host: host.name.clone(), what };
    let endpoint: Endpoint = host.endpoint.parse().map_err(|error| odd(format!("is nowhere: {error}")))?;
    let link: Link = connect(&endpoint, identity).await?;
    if !link.vouches_for(&host.name) {
        let hint = "make one with `stealtime protect identity` and that name";
        return Err(odd(format!("shows a certificate that is not for {} (hint: {hint})", host.name)));
    }
    let (sender, mut receiver) = link.split();
    let mut hello = hello.clone();
    if matches!(endpoint, Endpoint::Tcp { .. }) {
        leave_out_socket_files(&mut hello);
    }
    assignment::leave_out_what_is_unknown(&mut hello.specification, sender.version());
    sender.send(&Message::Hello(Box::new(hello))).await?;
    let answer = tokio::time::timeout(WELCOME_WITHIN, receiver.receive()).await;
    match answer.map_err(|_| odd(format!("gave no answer within {} s", WELCOME_WITHIN.as_secs())))?? {
        Message::Welcome(Welcome { member, delta, qemu_version, .. }) => {
            Ok(Found { host: host.clone(), standby: member, delta, qemu_version, sender, receiver })
        }
        Message::Refuse { refusal, .. } => Err(SeekError::Refused { host: host.name.clone(), refusal }),
        other => Err(odd(format!("answered {:?}", other.kind()))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn another_machine_hears_nothing_of_socket_files() {
        let file = json!({"name": "local", "endpoint": "unix:/run/local.sock"});
        let port = json!({"name": "c", "endpoint": "tcp:10.0.0.3:7460"});
        let mut hello = Hello {
            term: Term(4),
            host: "a".to_owned(),
            member: MemberId::new("a", 1),
            renewals: 0,
            qemu_version: String::new(),
            firmware: None,
            ram_blocks: Vec::new(),
            wants_delta: true,
            specification: json!({"standby_hosts": [file, port], "mode": "net"}),
        };
        leave_out_socket_files(&mut hello);
        assert_eq!(hello.specification, json!({"standby_hosts": [port], "mode": "net"}));
    }
}
