//! `rtp talk`: speaks and hears on the same ports, as phones do.
//!
//! The one that hears has a thread and handles of its own: what is sent keeps its schedule whatever comes.

use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use anyhow::Result;
use stealtime_media::Listening;

use crate::rtp::progress::Progress;
use crate::rtp::receiving::{Ended, Limits, Receiving};
use crate::rtp::report::{Conversation, Reception, Transmission};
use crate::rtp::session::{conclude_with, end_ns, interruptions, listening, state, tell_ports};
use crate::rtp::settings::Talk;
use crate::rtp::sockets::{self, Hearing};
use crate::rtp::speech::Speech;

/// `stealtime-agent rtp talk`
pub fn run(talk: &Talk) -> Result<ExitCode> {
    let outgoing = sockets::outgoing(&talk.speaking, Hearing::Anybody)?;
    let ears = outgoing.sockets.try_clone()?;
    let stamped = sockets::watch(&ears);
    tell_ports(&ears, &talk.showing)?;
    let interruptions = interruptions(&talk.showing);
    let listening = listening(&talk.judging)?;
    let speech = Speech::new(&talk.speaking, outgoing, listening.clock, talk.lead)?;
    let ear = Ear {
        is_said: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        interruptions: &interruptions,
        limits: Limits::of(&talk.patience, None)?,
    };
    // Begun before the one that speaks is placed: a real-time priority is for what is sent alone.
    let (said, (receiving, ended)) = thread::scope(|scope| -> Result<_> {
        let hearing = scope.spawn(|| ear.hear(ears, listening, stamped, Progress::begin(talk.showing.quiet)));
        let said = speech.say(&talk.placement, &interruptions, |_| {});
        ear.is_over.store(said.is_err(), Ordering::Relaxed);
        ear.is_said.store(true, Ordering::Relaxed);
        let heard = hearing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((said?, heard?))
    })?;
    let heard = Reception::of(&receiving, ended, end_ns(&receiving, ended), &talk.judging, listening.buffer_ns);
    let conversation = Conversation { spoken: Transmission::of(&said.sending, said.duration_ns(), None), heard };
    Ok(conclude_with(conversation, &talk.judging, &talk.showing))
}

/// What the one that hears must know of the one that speaks.
struct Ear<'run> {
    /// The voice and its closing reports.
    is_said: AtomicBool,
    /// Whoever speaks has failed.
    is_over: AtomicBool,
    interruptions: &'run AtomicU32,
    /// After that.
    limits: Limits,
}

impl Ear<'_> {
    /// Hears until the other end has told its end; once everything is said no longer than patience goes.
    fn hear(
        &self,
        sockets: Vec<UdpSocket>,
        listening: Listening,
        stamped: bool,
        mut progress: Progress,
    ) -> Result<(Receiving, Ended)> {
        let mut receiving = Receiving::new(sockets, listening, false, stamped)?;
        let is_interrupted = |times: u32| self.interruptions.load(Ordering::Relaxed) >= times;
        let said = || self.is_said.load(Ordering::Relaxed) || is_interrupted(2);
        // While the voice lasts nothing else ends what is heard: whoever is silent may speak again.
        let mut ended = receiving.run(&Limits::NONE, &said, |now| progress.show(|| state(now)))?;
        if ended != Ended::Complete {
            let stop = || self.is_over.load(Ordering::Relaxed) || is_interrupted(1);
            ended = receiving.run(&self.limits, &stop, |now| progress.show(|| state(now)))?;
        }
        progress.finish();
        Ok((receiving, ended))
    }
}
