//! What a run of `rtp` begins and ends with, whoever sends or receives.

use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use stealtime_console::document::{NOT_VALID, OVER_THRESHOLD, conclude, tell, write_findings};
use stealtime_console::quantities::nanoseconds;
use stealtime_console::remarks;
use stealtime_media::Listening;

use crate::ending;
use crate::rtp::progress::State;
use crate::rtp::receiving::{Ended, Receiving};
use crate::rtp::report::{Document, Part};
use crate::rtp::settings::{Judging, Showing};
use crate::rtp::table::Table;
use crate::stamps::{clock_identity, monotonic_ns};

/// Whoever let the kernel choose the port wants to know which it is.
pub fn tell_ports(sockets: &[UdpSocket], showing: &Showing) -> Result<()> {
    if !showing.quiet {
        let first = sockets[0].local_addr().context("a socket does not tell its address")?;
        remarks::say(format_args!("listening at {first}, {} ports", sockets.len()));
    }
    Ok(())
}

pub fn listening(judging: &Judging) -> Result<Listening> {
    let clock = clock_identity().context("/proc/sys/kernel/random/boot_id cannot be read")?;
    let loss_robustness = judging.concealment.loss_robustness();
    Ok(Listening { clock, buffer_ns: nanoseconds(judging.buffer)?, loss_robustness })
}

/// When what was silent was so to the end: a receiver that had nothing to wait for ended with the last packet.
pub fn end_ns(receiving: &Receiving, ended: Ended) -> u64 {
    match ended {
        Ended::Complete => receiving.last_ns(),
        _ => monotonic_ns(),
    }
}

pub fn state(receiving: &Receiving) -> State {
    State {
        streams: receiving.receiver.streams(),
        packets: receiving.receiver.packets(),
        silent_ns: Some(monotonic_ns().saturating_sub(receiving.last_ns())),
    }
}

/// Counts how often somebody wanted this to end.
pub fn interruptions(showing: &Showing) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let of_ending = Arc::clone(&count);
    ending::on_request(showing.until_closed, move || {
        of_ending.fetch_add(1, Ordering::Relaxed);
    });
    count
}

/// Tells what came of it; gives the exit code.
pub fn conclude_with(part: impl Part + Table, judging: &Judging, showing: &Showing) -> ExitCode {
    let document = Document::new(part);
    let verdict = match (document.head.valid, document.part.is_over(judging)) {
        (false, _) => ExitCode::from(NOT_VALID),
        (true, true) => ExitCode::from(OVER_THRESHOLD),
        (true, false) => ExitCode::SUCCESS,
    };
    let told = tell(showing.json, &document, |output| {
        document.part.write_table(output)?;
        write_findings(&document.findings, output)
    });
    conclude(verdict, [told])
}
