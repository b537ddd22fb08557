//! A limit that stays lifted, since nobody can tell from here whether who has lifted it still runs: a container beside
//! this one, say, which may have been killed.

use std::fmt;

use stealtime_owner::{Fate, Owner};
use stealtime_wire::{Finding, FindingLevel};

use super::{Files, Mark, NO_LIMIT, RUNTIME, marks, read_number};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftLifted {
    by: Owner,
    original_us: i64,
}

impl LeftLifted {
    /// What to do about it.
    pub fn hint(&self) -> String {
        format!(
            "if it has ended, put the limit back: run `stealtime-agent restore` outside, where all processes are seen, \
             or write {} to {RUNTIME}",
            self.original_us
        )
    }

    /// The same for a result.
    pub fn finding(&self) -> Finding {
        Finding {
            code: "rt_throttling_left".to_owned(),
            level: FindingLevel::Limits,
            text: self.to_string(),
            hint: Some(self.hint()),
        }
    }
}

impl fmt::Display for LeftLifted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner { process, pid_namespace, .. } = self.by;
        write!(
            formatter,
            "RT throttling stays lifted: process {process} of the PID namespace {pid_namespace} has done that, and \
             nobody can tell from here whether it still runs"
        )
    }
}

/// Tells of a limit that neither this process nor its next start puts back; none where all who hold it are known to
/// live, or nothing can be read.
pub fn left_lifted() -> Option<LeftLifted> {
    left_lifted_in(&Files::default())
}

pub(super) fn left_lifted_in(files: &Files) -> Option<LeftLifted> {
    if read_number(&files.runtime).ok()? != NO_LIMIT {
        return None;
    }
    let unknown = |mark: &Mark| files.processes.fate(&mark.owner) == Fate::NotOursToJudge;
    let mark = marks(files).ok()?.into_iter().find(unknown)?;
    Some(LeftLifted { by: mark.owner, original_us: mark.original_us })
}
