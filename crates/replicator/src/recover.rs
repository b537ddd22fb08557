//! Whether anybody still has the state of a machine, as after a power cut of both its hosts: the register says who had
//! it, and the daemons of their hosts whether those live. Nothing of a guest's memory outlives its member.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use stealtime_shipping::Inquire;
use stealtime_succession::{MemberId, Record, RegisterError, Term};

use crate::inquiry::has_ended;
use crate::spec::Spec;
use crate::{member_folder, registers};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceState {
    /// Its process has ended, and the guest's memory with it.
    Over,
    Lives,
    Unknown,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nobody holds the machine: it may be started.
    Vacant,
    /// Whoever had its state is dead: it can only be booted anew.
    Gone,
    /// Somebody may have its state.
    Lives,
    /// It is not proved that nobody has it.
    Unknown,
}

/// Find out who has the machine of a specification.
///
/// # Errors
/// [`RegisterError`] if the register does not say.
pub async fn account(spec: &Spec) -> Result<Account, RegisterError> {
    let (vm, name) = (spec.machine.name.clone(), spec.register.in_words());
    let asked_for = vm.clone();
    let found = registers::once(&spec.register, move |mut register| register.read(&asked_for)).await?;
    let record = found.map(|found| found.record);
    let mut members = Vec::new();
    for (member, is_holder) in record.iter().flat_map(named) {
        members.push(trace(spec, record.as_ref().map_or(Term(0), |record| record.term), member, is_holder).await);
    }
    let verdict = verdict(&members);
    Ok(Account { vm, register: name, term: record.map(|record| record.term.0), members, verdict })
}

fn named(record: &Record) -> impl Iterator<Item = (MemberId, bool)> {
    let holder = record.holder.iter().map(|holder| (holder.clone(), true));
    holder.chain(record.standby.iter().map(|standby| (standby.clone(), false)))
}

async fn trace(spec: &Spec, term: Term, member: MemberId, is_holder: bool) -> Trace {
    let (state, reason) = match is_over(spec, term, &member).await {
        Ok(true) => (TraceState::Over, None),
        Ok(false) => (TraceState::Lives, None),
        Err(reason) => (TraceState::Unknown, Some(reason)),
    };
    Trace { member: member.to_string(), host: member.host().to_owned(), is_holder, state, reason }
}

async fn is_over(spec: &Spec, term: Term, member: &MemberId) -> Result<bool, String> {
    if member.host() == spec.host {
        return Ok(!member_folder::is_occupied(&spec.folder));
    }
    let host = spec.standby_hosts.iter().find(|host| host.name == member.host());
    let host = host.ok_or_else(|| format!("{} is none of the machine's standby hosts", member.host()))?;
    let question = Inquire { term, host: spec.host.clone(), vm: spec.machine.name.clone(), member: member.clone() };
    let answer = tokio::time::timeout(ANSWER_WITHIN, has_ended(host, spec.identity.as_ref(), &question)).await;
    answer.unwrap_or_else(|_| Err(format!("{} gave no answer within {} s", host.name, ANSWER_WITHIN.as_secs())))
}

fn verdict(members: &[Trace]) -> Verdict {
    let any = |state| members.iter().any(|member| member.state == state);
    if !members.iter().any(|member| member.is_holder) {
        Verdict::Vacant
    } else if any(TraceState::Lives) {
        Verdict::Lives
    } else if any(TraceState::Unknown) {
        Verdict::Unknown
    } else {
        Verdict::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(is_holder: bool, state: TraceState) -> Trace {
        Trace { member: "a@1".to_owned(), host: "a".to_owned(), is_holder, state, reason: None }
    }

    #[test]
    fn what_is_not_proved_to_be_gone_is_not() {
        use TraceState::{Lives, Over, Unknown};
        for (holder, standby, expected) in [
            (Over, Over, Verdict::Gone),
            (Over, Lives, Verdict::Lives),
            (Lives, Unknown, Verdict::Lives),
            (Over, Unknown, Verdict::Unknown),
            (Unknown, Over, Verdict::Unknown),
        ] {
            assert_eq!(verdict(&[member(true, holder), member(false, standby)]), expected, "{holder:?}, {standby:?}");
        }
        assert_eq!(verdict(&[member(true, Over)]), Verdict::Gone, "it ran alone");
        assert_eq!(verdict(&[]), Verdict::Vacant);
    }
}
