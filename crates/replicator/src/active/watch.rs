//! What an active member notices by itself that somebody must see to.

use stealtime_succession::ActiveState;

use super::Active;
use crate::alarms::AlarmKind;
use crate::clock::now;
use crate::words;

/// How often in a row a standby may have had no answer of its register.
const MISSED_LOOKS: u32 = 3;

impl Active {
    pub(super) fn raise_alarms(&mut self) {
        let timing = self.spec.timing;
        let is_protected = self.member.state() == ActiveState::Protected;
        let trouble = self.registrar.trouble(timing.register_deadline);
        self.events.alarm(AlarmKind::Register, trouble.map(|trouble| words::of_register(&trouble, is_protected)));
        let patience = timing.standby_look_interval() * MISSED_LOOKS;
        let blind = self.link.host().filter(|_| is_protected && self.link.confirmed_age() > patience);
        let text = blind.map(|host| {
            format!("{} has had no answer of its register for {patience:?}: it could not take over", host.name)
        });
        self.events.alarm(AlarmKind::StandbyRegister, text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Origin;
    use super::super::tests::rig::{IMPATIENT_MS, Rig, Shared};

    #[tokio::test]
    async fn a_register_that_is_away_is_an_alarm_while_the_guest_is_protected() {
        let boot = Origin::Boot { force: false };
        let mut rig = Rig::start("net", IMPATIENT_MS, Shared::default(), boot).await;
        let _standby = rig.protect(stealtime_succession::Epoch(1)).await;
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
}
