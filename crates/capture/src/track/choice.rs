//! Which tracker is used, and why not a better one.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ShadowCompare, SoftDirtyTracker, TrackError, UserfaultTracker, WriteTracker};
use crate::ram::RamFile;
use crate::reception::{Handover, HandoverError};

/// The trackers, the best one first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrackerKind {
    Userfault,
    SoftDirty,
    Shadow,
}

impl TrackerKind {
    const ALL: [Self; 3] = [Self::Userfault, Self::SoftDirty, Self::Shadow];

    /// As in a specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Userfault => "userfault",
            Self::SoftDirty => "soft-dirty",
            Self::Shadow => "shadow",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackerRefusal {
    pub tracker: TrackerKind,
    /// Why, as a sentence.
    pub reason: String,
}

impl fmt::Display for TrackerRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is not used: {}", self.tracker.name(), self.reason)
    }
}

pub struct TrackerChoice {
    pub kind: TrackerKind,
    pub tracker: Box<dyn WriteTracker>,
    /// The better ones that were refused; empty if the first one was taken.
    pub refused: Vec<TrackerRefusal>,
}

/// Take the first tracker that works, beginning with `wanted` (or with the best). The last one always works.
pub fn choose_tracker(
    wanted: Option<TrackerKind>,
    ram: &Arc<RamFile>,
    pid: u32,
    handover: Result<Handover, HandoverError>,
) -> TrackerChoice {
    let mut handover = Some(handover);
    let mut refused = Vec::new();
    let first = wanted.unwrap_or(TrackerKind::Userfault);
    for kind in TrackerKind::ALL.into_iter().filter(|kind| *kind >= first) {
        let attempt: Result<Box<dyn WriteTracker>, String> = match kind {
            TrackerKind::Userfault => match handover.take() {
                Some(Ok(handover)) => boxed(UserfaultTracker::new(handover, pid)),
                Some(Err(error)) => Err(error.to_string()),
                None => Err("it was tried before".into()),
            },
            TrackerKind::SoftDirty => boxed(SoftDirtyTracker::new(ram, pid)),
            TrackerKind::Shadow => break,
        };
        match attempt {
            Ok(tracker) => return TrackerChoice { kind, tracker, refused },
            Err(reason) => refused.push(TrackerRefusal { tracker: kind, reason }),
        }
    }
    TrackerChoice { kind: TrackerKind::Shadow, tracker: Box::new(ShadowCompare::new(Arc::clone(ram))), refused }
}

fn boxed(attempt: Result<impl WriteTracker + 'static, TrackError>) -> Result<Box<dyn WriteTracker>, String> {
    match attempt {
        Ok(tracker) => Ok(Box::new(tracker)),
        Err(TrackError::System { action, source, .. }) => Err(format!("it cannot {action}: {source}")),
        Err(TrackError::Unusable { reason, .. }) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_userfaultfd_another_one_is_taken_and_the_reason_is_kept() {
        let ram = Arc::new(RamFile::anonymous("test", 8192).unwrap());
        let choice = choose_tracker(None, &ram, std::process::id(), Err(HandoverError::NeverMapped));
        assert_ne!(choice.kind, TrackerKind::Userfault);
        assert_eq!(choice.refused[0].tracker, TrackerKind::Userfault);
        assert!(choice.refused[0].reason.contains("did not map"), "{:?}", choice.refused);
        assert_eq!(choice.tracker.name(), choice.kind.name());
    }

    #[test]
    fn what_is_wanted_is_taken_without_looking_at_better_ones() {
        let ram = Arc::new(RamFile::anonymous("test", 8192).unwrap());
        let choice = choose_tracker(Some(TrackerKind::Shadow), &ram, 1, Err(HandoverError::NeverMapped));
        assert_eq!((choice.kind, choice.refused.len()), (TrackerKind::Shadow, 0));
        assert_eq!(serde_json::to_value(TrackerKind::SoftDirty).unwrap(), TrackerKind::SoftDirty.name());
    }
}
