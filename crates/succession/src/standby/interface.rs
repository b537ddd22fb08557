//! What a standby is told, and what it asks for.

use std::time::Duration;

use thiserror::Error;

use crate::{Epoch, MemberId, Mode, RegisterAnswer, RegisterRequest, Term, Timing, Versioned};

/// What a standby learns from the active member's greeting.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StandbyConfig {
    /// This life of this member.
    pub me: MemberId,
    /// The member that sends the epochs.
    pub active: MemberId,
    /// The active member's term at the time of the greeting.
    pub term: Term,
    /// How the virtual machine is protected.
    pub mode: Mode,
    /// The deadlines; the active member's own.
    pub timing: Timing,
}

/// What the machine of a standby is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum StandbyInput {
    /// Nothing; time has passed.
    Tick,
    Register(RegisterAnswer),
    /// A sign of life, sent at this moment of the active member's clock.
    Heartbeat {
        term: Term,
        sent: Duration,
    },
    /// Part of an epoch came.
    Traffic {
        term: Term,
    },
    /// An epoch has come whole, and its checksums are right. `full`: it holds all pages.
    EpochVerified {
        term: Term,
        epoch: Epoch,
        full: bool,
    },
    /// The active member says that the register names us.
    Protected {
        term: Term,
    },
    /// The active member asks us to claim, if we hold the epoch `last`, and keeps the guest until it runs here.
    Resign {
        term: Term,
        last: Epoch,
    },
    /// The active member has ended the virtual machine.
    Bye {
        term: Term,
    },
    /// The connection to the active member has ended.
    LinkClosed,
    /// The operator's word that nobody else has the virtual machine, for a claim that waits since the
    /// register went back.
    ClaimForced,
}

/// A message to the active member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum StandbyMessage {
    /// A heartbeat comes back, with its moment as it came.
    Echo { term: Term, sent: Duration },
    /// We hold this epoch whole.
    Acknowledge { term: Term, epoch: Epoch },
    /// Our register names us in this term.
    Confirmed { term: Term },
}

/// What to do, in this order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum StandbyAction {
    /// Call the register and bring the answer.
    Register(RegisterRequest),
    /// This epoch is what would be resumed from now on; must be done before it is acknowledged.
    Commit(Epoch),
    /// Send to the active member.
    Send(StandbyMessage),
    /// Tell whoever looks after the register that it went back: it does not hold our session any more. These
    /// are the newest term that we were told, and that of the record in the register, if there is one.
    RegisterWentBack { held: Term, found: Option<Term> },
    /// Take nothing more from the active member; close the connection.
    CloseLink,
    /// This member holds the virtual machine: go on as the [`ActiveMember`](crate::ActiveMember) that the promotion
    /// makes. A link that was not closed stays open until that runs the guest or ends.
    GoLive(Promotion),
    /// This member is done; nothing follows. A link that is still open is closed once the active member was told why.
    Exit(StandbyEnding),
}

/// What a claim has won; makes an [`ActiveMember`](crate::ActiveMember).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Promotion {
    /// The register, as we wrote it.
    pub held: Versioned,
    /// Who held it before.
    pub from: MemberId,
    pub epoch: Epoch,
    /// When the claim was sent: the lease counts from here.
    pub claimed_at: Duration,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Error)]
pub enum StandbyEnding {
    #[error("the active member was lost before the first full copy was complete, so there is nothing to resume")]
    NeverSynced,
    #[error("the register names no standby, so the virtual machine is left to {holder}")]
    NotNamed { holder: MemberId },
    #[error("the virtual machine is left to {holder}, which holds it in {term}")]
    ClaimLost {
        /// Who; nobody if it was stopped.
        holder: String,
        term: Term,
    },
    #[error(
        "the register here is another one than the active member's: that names this host in {told}, and this one has {}",
        found_in_words(*.found)
    )]
    OtherRegister {
        told: Term,
        /// The term of what is there, if anything is.
        found: Option<Term>,
    },
    #[error("the active member has ended the virtual machine")]
    Bye,
}

/// Where a standby stands; see `docs/protect-internals.md`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum StandbyState {
    /// The first full copy is not complete, or nobody said that we are named.
    Syncing,
    /// Named by the active member's word, with a complete copy.
    Named,
    /// And by our register.
    Eligible,
    /// Asking the register for the virtual machine; nothing is acknowledged any more.
    Claiming,
    /// Won; an active member goes on from here.
    Live,
    Ended,
}

fn found_in_words(found: Option<Term>) -> String {
    found.map_or_else(|| "nothing of it".to_owned(), |term| format!("{term}"))
}
