//! Keeps a guest's clock with its real-time clock (RTC), which goes on while the guest is stopped.
//!
//! A protected guest is stopped for each checkpoint, and with it all that it counts time by: its time-stamp
//! counter, HPET and kvmclock stand. Its RTC does not: QEMU answers with the host's wall clock (`-rtc
//! clock=host`), on every host, with every accelerator and without a network whose answers would be held. It
//! tells whole seconds only, so the moment at which it goes from one to the next is looked for.
//!
//! The kernel's clock is then made faster by as much as it loses (adjtimex(2), up to 10 %), which holds for
//! `CLOCK_MONOTONIC` and all timers too. A jump, as at a failover, is made good on `CLOCK_REALTIME` by one
//! step forwards; `CLOCK_MONOTONIC` is never stepped.
//!
//! QEMU gives the RTC whole seconds when the machine is made, and loses the fraction. So the clock is within
//! half a second of the host's, by an amount that never changes.

mod edge;
mod servo;
mod sys;

use std::io;
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use stealtime_probe::clock::{monotonic_raw_ns, realtime_ns};
use thiserror::Error;

use edge::{EdgeError, EdgeFinder, Reading};
use servo::{Edge, Servo};
use stealtime_console::remarks;

/// `rtc_read_time()` of the kernel, in seconds since 1970.
const SECONDS: &str = "/sys/class/rtc/rtc0/since_epoch";

/// Why a clock is not kept any more.
#[derive(Debug, Error)]
pub enum DisciplineError {
    #[error("the real-time clock {SECONDS} cannot be read")]
    Rtc(#[source] io::Error),
    #[error(transparent)]
    Edge(#[from] EdgeError),
    #[error("the kernel's clock cannot be steered")]
    Kernel(#[source] io::Error),
}

/// `stealtime-agent discipline`
pub fn run() -> anyhow::Result<ExitCode> {
    let refused = keep(&|line| remarks::say(line)).err();
    refused.map_or(Ok(ExitCode::SUCCESS), |error| Err(error).context("the clock is not kept any more"))
}

/// Keep the clock for ever, or until that does not work any more: then it goes at its own pace again. `say`
/// is told of each step and each new rate.
pub fn keep(say: &dyn Fn(&str)) -> Result<(), DisciplineError> {
    let ended = steer(say);
    // The kernel took it before; where it does not, nothing was steered.
    let _ = sys::set_rate(0.0);
    ended
}

fn steer(say: &dyn Fn(&str)) -> Result<(), DisciplineError> {
    let mut servo = Servo::default();
    let mut finder = EdgeFinder::new();
    let mut told_percent = 0.0_f64;
    loop {
        let Edge { raw_ns, second } = finder.next(&mut read, &mut thread::sleep)?;
        // The clock as it was at the edge, a few milliseconds ago.
        let since_edge_ns = monotonic_raw_ns().saturating_sub(raw_ns);
        let real_ns = realtime_ns().saturating_sub(since_edge_ns);
        let correction = servo.observe(Edge { raw_ns, second }, real_ns);
        if let Some(step_ns) = correction.step_ns {
            sys::step(step_ns).map_err(DisciplineError::Kernel)?;
            say(&format!("the clock was stepped by {:+.3} s", step_ns as f64 / 1e9));
        }
        sys::set_rate(correction.rate).map_err(DisciplineError::Kernel)?;
        let percent = servo.lost_share() * 100.0;
        if (percent - told_percent).abs() > TOLD_PERCENT {
            told_percent = percent;
            say(&format!("the clock loses {percent:.1} %, which is made good"));
        }
    }
}

/// A change of the rate by less is not told.
const TOLD_PERCENT: f64 = 1.0;

fn read() -> Result<Reading, DisciplineError> {
    let before_ns = monotonic_raw_ns();
    let text = std::fs::read_to_string(SECONDS).map_err(DisciplineError::Rtc)?;
    let second = text.trim().parse().map_err(|error| DisciplineError::Rtc(io::Error::other(error)))?;
    Ok(Reading { before_ns, second, after_ns: monotonic_raw_ns() })
}
