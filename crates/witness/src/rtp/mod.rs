//! `rtp`: streams of voice packets through any path, and what became of them.
//!
//! What is counted and judged is in the crate `stealtime-media`, without sockets and clocks; here are the
//! sockets, the loops (`sending` of a `speech`, `receiving`, both in `talking`) and what is told (`report`, `table`,
//! `progress`).

mod progress;
mod receiving;
mod report;
mod sending;
mod session;
mod settings;
mod sockets;
mod speech;
mod table;
mod talking;

use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use stealtime_media::Listening;

pub use settings::Rtp;
pub use sockets::SocketError;

use crate::placing::place;
use crate::rtp::progress::{Progress, State};
use crate::rtp::receiving::{Ended, Limits, Receiving};
use crate::rtp::report::{Reception, Transmission};
use crate::rtp::session::{conclude_with, end_ns, interruptions, listening, state, tell_ports};
use crate::rtp::settings::{Receive, RtpCommand, Send};
use crate::rtp::sockets::Hearing;
use crate::rtp::speech::Speech;

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
    place(receive.placement.cpu, receive.placement.priority)?;
    let listening = listening(&receive.judging)?;
    let mut receiving = Receiving::new(sockets, listening, receive.reflect, stamped)?;
    let limits = Limits::of(&receive.patience, receive.duration)?;
    let mut progress = Progress::begin(receive.showing.quiet);
    let stop = || interruptions.load(Ordering::Relaxed) > 0;
    let ended = receiving.run(&limits, &stop, |now| progress.show(|| state(now)))?;
    progress.finish();
    let reception = Reception::of(&receiving, ended, end_ns(&receiving, ended), &receive.judging, listening.buffer_ns);
    Ok(conclude_with(reception, &receive.judging, &receive.showing))
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
    Ok(conclude_with(transmission, &send.judging, &send.showing))
}

/// Receives what a reflector sends back, until everything has come or `over`.
fn come_back(sockets: Vec<UdpSocket>, listening: Listening, over: &AtomicBool) -> Result<(Receiving, Ended)> {
    let stamped = sockets::watch(&sockets);
    let mut receiving = Receiving::new(sockets, listening, false, stamped)?;
    // The sender knows when it is over.
    let ended = receiving.run(&Limits::NONE, &|| over.load(Ordering::Relaxed), |_| {})?;
    Ok((receiving, ended))
}
