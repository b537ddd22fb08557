//! What an operator must see to, although the machine runs and may be protected: each kind of alarm is a line of the
//! status, a metric and an event, and ends by itself once its reason is gone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// What is in need of somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AlarmKind {
    /// The register gives no answer, or takes no writes.
    Register,
    /// The standby has not seen its register for long: it could not take over.
    StandbyRegister,
    /// The guest runs, and reaches nobody; of a standby: it would.
    Port,
    /// The guest would reach nobody from its standby.
    StandbyPort,
    /// The guest's output waits for longer than it may.
    Hold,
    /// A certificate of this host ends soon, has ended, or is not there.
    Certificate,
    /// Whether a standby could resume the machine cannot be tried.
    Trial,
    /// A standby has little memory left.
    Memory,
    /// The guest stands, as neither standby nor register can be reached.
    Stopped,
    /// The guest's kernel has panicked.
    Guest,
    /// A disk takes no writes.
    Disk,
}

impl AlarmKind {
    /// All of them, for figures that are there before anything happens.
    pub const ALL: [Self; 11] = [
        Self::Register,
        Self::StandbyRegister,
        Self::Port,
        Self::StandbyPort,
        Self::Hold,
        Self::Certificate,
        Self::Trial,
        Self::Memory,
        Self::Stopped,
        Self::Guest,
        Self::Disk,
    ];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::StandbyRegister => "standby-register",
            Self::Port => "port",
            Self::StandbyPort => "standby-port",
            Self::Hold => "hold",
            Self::Certificate => "certificate",
            Self::Trial => "trial",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::Guest => "guest",
            Self::Disk => "disk",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Alarm {
    pub kind: AlarmKind,
    /// In a sentence.
    pub text: String,
}

#[derive(Debug, Default)]
pub struct Alarms {
    raised: BTreeMap<AlarmKind, String>,
}

impl Alarms {
    /// Raise an alarm in these words, or end it; tells whether that is news. Other words for what is on are none.
    pub fn set(&mut self, kind: AlarmKind, text: Option<String>) -> bool {
        let was_on = self.raised.contains_key(&kind);
        let is_on = text.is_some();
        match text {
            Some(text) => drop(self.raised.insert(kind, text)),
            None => drop(self.raised.remove(&kind)),
        }
        was_on != is_on
    }

    pub fn on(&self) -> Vec<Alarm> {
        self.raised.iter().map(|(kind, text)| Alarm { kind: *kind, text: text.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_news_once_and_ends_once() {
        let mut alarms = Alarms::default();
        assert!(!alarms.set(AlarmKind::Port, None), "it was not on");
        assert!(alarms.set(AlarmKind::Port, Some("the TAP is gone".to_owned())));
        assert!(!alarms.set(AlarmKind::Port, Some("the TAP is gone still".to_owned())));
        assert_eq!(alarms.on(), [Alarm { kind: AlarmKind::Port, text: "the TAP is gone still".to_owned() }]);
        assert!(alarms.set(AlarmKind::Port, None) && alarms.on().is_empty());
    }

    #[test]
    fn figures_and_documents_name_alarms_alike() {
        for kind in AlarmKind::ALL {
            assert_eq!(serde_json::json!(kind), kind.name());
        }
    }

    #[test]
    fn no_alarm_is_left_out_of_figures() {
        let schema = schemars::schema_for!(AlarmKind);
        let names: Vec<_> = schema.get("oneOf").unwrap().as_array().unwrap().iter().map(|one| &one["const"]).collect();
        assert_eq!(names, AlarmKind::ALL.map(|kind| serde_json::json!(kind.name())).iter().collect::<Vec<_>>());
    }
}
