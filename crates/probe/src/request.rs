//! What a trial may be asked for.

use stealtime_wire::TrialRequest;

use crate::error::TrialError;
use crate::probe::Probe;

/// The highest priority of `SCHED_FIFO`; the injected disturbance needs one above the probe's.
const HIGHEST_PRIORITY: u32 = 99;

/// Says what about a request makes no sense.
pub fn validate(request: &TrialRequest, probe: &dyn Probe) -> Result<(), TrialError> {
    if request.cpus.is_empty() {
        return Err(TrialError::NoCpu);
    }
    let lowest = u32::from(probe.needs_fifo());
    let highest = HIGHEST_PRIORITY - u32::from(request.injection.is_some());
    if !(lowest..=highest).contains(&request.priority) {
        let expected = format!("{lowest} to {highest}");
        return Err(TrialError::parameter("priority", request.priority.into(), expected));
    }
    if request.duration_ns == 0 {
        return Err(TrialError::parameter("duration_ns", 0, "more than 0".to_owned()));
    }
    probe.validate(request.duration_ns)?;
    probe.validate_priority(request.priority)?;
    match &request.injection {
        Some(injection) if injection.steal_ns >= injection.every_ns => {
            let expected = format!("less than every_ns = {}", injection.every_ns);
            Err(TrialError::parameter("steal_ns", injection.steal_ns, expected))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use stealtime_wire::{Injection, Probe, Switch, Tick, Wakeup};

    use super::*;
    use crate::registry::find;

    const TICK: Probe = Probe::Tick(Tick { iterations: 1 });
    const RING: Probe = Probe::Switch(Switch { threads: 2 });

    fn request(probe: Probe) -> TrialRequest {
        TrialRequest::plain(probe, vec![3, 1], 80, 1_000_000_000)
    }

    fn validate(request: &TrialRequest) -> Result<(), TrialError> {
        super::validate(request, find(&request.probe))
    }

    #[test]
    fn ordinary_scheduling_is_possible_except_for_a_ring() {
        let ordinary = |probe| TrialRequest { priority: 0, ..request(probe) };
        assert!(validate(&ordinary(TICK)).is_ok());
        assert!(validate(&ordinary(Probe::Wakeup(Wakeup { interval_ns: 1_000_000 }))).is_ok());
        let error = validate(&ordinary(RING)).unwrap_err();
        assert!(error.to_string().contains("priority = 0") && error.hint().is_some(), "{error}");
    }

    #[test]
    fn the_parameters_of_a_probe_have_limits() {
        let refused = |probe| validate(&request(probe)).unwrap_err().to_string();
        for threads in [1, 1001] {
            assert!(refused(Probe::Switch(Switch { threads })).contains("2 to 1000"));
        }
        for interval_ns in [999, 1_000_000_001] {
            assert!(refused(Probe::Wakeup(Wakeup { interval_ns })).contains("1000 to the duration of 1000000000"));
        }
    }

    #[test]
    fn a_thief_leaves_room_above_the_probe() {
        let injection = Some(Injection { every_ns: 10, steal_ns: 1, exit: None });
        let with = |priority| TrialRequest { priority, injection: injection.clone(), ..request(TICK) };
        assert!(validate(&with(0)).is_ok() && validate(&with(98)).is_ok());
        assert!(validate(&with(99)).unwrap_err().to_string().contains("0 to 98"));
    }

    #[test]
    fn a_ring_has_one_cpu_and_the_others_all() {
        assert_eq!(find(&RING).cpus(&[3, 1]), [1]);
        assert_eq!(find(&TICK).cpus(&[3, 1]), [3, 1]);
        let none = TrialRequest { cpus: Vec::new(), ..request(RING) };
        assert!(matches!(validate(&none), Err(TrialError::NoCpu)));
    }
}
