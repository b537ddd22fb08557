//! Courses of events that chance seldom finds.

use super::Fault;
use super::exhaustive::{bring_to, world_in};
use super::failures::Failure;
use super::steps::Step;
use super::watch::Violation;
use super::world::{Role, TICK, World, timing};
use crate::{ActiveState, Mode, Timing};

/// Heartbeats arrive, the echoes are late, and then nothing arrives any more at the standby.
pub fn echoes_that_are_late(fault: Option<Fault>) -> Result<World, Violation> {
    // Heartbeats are so far apart that all output has one lease; one is due at the third tick.
    let timing =
        Timing { heartbeat_interval: TICK * 3, active_deadline: TICK * 6, standby_timeout: TICK * 7, ..timing() };
    let mut world = bring_to(World::with_timing(Mode::NoNet, fault, timing), ActiveState::Protected);
    world.run_punctually(2)?;
    let echoes_wait = |step| matches!(step, Step::ToActive(_));
    world.take(Step::Advance)?;
    world.run_without(0, echoes_wait)?;
    // Just sent, just heard; nothing that is sent later arrives, and the echo takes two ticks.
    world.take(Step::Fail(Failure::CutToStandby(0)))?;
    world.run_without(2, echoes_wait)?;
    world.run_punctually(8)?;
    Ok(world)
}

/// The active member is cut off from all others where the clock of the standby goes on at another rate.
/// Deadlines are long, so that rates show in ticks.
pub fn silence_between_clocks(percent: u32, fault: Option<Fault>) -> Result<World, Violation> {
    let timing = Timing {
        heartbeat_interval: TICK,
        active_deadline: TICK * 8,
        standby_timeout: TICK * 12,
        register_deadline: TICK * 40,
    };
    let world = World::with_timing(Mode::NoNet, fault, timing);
    let mut world = bring_to(World { beta_clock_percent: percent, ..world }, ActiveState::Protected);
    world.run_punctually(2)?;
    world.take(Step::Fail(Failure::HideRegister(0)))?;
    world.take(Step::Fail(Failure::CutBoth(0)))?;
    world.run_punctually(16)?;
    assert_eq!(world.resumed.map(|(by, _)| by), Some(1), "the standby went live");
    Ok(world)
}

/// The connection closes, and the active member, which hears nothing of it, is cut off from all others.
/// Deadlines are long, so that rates show in ticks.
pub fn closed_between_clocks(mode: Mode, percent: u32, fault: Option<Fault>) -> Result<World, Violation> {
    let timing = Timing {
        heartbeat_interval: TICK,
        active_deadline: TICK * 16,
        standby_timeout: TICK * 24,
        register_deadline: TICK * 80,
    };
    let world = World::with_timing(mode, fault, timing);
    let mut world = bring_to(World { beta_clock_percent: percent, ..world }, ActiveState::Protected);
    world.run_punctually(2)?;
    world.take(Step::Fail(Failure::HideRegister(0)))?;
    world.take(Step::Fail(Failure::Reset(0)))?;
    world.take(Step::ToStandby(0))?;
    world.take(Step::Fail(Failure::CutBoth(0)))?;
    world.run_punctually(if mode == Mode::Net { 6 } else { 14 })?;
    assert_eq!(world.resumed.map(|(by, _)| by), Some(1), "{mode}: the standby went live before its patience was over");
    Ok(world)
}

/// The virtual machine runs, and somebody starts it again on the same host.
pub fn second_start_on_the_same_host(fault: Option<Fault>) -> Result<World, Violation> {
    let mut world = World::new(Mode::Net, fault);
    let alone = |step| matches!(step, Step::Connect(_));
    world.run_without(1, alone)?;
    world.start("alpha", false);
    world.run_without(20, alone)?;
    Ok(world)
}

fn state(world: &World, index: usize) -> Option<ActiveState> {
    world.active(index).map(crate::ActiveMember::state)
}

#[test]
fn a_member_stopped_for_long_releases_nothing_when_it_goes_on() {
    for mode in [Mode::NoNet, Mode::Net, Mode::NetBypass] {
        let mut world = world_in(mode, ActiveState::Protected, None);
        world.run_punctually(2).unwrap();
        world.take(Step::Fail(Failure::Stop(0))).unwrap();
        // The register keeps what it was asked; acknowledgements wait in the socket.
        world.run_punctually(400).unwrap();
        assert_eq!(world.resumed.map(|(by, _)| by), Some(1), "{mode}: the standby went live");
        let stopped = world.active(0).unwrap();
        assert!(stopped.permit().acknowledged_until <= world.now(0), "{mode}: before it handles anything");
        world.take(Step::Fail(Failure::Continue(0))).unwrap();
        world.run_punctually(4).unwrap();
        assert!(matches!(world.processes[0].role, Role::Gone), "{mode}: it learned that it was superseded");
        assert!(world.processes[0].guest.is_none(), "{mode}: its guest was killed");
        assert_eq!(world.serving().len(), 1, "{mode}");
    }
}

#[test]
fn a_planned_failover_loses_nothing_in_any_mode() {
    for mode in [Mode::NoNet, Mode::Net, Mode::NetBypass] {
        let mut world = world_in(mode, ActiveState::Protected, None);
        world.run_punctually(3).unwrap();
        world.take(Step::SwitchOver(0)).unwrap();
        let written = world.processes[0].guest.as_ref().unwrap().value;
        world.run_punctually(4).unwrap();
        assert_eq!(world.resumed, Some((1, written)), "{mode}: all that was written is resumed");
        assert!(matches!(world.processes[0].role, Role::Gone), "{mode}");
        world.run_punctually(4).unwrap();
        assert_eq!(state(&world, 1), Some(ActiveState::Protected), "{mode}: by a fresh standby on the first host");
        world.take(Step::SwitchOver(1)).unwrap();
        world.run_punctually(6).unwrap();
        assert_eq!(world.resumed.map(|(by, _)| by), Some(2), "{mode}: and back");
    }
}

#[test]
fn a_failover_asked_for_while_an_epoch_is_cut_loses_nothing() {
    for mode in [Mode::NoNet, Mode::Net, Mode::NetBypass] {
        let mut world = world_in(mode, ActiveState::Protected, None);
        world.run_punctually(3).unwrap();
        world.take(Step::Write(0)).unwrap();
        world.take(Step::Cut(0)).unwrap();
        world.take(Step::SwitchOver(0)).unwrap();
        let written = world.processes[0].guest.as_ref().unwrap().value;
        world.run_punctually(4).unwrap();
        assert_eq!(world.resumed, Some((1, written)), "{mode}: the epoch that was being cut is not the last");
        assert!(matches!(world.processes[0].role, Role::Gone), "{mode}");
    }
}

#[test]
fn an_engine_that_is_heard_late_does_not_keep_a_standby_from_being_named() {
    let mut world = world_in(Mode::Net, ActiveState::Syncing, None);
    world.run_without(4, |step| matches!(step, Step::Hear(_))).unwrap();
    assert_eq!(state(&world, 0), Some(ActiveState::Syncing));
    world.run_punctually(4).unwrap();
    assert_eq!(state(&world, 0), Some(ActiveState::Protected), "its acknowledgement was not lost meanwhile");
}

#[test]
fn a_link_that_is_lost_while_an_epoch_is_cut_is_followed_by_a_new_one() {
    let mut world = world_in(Mode::Net, ActiveState::Protected, None);
    world.run_punctually(3).unwrap();
    world.take(Step::Cut(0)).unwrap();
    world.take(Step::Fail(Failure::Reset(0))).unwrap();
    world.take(Step::ToActive(0)).unwrap();
    // Late: the register has granted a term alone and the next standby is there when the engine is heard.
    world.run_without(6, |step| matches!(step, Step::Hear(_))).unwrap();
    world.run_punctually(12).unwrap();
    let serving = world.serving();
    assert_eq!(serving.len(), 1);
    assert_eq!(state(&world, serving[0]), Some(ActiveState::Protected));
}

#[test]
fn without_standby_and_register_the_guest_stops_and_later_goes_on() {
    let mut world = world_in(Mode::Net, ActiveState::Protected, None);
    world.take(Step::Fail(Failure::HideRegister(0))).unwrap();
    world.take(Step::Fail(Failure::PowerOff(1))).unwrap();
    let alone = |step| matches!(step, Step::Connect(_));
    world.run_without(4, alone).unwrap();
    assert_eq!(state(&world, 0), Some(ActiveState::Reclaiming));
    assert!(world.serving().is_empty(), "what it sends is held");
    world.run_without(8, alone).unwrap();
    assert_eq!(state(&world, 0), Some(ActiveState::Fenced));
    assert!(!world.processes[0].guest.as_ref().unwrap().running, "stopped, not killed");
    world.take(Step::Fail(Failure::ShowRegister(0))).unwrap();
    world.run_without(2, alone).unwrap();
    assert_eq!((state(&world, 0), world.serving()), (Some(ActiveState::Unprotected), vec![0]));
}

#[test]
fn a_register_that_is_away_does_not_disturb_a_protected_pair() {
    let mut world = world_in(Mode::Net, ActiveState::Protected, None);
    for index in [0, 1] {
        world.take(Step::Fail(Failure::HideRegister(index))).unwrap();
    }
    let seen = world.seen;
    world.run_punctually(50).unwrap();
    assert_eq!((state(&world, 0), world.serving()), (Some(ActiveState::Protected), vec![0]));
    assert!(world.seen > seen, "and output goes on");
}

#[test]
fn force_takes_over_from_a_dead_holder_only() {
    for dead in [false, true] {
        let mut world = World::new(Mode::Net, None);
        let alone = |step| matches!(step, Step::Connect(_));
        world.run_without(2, alone).unwrap();
        if dead {
            world.take(Step::Fail(Failure::PowerOff(0))).unwrap();
        }
        world.start("beta", true);
        world.run_without(20, alone).unwrap();
        assert_eq!(world.serving(), [usize::from(dead)], "dead: {dead}");
    }
}

#[test]
fn without_the_ack_gate_a_failover_loses_what_clients_saw() {
    let mut world = world_in(Mode::NoNet, ActiveState::Protected, None);
    world.run_without(2, |step| matches!(step, Step::Cut(_))).unwrap();
    world.take(Step::Fail(Failure::PowerOff(0))).unwrap();
    world.run_without(6, |step| matches!(step, Step::Connect(_) | Step::Write(_))).unwrap();
    let (_, resumed) = world.resumed.unwrap();
    assert!(resumed < world.seen, "clients saw {}, {resumed} was resumed: the modes differ", world.seen);
}

/// A planned failover is under way, and after so many steps somebody asks for the end of the virtual machine; the
/// register holds in the end what was told. How often it was stopped, and how often it had moved.
fn stop_while_it_moves(fault: Option<Fault>) -> (usize, usize) {
    let (mut stopped, mut moved) = (0, 0);
    for steps in 0..24 {
        let mut world = world_in(Mode::Net, ActiveState::Protected, fault);
        world.run_punctually(3).unwrap();
        world.take(Step::SwitchOver(0)).unwrap();
        for _ in 0..steps {
            let mut possible = world.ordinary_steps().into_iter();
            let step = possible.find(|step| !matches!(step, Step::Write(_) | Step::Connect(_)));
            world.take(step.unwrap_or(Step::Advance)).unwrap();
        }
        if world.active(0).is_none() {
            continue;
        }
        world.take(Step::End(0)).unwrap();
        world.run_punctually(12).unwrap();
        if world.ended {
            stopped += 1;
            assert_eq!(world.serving(), [] as [usize; 0], "after {steps} steps");
        } else {
            moved += 1;
            assert_eq!(world.resumed.map(|(by, _)| by), Some(1), "after {steps} steps");
            assert_eq!(world.serving().len(), 1, "after {steps} steps");
        }
    }
    (stopped, moved)
}

#[test]
fn a_stop_during_a_planned_failover_is_answered_by_what_happened() {
    let (stopped, moved) = stop_while_it_moves(None);
    assert!(stopped > 5 && moved > 0, "{stopped} stopped, {moved} moved");
    let (stopped, moved) = stop_while_it_moves(Some(Fault::ForgetsStop));
    assert!(stopped == 0 && moved > 5, "{stopped} stopped, {moved} moved: the check would never fail");
}

/// Whether a member is ever protected by a standby that looks into another register.
fn protected_across_registers(fault: Option<Fault>) -> bool {
    let mut world = World::new(Mode::Net, fault);
    world.registers_differ = true;
    let is_protected = |world: &World| state(world, 0) == Some(ActiveState::Protected);
    (0..24).any(|_| {
        world.run_punctually(1).unwrap();
        is_protected(&world)
    })
}

#[test]
fn a_standby_with_a_register_of_its_own_protects_nobody() {
    assert!(!protected_across_registers(None));
    assert!(protected_across_registers(Some(Fault::ConfirmsUnseen)), "the check would never fail");
}
