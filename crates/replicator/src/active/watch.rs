//! What an active member notices by itself that somebody must see to.

use std::time::Duration;

use stealtime_capture::{QEMU_LOG, bound_appended};
use stealtime_succession::{ActiveInput, ActiveState};

use super::Active;
use crate::alarms::AlarmKind;
use crate::clock::now;
use crate::registers::Trouble;
use crate::wording;

/// How often the guest's port is looked at.
const LOOK_AT_PORT_EVERY: Duration = Duration::from_millis(250);

/// How long its port may be faulty before the guest is moved: who sets it up anew takes it out of use first.
const PORT_PATIENCE: Duration = Duration::from_millis(750);

/// How often in a row a standby may have had no answer of its register.
const MISSED_LOOKS: u32 = 3;

/// What is known of the guest's port.
#[derive(Default)]
pub struct PortWatching {
    /// When it is looked at next.
    look_at: Duration,
    faulty_since: Option<Duration>,
    /// When the guest may be moved for it.
    moves_not_before: Duration,
}

impl PortWatching {
    /// When it is time to look again.
    pub fn look_at(&self) -> Duration {
        self.look_at
    }
}

impl Active {
    pub(super) fn raise_alarms(&mut self) {
        let timing = self.spec.timing;
        let is_protected = self.member.state() == ActiveState::Protected;
        let trouble = self.registrar.trouble(timing.register_deadline);
        // In a planned failover it is fenced, too, until the register has answered whose the guest is.
        let fails = matches!(trouble, Some(Trouble::Silent(_) | Trouble::ReadOnly(_)));
        let stands = self.member.state() == ActiveState::Fenced && fails;
        let text = "the guest stands: neither its standby nor the register can be reached".to_owned();
        self.events.alarm(AlarmKind::Stopped, stands.then_some(text));
        self.events.alarm(AlarmKind::Register, trouble.map(|trouble| wording::of_register(&trouble, is_protected)));
        let patience = timing.standby_look_interval() * MISSED_LOOKS;
        let blind = self.link.host().filter(|_| is_protected && self.link.confirmed_age() > patience);
        let text = blind.map(|host| {
            format!("{} has had no answer of its register for {patience:?}: it could not take over", host.name)
        });
        self.events.alarm(AlarmKind::StandbyRegister, text);
        let deaf = self.link.host().filter(|_| is_protected).zip(self.link.port_fault());
        let text = deaf.map(|(host, fault)| wording::of_standbys_port(&host.name, fault));
        self.events.alarm(AlarmKind::StandbyPort, text);
        let longest = Duration::from_nanos(self.spec.longest_hold_ns);
        // A guest that was offered stands, and has sent nothing since its last epoch.
        let is_offered = self.member.state() == ActiveState::Resigned;
        let overdue = self.epochs.overdue(longest, now()).filter(|_| !is_offered);
        self.events.alarm(AlarmKind::Hold, overdue.map(|waited| wording::of_hold(waited, longest)));
        self.events.alarm(AlarmKind::Disk, self.guest.disk_fault().or_else(|| self.notes.fault()));
        self.certificates.look();
        self.events.alarm(AlarmKind::Certificate, self.certificates.alarm());
        if now() >= self.port.look_at {
            self.port.look_at = now() + LOOK_AT_PORT_EVERY;
            self.look_at_port(is_protected);
            self.count_memory();
            // A guest may make its QEMU say much; on a full disk nothing can be done about it.
            let _ = bound_appended(&self.spec.folder.join(QEMU_LOG), wording::LOG_BYTES);
        }
    }

    /// What the guest has not used yet of its memory stays promised to it.
    fn count_memory(&mut self) {
        let Some(facts) = &self.life.facts else { return };
        if let (Some(promised), Ok(bytes)) = (&mut self.promised, facts.ram.allocated_bytes()) {
            promised.uses(bytes);
        }
    }

    /// A guest that runs and reaches nobody is moved, where it would reach somebody; else it stays, and is not moved
    /// to and fro.
    fn look_at_port(&mut self, is_protected: bool) {
        let Some(fault) = self.guest.port_fault() else {
            self.port.faulty_since = None;
            return self.events.alarm(AlarmKind::Port, None);
        };
        let since = *self.port.faulty_since.get_or_insert_with(now);
        let follows = match self.link.port_fault() {
            _ if !is_protected => "no standby could take it".to_owned(),
            None if self.link.is_leaving() => "it stays, as its standby's host is to go down".to_owned(),
            Some(theirs) => format!("it stays, as it would reach nobody from its standby either: {theirs}"),
            None => "it moves to its standby".to_owned(),
        };
        self.events.alarm(AlarmKind::Port, Some(format!("the guest reaches nobody: {fault}; {follows}")));
        let may_move = is_protected && self.link.port_fault().is_none() && !self.link.is_leaving();
        let moves = may_move && now() >= since + PORT_PATIENCE;
        if moves && now() >= self.port.moves_not_before {
            // A standby that does not take it now is asked again later, and not while the guest never runs.
            self.port.moves_not_before = now() + self.spec.timing.register_deadline * 2;
            self.tell(ActiveInput::FailoverRequested);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use stealtime_outputhold::PortFault;
    use stealtime_shipping::{Confirmed, Message};
    use stealtime_succession::Epoch;

    use super::super::Origin;
    use super::super::tests::rig::{IMPATIENT_MS, Rig, Shared};
    use super::*;
    use crate::fake_guest::Deed;

    #[tokio::test]
    async fn a_register_that_is_away_is_an_alarm_while_the_guest_is_protected() {
        let boot = Origin::Boot { force: false };
        let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), boot).await;
        let _standby = rig.protect(Epoch(1)).await;
        assert_eq!(rig.status().await["alarms"], serde_json::json!([]));
        rig.register.hide(true);
        rig.stands_by("alarms", |alarms| alarms[0]["kind"] == "register").await;
        let status = rig.status().await;
        assert_eq!(status["protected"], true, "the standby acknowledges");
        let text = status["alarms"][0]["text"].to_string();
        assert!(text.contains("it is away") && text.contains("if the standby is lost now, the guest stops"), "{text}");
        assert!(status["register_age_ns"].as_u64().unwrap() > 1_000_000_000, "{status}");
        rig.register.hide(false);
        rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().is_empty()).await;
    }

    #[tokio::test]
    async fn a_register_with_servers_that_are_not_used_is_an_alarm_and_no_more() {
        let boot = Origin::Boot { force: false };
        let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), boot).await;
        rig.protect(Epoch(1)).await;
        rig.register.remark_on(Some("B: it is of another cluster than A"));
        rig.stands_by("alarms", |alarms| alarms[0]["kind"] == "register").await;
        let status = rig.status().await;
        let text = "the register answers, and not all of it is used: B: it is of another cluster than A";
        assert_eq!((&status["alarms"][0]["text"], &status["protected"]), (&Value::from(text), &Value::from(true)));
        rig.register.remark_on(None);
        rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().is_empty()).await;
    }

    #[tokio::test]
    async fn a_guest_whose_port_is_dead_moves_where_it_reaches_somebody() {
        for theirs in [None, Some("there is no bridge br0 any more".to_owned())] {
            let mut rig = Rig::boot("net").await;
            let standby = rig.protect(Epoch(1)).await;
            let term = standby.term.next();
            standby.send(&Message::Confirmed(Confirmed { term, port_fault: theirs.clone() }));
            rig.guest.break_port(Some(PortFault::TapGone("tap-phone".to_owned())));
            let words = if theirs.is_none() { "it moves" } else { "it stays, as it would reach nobody" };
            rig.stands_by("alarms", |alarms| alarms[0]["text"].to_string().contains(words)).await;
            if theirs.is_none() {
                rig.see(Deed::Last).await;
                continue;
            }
            tokio::time::sleep(PORT_PATIENCE * 2).await;
            assert_eq!(rig.status().await["protected"], true, "it stays where it is");
            rig.guest.break_port(None);
            let is_theirs = |alarms: &Value| alarms.as_array().unwrap().iter().all(|one| one["kind"] == "standby-port");
            rig.stands_by("alarms", is_theirs).await;
        }
    }

    #[tokio::test]
    async fn a_standby_from_which_the_guest_would_reach_nobody_is_an_alarm() {
        let mut rig = Rig::boot("net").await;
        let standby = rig.protect(Epoch(1)).await;
        let term = standby.term.next();
        let says = |port_fault: Option<&str>| {
            let port_fault = port_fault.map(str::to_owned);
            standby.send(&Message::Confirmed(Confirmed { term, port_fault }));
        };
        says(Some("there is no TAP stt1 any more"));
        rig.stands_by("alarms", |alarms| alarms[0]["kind"] == "standby-port").await;
        let status = rig.status().await;
        assert_eq!(status["protected"], true, "its memory is safe there");
        let text = &status["alarms"][0]["text"];
        assert_eq!(
            text,
            "b could take the guest over, which would reach nobody from there: there is no TAP stt1 any more"
        );
        says(None);
        rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().is_empty()).await;
    }

    #[tokio::test]
    async fn a_guest_that_stands_as_nobody_can_be_reached_is_an_alarm() {
        let boot = Origin::Boot { force: false };
        let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), boot).await;
        let standby = rig.protect(Epoch(1)).await;
        rig.register.hide(true);
        standby.hang_up();
        rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().iter().any(|one| one["kind"] == "stopped")).await;
        assert_eq!(rig.status().await["role"], "stopped");
        rig.register.hide(false);
        rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().is_empty()).await;
    }

    const HOLD: Duration = Duration::from_secs(1);

    /// Wait until the alarm is on that output waits for long.
    async fn holds(rig: &Rig) {
        rig.stands_by("alarms", |alarms| alarms[0]["kind"] == "hold").await;
    }

    #[tokio::test]
    async fn output_that_waits_for_its_acknowledgement_is_an_alarm_also_for_a_while_after_it_left() {
        let mut rig = Rig::boot_to_hold_for(HOLD).await;
        let standby = rig.protect(Epoch(1)).await;
        rig.guest.cut(Epoch(2), false);
        holds(&rig).await;
        let text = rig.status().await["alarms"][0]["text"].to_string();
        assert!(text.contains("longer than 1000 ms (hint: a faster link"), "{text}");
        standby.acknowledge(Epoch(2));
        rig.stands("released", 2).await;
        assert_eq!(rig.status().await["alarms"][0]["kind"], "hold", "whoever asks each 15 s has to see it");
    }

    #[tokio::test]
    async fn output_that_waits_for_the_first_epoch_is_an_alarm() {
        let mut rig = Rig::boot_to_hold_for(HOLD).await;
        let standby = rig.standby().await;
        rig.see(Deed::FullCopy { term: standby.term, first: Epoch(1) }).await;
        tokio::time::sleep(HOLD * 3 / 2).await;
        assert_eq!(rig.status().await["alarms"], serde_json::json!([]), "it is copied, and sends freely");
        rig.guest.cut(Epoch(1), false);
        holds(&rig).await;
        assert_eq!(rig.status().await["role"], "solo");
    }

    #[tokio::test]
    async fn output_that_waits_for_the_naming_of_the_standby_is_an_alarm() {
        let mut rig = Rig::boot_to_hold_for(HOLD).await;
        let standby = rig.standby().await;
        rig.see(Deed::FullCopy { term: standby.term, first: Epoch(1) }).await;
        rig.register.hide(true);
        rig.guest.cut(Epoch(1), false);
        standby.acknowledge(Epoch(1));
        rig.see(Deed::Release(Epoch(1))).await;
        rig.stands_by("alarms", |alarms| alarms.as_array().unwrap().iter().any(|one| one["kind"] == "hold")).await;
        rig.register.hide(false);
        rig.see(Deed::Go(standby.term.next())).await;
    }
}
