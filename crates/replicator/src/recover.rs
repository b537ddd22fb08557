//! Whether anybody still has the state of a machine, as after a power cut of both its hosts: the register says who had
//! it, and the daemons of all hosts that may have it who lives there. Nothing of a guest's memory outlives its member.
//!
//! The register alone is not asked: one that was emptied, or restored from a backup, names nobody or others.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use stealtime_shipping::{Inquire, Living};
use stealtime_succession::{MemberId, Record, RegisterError, Term};

use crate::inquiry::inquire;
use crate::spec::Spec;
use crate::{member_folder, registers, who_lives};

/// All hosts are asked at the same time.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What is known of a machine.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Account {
    pub vm: String,
    /// The register, in words.
    pub register: String,
    /// Of its record; None: it has none.
    pub term: Option<u64>,
    /// Whom the record names.
    pub members: Vec<Trace>,
    /// This host, those of the machine's specification, and those of the members above.
    pub hosts: Vec<HostTrace>,
    pub verdict: Verdict,
}

/// What became of a member.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Trace {
    pub member: String,
    pub host: String,
    pub is_holder: bool,
    pub state: TraceState,
    /// Why it is not known.
    pub reason: Option<String>,
}

/// Who lives on a host, of those that may have the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostTrace {
    pub host: String,
    /// `over`: nobody does.
    pub state: TraceState,
    /// Who does, in its own words; None: it does not say. So the next two.
    pub member: Option<String>,
    pub term: Option<u64>,
    pub role: Option<String>,
    /// Why it is not known.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceState {
    /// Its process has ended, and the guest's memory with it.
    Over,
    Lives,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nobody holds the machine, and nobody has its state: it may be started.
    Vacant,
    /// Whoever had its state is dead: it can only be booted anew.
    Gone,
    /// Somebody may have its state.
    Lives,
    /// It is not proved that nobody has it.
    Unknown,
}

/// Find out who has the machine of a specification.
pub async fn account(spec: &Spec) -> Result<Account, RegisterError> {
    let (vm, name) = (spec.machine.name.clone(), spec.register.in_words());
    let asked_for = vm.clone();
    let found = registers::once(&spec.register, move |mut register| register.read(&asked_for)).await?;
    let record = found.map(|found| found.record);
    let term = record.as_ref().map(|record| record.term);
    let named: Vec<_> = record.iter().flat_map(named).collect();
    let asked: Vec<_> = hosts(spec, &named)
        .into_iter()
        .map(|host| (host.clone(), tokio::spawn(who_lives_on(spec.clone(), term.unwrap_or(Term(0)), host))))
        .collect();
    let mut hosts = Vec::new();
    for (host, asking) in asked {
        let found = asking.await;
        hosts.push(found.unwrap_or_else(|error| HostTrace::new(host, Err(error.to_string()))));
    }
    let members: Vec<_> = named.into_iter().map(|(member, is_holder)| trace(&member, is_holder, &hosts)).collect();
    let verdict = verdict(&members, &hosts);
    Ok(Account { vm, register: name, term: term.map(|term| term.0), members, hosts, verdict })
}

fn named(record: &Record) -> impl Iterator<Item = (MemberId, bool)> {
    let holder = record.holder.iter().map(|holder| (holder.clone(), true));
    holder.chain(record.standby.iter().map(|standby| (standby.clone(), false)))
}

/// The hosts that may have the machine: this one first, each once.
fn hosts(spec: &Spec, named: &[(MemberId, bool)]) -> Vec<String> {
    let mut hosts = vec![spec.host.clone()];
    let told = spec.standby_hosts.iter().map(|host| host.name.as_str());
    for name in told.chain(named.iter().map(|(member, _)| member.host())) {
        if !hosts.iter().any(|host| host == name) {
            hosts.push(name.to_owned());
        }
    }
    hosts
}

async fn who_lives_on(spec: Spec, term: Term, host: String) -> HostTrace {
    let found = look(&spec, term, &host).await;
    HostTrace::new(host, found)
}

impl HostTrace {
    fn new(host: String, found: Result<Found, String>) -> Self {
        let (state, living, reason) = match found {
            Ok(Found::Nobody) => (TraceState::Over, None, None),
            Ok(Found::Somebody(living)) => (TraceState::Lives, living, None),
            Err(reason) => (TraceState::Unknown, None, Some(reason)),
        };
        let (member, term, role) = match living {
            Some(Living { member, term, role }) => (Some(member.to_string()), Some(term.0), Some(role)),
            None => (None, None, None),
        };
        Self { host, state, member, term, role, reason }
    }
}

/// Who lives in the machine's folder of a host.
enum Found {
    Nobody,
    /// It may not say who it is.
    Somebody(Option<Living>),
}

async fn look(spec: &Spec, term: Term, host: &str) -> Result<Found, String> {
    if host == spec.host {
        if member_folder::is_occupied(&spec.folder) {
            return Ok(Found::Somebody(who_lives::ask(&spec.folder).await));
        }
        return Ok(Found::Nobody);
    }
    let there = spec.standby_hosts.iter().find(|other| other.name == host);
    let there = there.ok_or_else(|| format!("{host} is none of the machine's standby hosts"))?;
    // Whichever member: a host looks into the folder of the machine. Also one of the protocol version before, which
    // cannot say who lives there.
    let (vm, member) = (spec.machine.name.clone(), MemberId::new(host, 0));
    let question = Inquire { term, host: spec.host.clone(), vm, member, wants_living: true, offer: None };
    let answer = tokio::time::timeout(ANSWER_WITHIN, inquire(there, spec.identity.as_ref(), &question)).await;
    let told = answer.unwrap_or_else(|_| Err(format!("{host} gave no answer within {} s", ANSWER_WITHIN.as_secs())))?;
    Ok(if told.is_over { Found::Nobody } else { Found::Somebody(told.living) })
}

/// What became of a member whom the record names, by what is known of its host.
fn trace(member: &MemberId, is_holder: bool, hosts: &[HostTrace]) -> Trace {
    let (member, host) = (member.to_string(), member.host().to_owned());
    let found = hosts.iter().find(|one| one.host == host);
    let state = match found {
        // One lives in a folder at a time.
        Some(HostTrace { member: Some(living), .. }) if *living != member => TraceState::Over,
        Some(found) => found.state,
        None => TraceState::Unknown,
    };
    let reason = found.and_then(|found| found.reason.clone());
    Trace { member, host, is_holder, state, reason }
}

fn verdict(members: &[Trace], hosts: &[HostTrace]) -> Verdict {
    let any = |state| hosts.iter().any(|host| host.state == state);
    if any(TraceState::Lives) {
        Verdict::Lives
    } else if any(TraceState::Unknown) {
        Verdict::Unknown
    } else if members.iter().any(|member| member.is_holder) {
        Verdict::Gone
    } else {
        Verdict::Vacant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, state: TraceState, member: Option<&str>) -> HostTrace {
        let member = member.map(str::to_owned);
        HostTrace { host: name.to_owned(), state, member, term: None, role: None, reason: None }
    }

    fn holder() -> Trace {
        trace(&MemberId::new("a", 1), true, &[host("a", TraceState::Over, None)])
    }

    #[test]
    fn what_is_not_proved_to_be_gone_is_not() {
        use TraceState::{Lives, Over, Unknown};
        for (a, b, expected) in [
            (Over, Over, Verdict::Gone),
            (Over, Lives, Verdict::Lives),
            (Lives, Unknown, Verdict::Lives),
            (Over, Unknown, Verdict::Unknown),
            (Unknown, Over, Verdict::Unknown),
        ] {
            let hosts = [host("a", a, None), host("b", b, None)];
            assert_eq!(verdict(&[holder()], &hosts), expected, "{a:?}, {b:?}");
            // As after the register was emptied.
            let unnamed = if expected == Verdict::Gone { Verdict::Vacant } else { expected };
            assert_eq!(verdict(&[], &hosts), unnamed, "{a:?}, {b:?}");
        }
        assert_eq!(verdict(&[holder()], &[host("a", Over, None)]), Verdict::Gone, "it ran alone");
    }

    #[test]
    fn a_member_is_over_where_another_one_lives_in_its_place() {
        let (me, lives) = (MemberId::new("b", 7), TraceState::Lives);
        let state = |host| trace(&me, false, &[host]).state;
        assert_eq!(state(host("b", lives, Some(me.as_str()))), lives);
        assert_eq!(state(host("b", lives, None)), lives, "it may be that one");
        assert_eq!(state(host("b", lives, Some("b@0000000000000008"))), TraceState::Over);
        assert_eq!(state(host("c", lives, None)), TraceState::Unknown);
    }
}
