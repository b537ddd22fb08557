//! What an active member is told, and what it asks for.

use std::time::Duration;

use thiserror::Error;

use crate::{Epoch, MemberId, Mode, OutputPolicy, RegisterAnswer, RegisterRequest, Term, Timing};

/// What an active member needs to know from the start.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ActiveConfig {
    /// This life of this member.
    pub me: MemberId,
    /// How the virtual machine is protected.
    pub mode: Mode,
    pub timing: Timing,
    /// How many epochs may be cut and not yet acknowledged.
    pub epochs_in_flight: u64,
    /// Take the virtual machine over from a holder that shows no sign of life.
    pub force: bool,
}

/// What the machine of an active member is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ActiveInput {
    /// Nothing; time has passed.
    Tick,
    Register(RegisterAnswer),
    /// A standby was found, and agreed to take the virtual machine.
    StandbyConnected {
        standby: MemberId,
    },
    /// The connection to the standby has ended.
    LinkClosed,
    /// The standby returned a heartbeat that was sent at this moment of our own clock.
    Echo {
        term: Term,
        sent: Duration,
    },
    /// The engine has cut an epoch. The next one by number; not while
    /// [`may_cut`](super::ActiveMember::may_cut) is false. `last`: it is the one that
    /// [`ActiveAction::ShipLastEpoch`] asked for, and the guest stays stopped.
    EpochCut {
        epoch: Epoch,
        last: bool,
    },
    /// The standby holds all epochs up to this one whole.
    Acknowledged {
        term: Term,
        epoch: Epoch,
    },
    /// The standby has seen in its own register that it is named in this term.
    Confirmed {
        term: Term,
    },
    /// The host of a standby that was lost says that its process has ended: it claims no more.
    StandbyOver {
        standby: MemberId,
    },
    /// A host that was asked to stand by says that the virtual machine is held in a later term: by itself, or by a
    /// third one, of which it knows by its register only.
    Outranked {
        told_by: String,
        term: Term,
        holder: MemberId,
    },
    /// Somebody asks for a planned failover.
    FailoverRequested,
    /// This host is to go down, or its member is: the virtual machine is handed over as soon as a standby may
    /// claim, and goes on here until then.
    LeaveRequested,
    /// Somebody asks for an orderly end of the virtual machine, or the guest has shut itself down.
    StopRequested,
    /// The guest that [`ActiveAction::LoadGuest`] asked for stands, ready to run.
    GuestLoaded,
    /// The guest's process has ended by itself.
    GuestGone,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ActiveMessage {
    /// A sign of life, to be returned, with the moment of the sender's clock.
    Heartbeat { term: Term, sent: Duration },
    /// The register names the standby from this term on.
    Protected { term: Term },
    /// The standby shall claim at once, if it holds the epoch `last`.
    Resign { term: Term, last: Epoch },
    /// The virtual machine has ended; there is nothing to claim.
    Bye { term: Term },
}

/// What to do, in this order. Publish [`permit`](super::ActiveMember::permit) to the relay before doing any
/// of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ActiveAction {
    /// Call the register and bring the answer.
    Register(RegisterRequest),
    /// This member holds the virtual machine: start the guest.
    BootGuest,
    /// This member stood by and has won, and the one before it may still take the guest back: load the committed
    /// state, and let the guest stand.
    LoadGuest,
    /// This member stood by and has won: load the committed state if that was not done, announce the guest, and let it
    /// run.
    ResumeGuest,
    /// Look for a standby, host after host, until one is connected.
    SeekStandby,
    /// Look for no standby any more: the register could not name it.
    CeaseSeeking,
    /// The register of this host is another one than ours, which holds nothing of what that found, in term `found`: ask
    /// others for now.
    LeaveAlone { host: String, found: Term },
    /// Cut epochs for the standby, of which `first` is of all pages. Messages carry this term until
    /// `Protected` is sent.
    BeginEpochs { term: Term, first: Epoch },
    /// Cut no more epochs; forget those on their way.
    EndEpochs,
    /// What the relay does from now on.
    Output(OutputPolicy),
    /// Let go what the epochs up to this one sent.
    Release(Epoch),
    /// Send to the standby.
    Send(ActiveMessage),
    /// Close the connection to the standby.
    CloseLink,
    /// Stop the guest, cut, ship; the guest stays stopped.
    ShipLastEpoch,
    /// Stop the guest, do not end it.
    StopGuest,
    /// Let a stopped guest go on.
    ContinueGuest,
    /// End the guest's process.
    KillGuest,
    /// Tell whoever looks after the register that it went back: it holds an older record than it has granted.
    /// These are our term, and that of the record in the register, if there is one.
    RegisterWentBack { held: Term, found: Option<Term> },
    /// A planned failover will not happen.
    FailoverRefused(FailoverRefused),
    /// This member is done; nothing follows.
    Exit(ActiveEnding),
}

/// Why a planned failover did not happen.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Error)]
pub enum FailoverRefused {
    #[error("there is no standby that could take over")]
    NotProtected,
    #[error("the standby did not acknowledge the last epoch in time, so the guest goes on here")]
    NotAcknowledged,
    #[error("the standby did not take over, so the guest goes on here")]
    NotClaimed,
    #[error("the virtual machine was asked to stop before it had moved")]
    Stopped,
}

/// How a member came to its end.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Error)]
pub enum ActiveEnding {
    #[error("the virtual machine is held by {holder} in {term}")]
    HeldBy { holder: MemberId, term: Term },
    /// An earlier life here was protected: its standby may hold newer state than a fresh start has.
    #[error("{standby} may hold the state of the virtual machine and take over from {holder}")]
    StandbyMayClaim { holder: MemberId, standby: MemberId },
    #[error("the virtual machine is running: {holder} gave a sign of life while it was watched")]
    StillRenewed { holder: MemberId },
    #[error("the virtual machine was not started: {reason}")]
    RegisterUnreachable { reason: String },
    #[error("{holder} took over in {term}")]
    Superseded {
        /// Who; nobody if the virtual machine was stopped.
        holder: String,
        term: Term,
    },
    #[error("handed over to {holder} in {term}")]
    HandedOver { holder: MemberId, term: Term },
    #[error("the guest's process ended by itself{}", if *.resigned { ", and the standby was asked to take over" } else { "" })]
    GuestGone {
        /// Whether a standby was asked.
        resigned: bool,
    },
    #[error("stopped as asked")]
    Stopped,
    #[error("stopped here as asked, but the register could not be told{}", of_heir(.heir.as_ref()))]
    StoppedButRegistered {
        /// Who may run the virtual machine by it: its standby, or who offered it. None: nobody.
        heir: Option<MemberId>,
    },
    #[error("stopped here as asked, but the register could not be told, and {to} was asked to take over")]
    StoppedButOffered { to: MemberId },
}

impl ActiveEnding {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::HeldBy { .. } => Some("stop it there, or, if that host is gone for good, start with --force"),
            Self::StandbyMayClaim { .. } => {
                Some("wait for it to take over; --force starts afresh and loses that state")
            }
            Self::StillRenewed { .. } => Some("stop it there first"),
            Self::RegisterUnreachable { .. } => Some("check that the register runs and can be reached from here"),
            Self::StoppedButOffered { .. } | Self::StoppedButRegistered { heir: Some(_) } => {
                Some("stop it there, too, with `stealtime protect stop`")
            }
            Self::StoppedButRegistered { heir: None } => {
                Some("the next start on this host first makes sure that nobody uses it")
            }
            _ => None,
        }
    }
}

fn of_heir(heir: Option<&MemberId>) -> String {
    match heir {
        Some(heir) => format!(", so that {} may run the virtual machine", heir.host()),
        None => " and may name this host as the holder".to_owned(),
    }
}

/// Where an active member stands; see `docs/protect-internals.md`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ActiveState {
    /// Asking the register for the virtual machine.
    Starting,
    /// Watching whether the recorded holder lives.
    Observing,
    /// Holder without a standby.
    Unprotected,
    /// The standby gets its first full copy.
    Syncing,
    /// The standby has a copy; the register is asked to name it.
    Naming,
    /// The standby may claim, and is to see in its own register that it is named.
    Confirming,
    /// The standby may claim, and has seen that it is named.
    Protected,
    /// Shipping the last epoch of a planned failover.
    Draining,
    /// The standby was asked to claim; the guest stands, and is kept until it runs there.
    Resigned,
    /// The guest of a planned failover is loaded here, and stands until the register lets it run.
    Arriving,
    /// The lease is lost: output waits for the register to grant a term alone.
    Reclaiming,
    /// As before, for so long that the guest is stopped.
    Fenced,
    /// Giving the virtual machine back to the register.
    Stopping,
    Ended,
}
