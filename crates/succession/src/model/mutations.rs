//! A check that has never failed is no check: each rule is broken in the members, and the checks must find it.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::Fault;
use super::random::run;
use super::scenarios::{echoes_that_are_late, second_start_on_the_same_host};
use crate::Mode;

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
