//! `rtp`: streams of voice packets through any path, and what became of them.
//!
//! What is counted and judged is in the crate `stealtime-media`, without sockets and clocks; here are the
//! sockets, the loops (`sending` of a `speech`, `receiving`, both in `talking`) and what is told (`report`, `table`,
//! `progress`).

mod progress;
mod receiving;
mod report;
mod sending;
mod settings;
mod sockets;
mod speech;
mod table;
mod talking;

use std::io::{self, Read};
use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::prctl::set_timerslack;
use stealtime_console::document::{NOT_VALID, OVER_THRESHOLD, conclude, tell};
use stealtime_console::quantities::nanoseconds;
use stealtime_console::remarks;
use stealtime_media::Listening;
use stealtime_probe::scheduling;

pub use settings::Rtp;
pub use sockets::SocketError;

use crate::rtp::progress::{Progress, State};
use crate::rtp::receiving::{Ended, Limits, Receiving};
use crate::rtp::report::{Document, Reception, Transmission};
use crate::rtp::settings::{Judging, Placement, Receive, RtpCommand, Send, Showing};
use crate::rtp::sockets::Hearing;
use crate::rtp::speech::Speech;
use crate::stamps::{clock_identity, monotonic_ns};

/// From when everything is set up to the first packet.
const LEAD: Duration = Duration::from_millis(20);

/// After the last closing report, for what is still on its way back.
const LAST_RETURN: Duration = Duration::from_secs(1);

/// `stealtime-agent rtp`
pub fn run(rtp: &Rtp) -> Result<ExitCode> {
    match &rtp.command {
        RtpCommand::Send(send) => run_send(send),
        RtpCommand::Receive(receive) => run_receive(receive),
        RtpCommand::Talk(talk) => talking::run(talk),
    }
}

fn run_receive(receive: &Receive) -> Result<ExitCode> {
    let sockets = sockets::incoming(receive)?;
    let stamped = sockets::watch(&sockets);
    tell_ports(&sockets, &receive.showing)?;
    let interruptions = interruptions(&receive.showing);
    place(&receive.placement)?;
    let listening = listening(&receive.judging)?;
    let mut receiving = Receiving::new(sockets, listening, receive.reflect, stamped)?;
    let limits = Limits {
        duration_ns: receive.duration.map(nanoseconds).transpose()?,
        wait_ns: nanoseconds(receive.patience.wait)?,
        idle_ns: nanoseconds(receive.patience.idle)?,
    };
    let mut progress = Progress::begin(receive.showing.quiet);
    let stop = || interruptions.load(Ordering::Relaxed) > 0;
    let ended = receiving.run(&limits, &stop, |now| progress.show(|| state(now)))?;
    progress.finish();
    let reception = Reception::of(&receiving, ended, end_ns(&receiving, ended), &receive.judging, listening.buffer_ns);
    let findings = reception.findings();
    let document = Document::new(reception, findings);
    let verdict = exit_code(document.head.valid, document.part.is_over(&receive.judging));
    Ok(conclude(verdict, [tell(receive.showing.json, &document, |output| document.write_text(output))]))
}

fn run_send(send: &Send) -> Result<ExitCode> {
    if !send.reflected && send.judging.has_threshold() {
        bail!("a threshold judges what comes back: give --reflected as well, or judge at the receiver")
    }
    let hearing = if send.reflected { Hearing::Returns } else { Hearing::Nothing };
    let outgoing = sockets::outgoing(&send.speaking, hearing)?;
    let interruptions = interruptions(&send.showing);
    let listening = listening(&send.judging)?;
    let over = AtomicBool::new(false);
    let returning = if send.reflected { Some(outgoing.sockets.try_clone()?) } else { None };
    let speech = Speech::new(&send.speaking, outgoing, listening.clock, LEAD)?;
    // Begun before the sender is placed: a real-time priority is for what is sent alone.
    let (said, came_back) = thread::scope(|scope| -> Result<_> {
        let back = returning.map(|sockets| scope.spawn(|| come_back(sockets, listening, &over)));
        let mut progress = Progress::begin(send.showing.quiet);
        let said = speech.say(&send.placement, &interruptions, |now| {
            progress.show(|| State { streams: now.streams(), packets: now.sent(), silent_ns: None });
        });
        progress.finish();
        let came_back = back.map(|thread| {
            if said.is_ok() {
                thread::sleep(LAST_RETURN);
            }
            over.store(true, Ordering::Relaxed);
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok((said?, came_back.transpose()?))
    })?;
    let came_back = came_back.map(|(receiving, ended)| {
        Reception::of(&receiving, ended, end_ns(&receiving, ended), &send.judging, listening.buffer_ns)
    });
    let transmission = Transmission::of(&said.sending, said.duration_ns(), came_back);
    let findings = transmission.findings();
    let document = Document::new(transmission, findings);
    let is_over = document.part.came_back.as_ref().is_some_and(|reception| reception.is_over(&send.judging));
    let verdict = exit_code(document.head.valid, is_over);
    Ok(conclude(verdict, [tell(send.showing.json, &document, |output| document.write_text(output))]))
}

/// Receives what a reflector sends back, until everything has come or `over`.
fn come_back(sockets: Vec<UdpSocket>, listening: Listening, over: &AtomicBool) -> Result<(Receiving, Ended)> {
    let stamped = sockets::watch(&sockets);
    let mut receiving = Receiving::new(sockets, listening, false, stamped)?;
    // The sender knows when it is over.
    let limits = Limits { duration_ns: None, wait_ns: u64::MAX, idle_ns: u64::MAX };
    let ended = receiving.run(&limits, &|| over.load(Ordering::Relaxed), |_| {})?;
    Ok((receiving, ended))
}

/// Whoever let the kernel choose the port wants to know which it is.
fn tell_ports(sockets: &[UdpSocket], showing: &Showing) -> Result<()> {
    if !showing.quiet {
        let first = sockets[0].local_addr().context("a socket does not tell its address")?;
        remarks::say(format_args!("listening at {first}, {} ports", sockets.len()));
    }
    Ok(())
}

fn listening(judging: &Judging) -> Result<Listening> {
    let clock = clock_identity().context("/proc/sys/kernel/random/boot_id cannot be read")?;
    let loss_robustness = judging.concealment.loss_robustness();
    Ok(Listening { clock, buffer_ns: nanoseconds(judging.buffer)?, loss_robustness })
}

/// When what was silent was so to the end: a receiver that had nothing to wait for ended with the last packet.
fn end_ns(receiving: &Receiving, ended: Ended) -> u64 {
    match ended {
        Ended::Complete => receiving.last_ns(),
        _ => monotonic_ns(),
    }
}

fn state(receiving: &Receiving) -> State {
    State {
        streams: receiving.receiver.streams(),
        packets: receiving.receiver.packets(),
        silent_ns: Some(monotonic_ns().saturating_sub(receiving.last_ns())),
    }
}

/// Counts how often somebody wanted this to end.
fn interruptions(showing: &Showing) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let of_signal = Arc::clone(&count);
    // Refused only if another handler exists already; then a Ctrl-C ends the process.
    let _ = ctrlc::set_handler(move || {
        of_signal.fetch_add(1, Ordering::Relaxed);
    });
    if showing.until_closed {
        let of_input = Arc::clone(&count);
        thread::spawn(move || {
            let mut ignored = [0; 256];
            // An error is an end as well: nobody can close it any more.
            while io::stdin().read(&mut ignored).is_ok_and(|count| count > 0) {}
            of_input.fetch_add(1, Ordering::Relaxed);
        });
    }
    count
}

/// Puts this thread where it is to run, and has the kernel wake it without delay.
fn place(placement: &Placement) -> Result<()> {
    if let Some(cpu) = placement.cpu {
        scheduling::pin_to(cpu).with_context(|| format!("this process cannot run on CPU {cpu}"))?;
    }
    if placement.priority > 0 {
        let asked = scheduling::request_fifo(placement.priority);
        asked.with_context(|| format!("SCHED_FIFO with priority {} was refused", placement.priority))?;
    }
    // An ordinary thread's sleep may otherwise be 50 us longer (PR_SET_TIMERSLACK, prctl(2)).
    set_timerslack(1).context("the timer slack cannot be set")
}

fn exit_code(is_valid: bool, is_over: bool) -> ExitCode {
    match (is_valid, is_over) {
        (false, _) => ExitCode::from(NOT_VALID),
        (true, true) => ExitCode::from(OVER_THRESHOLD),
        (true, false) => ExitCode::SUCCESS,
    }
}
