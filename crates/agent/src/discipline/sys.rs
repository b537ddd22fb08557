//! The kernel's clock, steered through adjtimex(2).

use std::io;
use std::mem::MaybeUninit;

/// What a tick of the kernel's user interface takes by itself, in microseconds (`USER_HZ` is 100).
const TICK_US: f64 = 10_000.0;

/// The unit of `timex.freq`: 2^-16 parts in a million.
const FREQUENCY_UNIT: f64 = 65_536.0 * 1e6;

/// Have the kernel's clock run faster by this share of its own pace, at most 10 %.
#[expect(clippy::cast_possible_truncation, reason = "at most 10 % of these units")]
pub fn set_rate(share: f64) -> io::Result<()> {
    let tick = (TICK_US * (1.0 + share)).round();
    let rest = share - (tick / TICK_US - 1.0);
    adjust(|request| {
        request.modes = libc::ADJ_TICK | libc::ADJ_FREQUENCY;
        request.tick = tick as libc::c_long;
        request.freq = (rest * FREQUENCY_UNIT).round() as libc::c_long;
    })
}

/// Move `CLOCK_REALTIME` by so many nanoseconds at once.
pub fn step(step_ns: i64) -> io::Result<()> {
    adjust(|request| {
        request.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
        // The part below a second must not be negative; with ADJ_NANO it is nanoseconds.
        request.time.tv_sec = step_ns.div_euclid(1_000_000_000);
        request.time.tv_usec = step_ns.rem_euclid(1_000_000_000);
    })
}

/// `STA_UNSYNC` stays set: else the kernel would write its own time into the RTC every eleven minutes.
fn adjust(fill: impl FnOnce(&mut libc::timex)) -> io::Result<()> {
    // SAFETY: a `timex` is numbers only, for which zero is a value.
    let mut request: libc::timex = unsafe { MaybeUninit::zeroed().assume_init() };
    fill(&mut request);
    // SAFETY: `request` is a valid, writable `timex`.
    match unsafe { libc::adjtimex(&raw mut request) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
