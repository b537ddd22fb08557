//! What happened to a member, a JSON object a line in `events.jsonl`, with the monotonic time, so that those
//! of two members on one machine can be laid side by side; and the same in words on standard error, for the
//! journal.

use std::collections::VecDeque;

use serde::Serialize;
use stealtime_capture::BoundedFile;
use stealtime_succession::{Epoch, Term};

use crate::alarms::{Alarm, AlarmKind, Alarms};
use crate::spec::Spec;
use crate::{clock, wording};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    Began,
    /// The machine runs here, in this term.
    Active {
        term: Term,
        /// From the state of this epoch; None: it was booted.
        from: Option<Epoch>,
    },
    /// The state machine of an active member went on.
    State {
        state: String,
        /// How old the last heartbeat that came back is; None without a standby.
        echo_age_ns: Option<u64>,
    },
    /// A link to the other member is up.
    Linked {
        peer: String,
    },
    /// The other member was lost.
    LinkLost {
        reason: String,
    },
    /// Its host says that the standby has ended.
    StandbyOver {
        standby: String,
    },
    /// The other member refused.
    Refused {
        reason: String,
    },
    /// All memory was copied while the guest ran, and what it wrote meanwhile, in so many rounds.
    CopiedInAdvance {
        /// Beyond the copy of all memory.
        rounds: u32,
        /// Of the last round.
        pages: u64,
        /// How long that took: what was written meanwhile is left for the first whole epoch.
        took_ns: u64,
        /// Whether rounds became short; else see the warning.
        converges: bool,
    },
    /// All disks were compared with those of the standby, and what differed was copied, while the guest ran.
    DisksCopied {
        compared_bytes: u64,
        copied_bytes: u64,
    },
    /// From now on the host may die.
    Protected {
        term: Term,
        epoch: Epoch,
    },
    /// The guest stands still until the register answers.
    GuestStopped {
        reason: String,
    },
    GuestContinued,
    /// The other member may be gone.
    Claiming {
        term: Term,
        reason: String,
    },
    /// This member lost its role: its guest is dead and what it held is gone.
    Fenced {
        reason: String,
    },
    /// The machine ended, or this member left it.
    Left {
        reason: String,
    },
    /// The register was put back to an older state, or emptied.
    RegisterWentBack {
        /// What this member holds.
        held: Term,
        /// What the register holds; None: nothing.
        found: Option<Term>,
    },
    /// The guest's kernel has panicked and said so.
    GuestPanicked,
    /// The guest rebooted, or its processor reset itself: what it had in memory is gone.
    GuestReset,
    /// Somebody must see to this.
    Alarm {
        alarm: AlarmKind,
        text: String,
    },
    /// And no longer.
    AlarmEnded {
        alarm: AlarmKind,
    },
    /// Something is not as wanted.
    Warning {
        text: String,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    monotonic_ns: u64,
    pid: u32,
    host: &'a str,
    vm: &'a str,
    #[serde(flatten)]
    event: &'a Event,
}

pub struct EventLog {
    lines: BoundedFile,
    host: String,
    vm: String,
    warnings: VecDeque<String>,
    alarms: Alarms,
}

/// Warnings that are kept.
const WARNINGS: usize = 8;

impl EventLog {
    /// Go on with the log of this folder: it holds all lives of a machine on this host.
    pub fn new(spec: &Spec) -> Self {
        let lines = BoundedFile::continued(spec.folder.join("events.jsonl"), spec.log_bytes);
        let (host, vm) = (spec.host.clone(), spec.machine.name.clone());
        Self { lines, host, vm, warnings: VecDeque::new(), alarms: Alarms::default() }
    }

    /// Add what happened now. A full disk must not end the protection, so that it is only told.
    pub fn add(&mut self, event: &Event) {
        let line = Line {
            monotonic_ns: clock::nanoseconds(clock::now()),
            pid: std::process::id(),
            host: &self.host,
            vm: &self.vm,
            event,
        };
        let text = serde_json::to_string(&line).unwrap_or_else(|error| error.to_string());
        let text = wording::visible(&text);
        wording::say(&text);
        if let Err(error) = self.lines.add(format!("{text}\n").as_bytes()) {
            wording::say(&format!("events.jsonl cannot be written: {error}"));
        }
    }

    /// Remember what is not as wanted; tells whether it is new.
    pub fn warn(&mut self, text: String) -> bool {
        if self.warnings.contains(&text) {
            return false;
        }
        self.add(&Event::Warning { text: text.clone() });
        self.warnings.push_back(text);
        while self.warnings.len() > WARNINGS {
            self.warnings.pop_front();
        }
        true
    }

    /// Raise an alarm in these words, or end it.
    pub fn alarm(&mut self, kind: AlarmKind, text: Option<String>) {
        if self.alarms.set(kind, text.clone()) {
            self.add(&match text {
                Some(text) => Event::Alarm { alarm: kind, text },
                None => Event::AlarmEnded { alarm: kind },
            });
        }
    }

    pub fn alarms(&self) -> Vec<Alarm> {
        self.alarms.on()
    }

    /// What is not as wanted, the newest last.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().cloned()
    }

    /// Forget the warnings that begin like this.
    pub fn withdraw(&mut self, start: &str) {
        self.warnings.retain(|text| !text.starts_with(start));
    }
}
