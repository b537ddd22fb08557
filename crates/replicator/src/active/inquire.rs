//! Asking the host of a standby that was lost whether that has ended: then nobody is left who could claim.

use std::time::Duration;

use stealtime_shipping::{Identity, Inquire, Told};
use stealtime_succession::ActiveState;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::{Active, Input};
use crate::inquiry::inquire;
use crate::spec::StandbyHost;

/// Between two questions: a process that was killed takes a moment to end.
const PAUSE: Duration = Duration::from_millis(50);

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Asks until it is told that the member has ended, or is dropped.
pub struct Inquiry {
    task: AbortHandle,
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inquiry {
    /// Ask the host of the member that the question is on.
    pub fn start(
        host: StandbyHost,
        identity: Option<Identity>,
        question: Inquire,
        inputs: UnboundedSender<Input>,
    ) -> Self {
        let task = tokio::spawn(async move {
            loop {
                // A host that cannot be asked says nothing, which proves nothing.
                let answer = tokio::time::timeout(ANSWER_WITHIN, inquire(&host, identity.as_ref(), &question)).await;
                if let Ok(Ok(Told { is_over: true, .. })) = answer {
                    let _ = inputs.send(Input::StandbyOver(question.member.clone()));
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { task: task.abort_handle() }
    }
}

impl Active {
    /// While the register's word is waited for, that of the host of who may claim is as good: nobody does.
    pub(super) fn inquire(&mut self, state: ActiveState) {
        // A standby that was told of the machine's end ends itself, if it has heard it.
        let parts = state == ActiveState::Stopping && self.link.host().is_none();
        if !parts && !matches!(state, ActiveState::Reclaiming | ActiveState::Fenced) {
            self.inquiry = None;
            return;
        }
        let Some(member) = self.member.may_claim().cloned().filter(|_| self.inquiry.is_none()) else { return };
        let Some(host) = self.spec.standby_hosts.iter().find(|host| host.name == member.host()).cloned() else {
            return;
        };
        let (term, vm) = (self.member.term(), self.spec.machine.name.clone());
        let question = Inquire { term, host: self.spec.host.clone(), vm, member, wants_living: false, offer: None };
        self.inquiry = Some(Inquiry::start(host, self.spec.identity.clone(), question, self.inputs.clone()));
    }
}
