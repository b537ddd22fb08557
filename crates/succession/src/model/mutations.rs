//! A check that has never failed is no check: each rule is broken in the members, and the checks must find
//! it.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::Fault;
use super::exhaustive::world_in;
use super::failures::Failure;
use super::full_register::{Filled, closed_link, outages};
use super::random::{run, run_in};
use super::recovery::{check_recovery, may_fail_over};
use super::scenarios::{
    closed_between_clocks, echoes_that_are_late, second_start_on_the_same_host, silence_between_clocks,
};
use super::steps::Step;
use super::stopping::{stopped_at_a_full_register, stopped_by_a_stranger_to_all, stopped_on_arrival};
use super::watch::Violation;
use super::world::{World, timing, two_leases};
use crate::{ActiveState, Mode};

/// The same random choices in each test run.
fn choices() -> impl Iterator<Item = Vec<u16>> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = prop::collection::vec(any::<u16>(), 500);
    (0..600).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

/// Random runs until one breaks a rule; none if a great many do not.
fn first_violation(mode: Mode, fault: Option<Fault>) -> Option<String> {
    choices().find_map(|choices| run(mode, fault, &choices).err().map(|(violation, _)| violation.0))
}

#[test]
fn random_runs_are_not_idle() {
    let worlds: Vec<_> = choices().map(|choices| run(Mode::Net, None, &choices).unwrap()).collect();
    let failed_over = worlds.iter().filter(|world| world.resumed.is_some()).count();
    let twice = worlds.iter().filter(|world| world.resumed.is_some_and(|(by, _)| by > 1)).count();
    eprintln!("{failed_over} of {} runs failed over, {twice} to a later standby", worlds.len());
    assert!(failed_over > worlds.len() / 4, "{failed_over} of {} runs failed over", worlds.len());
    assert!(twice > worlds.len() / 20, "{twice} of {} runs failed over to a later standby", worlds.len());
}

fn finds(mode: Mode, fault: Fault, expected: &str) {
    let violation = first_violation(mode, Some(fault));
    let violation = violation.unwrap_or_else(|| panic!("{fault:?} in mode {mode} was not found"));
    assert!(violation.contains(expected), "{fault:?} in mode {mode} was found as: {violation}");
}

#[test]
fn release_on_sending_is_found() {
    finds(Mode::Net, Fault::ReleasesOnSend, "but the standby would resume");
}

#[test]
fn output_that_is_held_from_later_than_the_first_cut_is_found() {
    for fault in [Fault::HoldsWhenHeard, Fault::HoldsWhenNamed] {
        for mode in [Mode::Net, Mode::NetBypass] {
            finds(mode, fault, "but the standby would resume");
        }
    }
}

#[test]
fn output_that_is_held_without_a_standby_is_found() {
    finds(Mode::Net, Fault::HoldsOn, "is alone, and Hold");
}

#[test]
fn a_lease_that_does_not_end_is_found() {
    finds(Mode::NoNet, Fault::IgnoresLease, "may all send freely");
}

#[test]
fn an_early_claim_is_found() {
    finds(Mode::NoNet, Fault::ClaimsEarly, "may all send freely");
}

#[test]
fn an_unnamed_claim_is_found() {
    finds(Mode::Net, Fault::ClaimsUnnamed, "does not name it");
}

#[test]
fn naming_without_a_copy_is_found() {
    finds(Mode::Net, Fault::NamesEarly, "is named without a complete copy");
}

#[test]
fn going_on_unasked_is_found() {
    finds(Mode::Net, Fault::GoesOnUnasked, "");
}

#[test]
fn a_guest_that_runs_before_the_register_lets_it_is_found() {
    finds(Mode::Net, Fault::RunsWhenLoaded, "while it may still be taken back");
}

#[test]
fn going_on_with_an_offered_guest_unasked_is_found() {
    finds(Mode::Net, Fault::GoesOnWithOffered, "");
}

#[test]
fn a_lease_from_the_echo_is_found() {
    assert_eq!(echoes_that_are_late(None).map(|_| ()), Ok(()));
    let violation = echoes_that_are_late(Some(Fault::CountsLeaseFromEcho)).unwrap_err();
    assert!(violation.0.contains("may all send freely"), "{violation:?}");
}

#[test]
fn a_second_start_that_does_not_watch_is_found() {
    let world = second_start_on_the_same_host(None).unwrap();
    assert_eq!(world.serving(), [0], "the first one goes on");
    let violation = second_start_on_the_same_host(Some(Fault::TakesUnwatched)).unwrap_err();
    assert!(violation.0.contains("may all send freely"), "{violation:?}");
}

#[test]
fn a_closed_link_that_is_taken_for_a_death_is_found() {
    let violation = closed_link(Some(Fault::BelievesInDeath)).unwrap_err();
    assert!(violation.0.contains("may all send freely"), "{violation:?}");
}

#[test]
fn naming_at_a_register_that_takes_no_writes_is_found() {
    for filled in [Filled::Alone, Filled::Syncing, Filled::Naming, Filled::Protected] {
        let (outages, _) = outages(filled, Some(Fault::NamesUnproven)).unwrap();
        assert!(outages > 3, "{filled:?}: {outages} times");
    }
}

#[test]
fn an_end_that_forgets_who_may_run_the_machine_is_found() {
    let fault = Some(Fault::ForgetsHeirs);
    for (world, expected) in [
        (stopped_at_a_full_register(Some(Failure::Reset(0)), fault), "runs the guest after its end was told"),
        (stopped_on_arrival(fault), "goes on with the guest after its end was told"),
        (stopped_by_a_stranger_to_all(fault), "tells the end of what"),
        (stopped_by_a_stranger_to_all(Some(Fault::EndsUnseen)), "tells the end of what"),
    ] {
        let violation = world.unwrap_err();
        assert!(violation.0.contains(expected), "{violation:?}");
    }
}

#[test]
fn a_challenge_that_is_ignored_is_found() {
    let violation = second_start_on_the_same_host(Some(Fault::IgnoresChallenges)).unwrap_err();
    assert!(violation.0.contains("may all send freely"), "{violation:?}");
}

/// A pair that is protected, one step after which the register fails.
fn protected_pair(fault: Fault) -> World {
    let mut world = world_in(Mode::Net, ActiveState::Protected, Some(fault));
    world.run_punctually(3).unwrap();
    world
}

#[test]
fn belief_in_an_older_record_is_found() {
    // Three states ago nobody had the standby named, and the holder was the same.
    let error = check_recovery(protected_pair(Fault::BelievesOlderRecords), Failure::GoBack(1)).unwrap_err();
    assert!(error.contains("was granted"), "the older record is renewed: {error}");
    let mut moved = protected_pair(Fault::BelievesOlderRecords);
    moved.take(Step::Fail(Failure::PowerOff(0))).unwrap();
    moved.run_punctually(12).unwrap();
    // The holder of that state is the one that died.
    let back = moved.granted.iter().rev().position(|record| record.holder.as_ref() == Some(&moved.processes[0].me));
    let error = check_recovery(moved.clone(), Failure::GoBack(back.unwrap())).unwrap_err();
    assert!(error.contains("did not go on"), "{error}");
}

#[test]
fn an_end_for_want_of_a_record_is_found() {
    let error = check_recovery(protected_pair(Fault::EndsWithoutRecord), Failure::EraseRegister).unwrap_err();
    assert!(error.contains("did not go on"), "{error}");
}

#[test]
fn a_claim_without_room_for_clocks_of_other_rates_is_found() {
    for (percent, fault, is_safe) in [
        (100, Some(Fault::ClaimsWithoutMargin), true),
        (290, None, true),
        (290, Some(Fault::ClaimsWithoutMargin), false),
        // Silence is borne for three times as long as the shorter lease lasts: beyond it, deadlines on two
        // clocks say nothing.
        (500, None, false),
    ] {
        let violation = silence_between_clocks(percent, fault).err();
        let as_expected = match &violation {
            None => is_safe,
            Some(violation) => !is_safe && violation.0.contains("may all send freely"),
        };
        assert!(as_expected, "a clock at {percent} %, {fault:?}: {violation:?}");
    }
}

#[test]
fn a_claim_over_a_closed_connection_waits_for_the_shorter_lease_and_its_room() {
    for mode in [Mode::NoNet, Mode::NetBypass] {
        for (percent, fault, is_safe) in [
            (100, None, true),
            (150, None, true),
            (200, None, false),
            (100, Some(Fault::PassesForTheWholeLease), false),
            (100, Some(Fault::ClaimsOnceClosed), false),
            (130, Some(Fault::ClaimsWithoutMargin), false),
        ] {
            let violation = closed_between_clocks(mode, percent, fault).err();
            let as_expected = match &violation {
                None => is_safe,
                Some(violation) => !is_safe && violation.0.contains("may all send freely"),
            };
            assert!(as_expected, "{mode}, a clock at {percent} %, {fault:?}: {violation:?}");
        }
    }
    assert_eq!(closed_between_clocks(Mode::Net, 300, None).map(|_| ()), Ok(()), "acknowledgements end at once");
}

#[test]
fn clocks_within_the_margin_break_no_rule_and_any_clock_does_in_mode_net() {
    for (percent, mode) in [(130, Mode::NoNet), (130, Mode::NetBypass), (300, Mode::Net)] {
        let violation = choices().step_by(3).find_map(|choices| {
            let worlds = [timing(), two_leases()].map(|timing| World::with_timing(mode, None, timing));
            worlds.into_iter().find_map(|world| run_in(World { beta_clock_percent: percent, ..world }, &choices).err())
        });
        assert_eq!(violation, None, "{mode} with a clock at {percent} %");
    }
}

#[test]
fn an_acknowledgement_before_staging_is_found() {
    finds(Mode::Net, Fault::AcknowledgesOnReceipt, "but the standby would resume");
}

/// Epochs that were sent before the standby was named are staged after it was told.
fn staged_after_naming(fault: Option<Fault>) -> Result<World, Violation> {
    let mut world = world_in(Mode::Net, ActiveState::Naming, fault);
    let is_staging = |step| matches!(step, Step::Stage(_));
    world.run_without(1, |step| matches!(step, Step::Apply(_) | Step::Stage(_)))?;
    world.run_without(1, is_staging)?;
    world.run_punctually(6)?;
    Ok(world)
}

#[test]
fn a_refusal_of_earlier_terms_is_found() {
    let acknowledged = |fault| {
        let world = staged_after_naming(fault).unwrap();
        let member = world.active(0).unwrap();
        (member.state(), member.cut().0 - member.acknowledged_epoch().unwrap().0)
    };
    assert_eq!(acknowledged(None), (ActiveState::Protected, 0));
    assert_ne!(acknowledged(Some(Fault::RefusesEarlierTerms)), (ActiveState::Protected, 0));
}

/// Heartbeats of the new term come before the message that begins it.
fn overtaken_naming(fault: Option<Fault>) -> Result<World, Violation> {
    let mut world = world_in(Mode::Net, ActiveState::Naming, fault);
    world.run_without(1, |step| matches!(step, Step::ToStandby(_)))?;
    while world.links[0].heartbeat_behind_others().is_some() {
        world.take(Step::Overtake(0))?;
    }
    world.run_punctually(3)?;
    Ok(world)
}

#[test]
fn a_term_from_a_heartbeat_is_found() {
    let eligible = |fault| may_fail_over(&overtaken_naming(fault).unwrap(), 0);
    assert_eq!(eligible(None), Ok(()));
    eligible(Some(Fault::TakesTermFromHeartbeat)).unwrap_err();
}
