//! Both members, the register and the links between them as one value, to be driven through all that can
//! happen.
//!
//! The members are the real ones. The guest is a counter: it writes a value and sends it in a frame, an epoch
//! is the value at its cut, and a client remembers the highest value that it has seen. What must hold is in
//! `watch.rs`.

mod carry;
mod exhaustive;
mod failures;
mod full_register;
mod hearsay;
mod mutations;
mod random;
mod recovery;
mod scenarios;
mod search;
mod steps;
mod stopping;
mod watch;
mod world;

/// A rule that is broken on purpose, to see that the checks find it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Fault {
    /// An epoch's output is released when the epoch is sent, as some have done (R1).
    ReleasesOnSend,
    /// Output is held from when the member hears of the first epoch, not from its cut on (R1).
    HoldsWhenHeard,
    /// Output is held once the standby is named (R1).
    HoldsWhenNamed,
    /// Output stays held after the standby was lost.
    HoldsOn,
    /// Permission does not end by itself (R15).
    IgnoresLease,
    /// The lease counts from when a heartbeat came back, not from when it was sent (R15).
    CountsLeaseFromEcho,
    /// The standby claims at once, whether the other's lease is over or not.
    ClaimsEarly,
    /// A standby claims that the register does not name.
    ClaimsUnnamed,
    /// The standby is named before it holds a complete epoch.
    NamesEarly,
    /// A member that lost its standby goes on without asking the register (R14).
    GoesOnUnasked,
    /// A record of a lower term is believed: its holder supersedes us, or it is what we hold.
    BelievesOlderRecords,
    /// A register without our record is taken for one that somebody else holds.
    EndsWithoutRecord,
    /// What was not acknowledged leaves as long as what was.
    PassesForTheWholeLease,
    /// The standby claims when its connection closes, whether all leases of the other are over or not.
    ClaimsOnceClosed,
    /// The standby is as patient as the lease is long: clocks of different rates have no room.
    ClaimsWithoutMargin,
    /// An epoch is acknowledged when it has come, before it is staged (R1).
    AcknowledgesOnReceipt,
    /// An epoch of an earlier term of the session is refused, although it was sent before the newer term was
    /// told.
    RefusesEarlierTerms,
    /// The standby takes its term from a heartbeat that overtook the message which names it.
    TakesTermFromHeartbeat,
    /// A new start takes the virtual machine from a holder without watching it.
    TakesUnwatched,
    /// Who offered the guest gives it up when the standby has claimed, not when that runs it.
    EndsWhenClaimed,
    /// A guest that was offered runs as soon as it is loaded, without asking the register.
    RunsWhenLoaded,
    /// A standby whose link has closed is taken for one whose process has ended.
    BelievesInDeath,
    /// A holder that is challenged neither answers nor takes it for the end of its lease.
    IgnoresChallenges,
    /// A standby says that its register names it without having looked.
    ConfirmsUnseen,
    /// A register that takes no writes is asked to name one standby after the other.
    NamesUnproven,
    /// What a host has only read of a third one, in whatever register, ends a member.
    BelievesHearsay,
    /// What a host tells of a third one is no reason to look into the register.
    IgnoresHearsay,
    /// A member that hears of a later term goes on.
    IgnoresLaterTerms,
    /// A machine whose end the register was not told has ended, whoever may run it.
    ForgetsHeirs,
    /// A standby that has ended is taken for one that had not claimed before.
    EndsUnseen,
    /// The end of the machine is not heard while it is moved.
    ForgetsStop,
    /// Who offered the guest goes on with it once its patience is over, without asking the register.
    GoesOnWithOffered,
}
