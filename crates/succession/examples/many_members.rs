//! Many protected pairs without guests on a real etcd, with the default deadlines: what they ask of it.
//!
//! `cargo run --release -p stealtime-succession --example many_members -- ENDPOINT PAIRS SECONDS`
//!
//! Both members of a pair are the state machines that protect guests, over a link in memory; each has a register of its
//! own. Prints one JSON object: how many pairs were protected to the end, and how often the register was
//! read and written once all were.

use std::collections::VecDeque;
use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use stealtime_succession::{
    ActiveAction, ActiveConfig, ActiveInput, ActiveMember, ActiveMessage, ActiveState, EtcdConfig, EtcdRegister,
    MemberId, Mode, RegisterAnswer, RegisterCall, RegisterOutcome, RegisterRequest, StandbyAction, StandbyConfig,
    StandbyInput, StandbyMember, StandbyMessage, Timing,
};

const PATIENCE: Duration = Duration::from_millis(500);

/// How long all pairs may take to be protected.
const PROTECTED_WITHIN: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Counts {
    is_counting: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn add(&self, counter: &AtomicU64) {
        if self.is_counting.load(Ordering::Relaxed) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Active,
    Standby,
}

type Answers = Sender<(Side, RegisterAnswer)>;

/// A thread that asks etcd for one member.
fn registrar(endpoint: &str, vm: String, side: Side, answers: Answers, counts: Arc<Counts>) -> Sender<RegisterRequest> {
    let config = EtcdConfig { endpoints: vec![endpoint.to_owned()], identity: None, login: None, insecure: true };
    let (requests, asked) = mpsc::channel::<RegisterRequest>();
    thread::spawn(move || {
        let Ok(mut register) = EtcdRegister::open(&config, PATIENCE) else { return };
        for request in asked {
            let counter = if matches!(request.call, RegisterCall::Read) { &counts.reads } else { &counts.writes };
            counts.add(counter);
            let answer = request.perform(&mut register, &vm);
            if matches!(answer.outcome, RegisterOutcome::Unreachable { .. }) {
                counts.add(&counts.failed);
            }
            if answers.send((side, answer)).is_err() {
                return;
            }
        }
    });
    requests
}

struct Pair {
    began: Instant,
    active: ActiveMember,
    standby: Option<StandbyMember>,
    lives: u64,
    to_active: VecDeque<ActiveInput>,
    to_standby: VecDeque<StandbyInput>,
    registers: [Sender<RegisterRequest>; 2],
    answers: Receiver<(Side, RegisterAnswer)>,
}

fn timing() -> Timing {
    Timing::default()
}

impl Pair {
    fn new(number: usize, endpoint: &str, counts: &Arc<Counts>) -> Self {
        let (answered, answers) = mpsc::channel();
        let registers = [Side::Active, Side::Standby]
            .map(|side| registrar(endpoint, format!("vm{number}"), side, answered.clone(), Arc::clone(counts)));
        let me = MemberId::new("a", number as u64);
        let config = ActiveConfig { me, mode: Mode::Net, timing: timing(), epochs_in_flight: 4, force: false };
        let began = Instant::now();
        let active = ActiveMember::new(config, Duration::ZERO);
        let lives = (number as u64) << 32;
        let (to_active, to_standby) = (VecDeque::from([ActiveInput::Tick]), VecDeque::new());
        Self { began, active, standby: None, lives, to_active, to_standby, registers, answers }
    }

    fn run_until(&mut self, is_over: impl Fn(&Self) -> bool) {
        while !is_over(self) {
            self.settle();
            let now = self.began.elapsed();
            let deadlines = [self.active.deadline(), self.standby.as_ref().and_then(StandbyMember::deadline)];
            let deadline = deadlines.into_iter().flatten().min().unwrap_or(now + Duration::from_millis(50));
            match self.answers.recv_timeout(deadline.saturating_sub(now)) {
                Ok((Side::Active, answer)) => self.to_active.push_back(ActiveInput::Register(answer)),
                Ok((Side::Standby, answer)) => self.to_standby.push_back(StandbyInput::Register(answer)),
                Err(RecvTimeoutError::Timeout) => {
                    self.to_active.push_back(ActiveInput::Tick);
                    self.to_standby.push_back(StandbyInput::Tick);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn settle(&mut self) {
        loop {
            let now = self.began.elapsed();
            if let Some(input) = self.to_active.pop_front() {
                for action in self.active.handle(now, input) {
                    self.act(action);
                }
            } else if let Some(input) = self.to_standby.pop_front() {
                let actions = self.standby.as_mut().map_or_else(Vec::new, |standby| standby.handle(now, input));
                for action in actions {
                    self.act_standby(action);
                }
            } else {
                return;
            }
        }
    }

    fn act(&mut self, action: ActiveAction) {
        match action {
            ActiveAction::Register(request) => drop(self.registers[0].send(request)),
            ActiveAction::SeekStandby => self.stand_by(),
            // Its first epoch is all that there is to have.
            ActiveAction::BeginEpochs { term, first: epoch } => {
                self.to_active.push_back(ActiveInput::EpochCut { epoch, last: false });
                self.to_standby.push_back(StandbyInput::EpochVerified { term, epoch, full: true });
            }
            ActiveAction::Send(message) => self.to_standby.push_back(match message {
                ActiveMessage::Heartbeat { term, sent } => StandbyInput::Heartbeat { term, sent },
                ActiveMessage::Protected { term } => StandbyInput::Protected { term },
                ActiveMessage::Resign { term, last } => StandbyInput::Resign { term, last },
                ActiveMessage::Bye { term } => StandbyInput::Bye { term },
            }),
            ActiveAction::CloseLink => self.to_standby.push_back(StandbyInput::LinkClosed),
            _ => {}
        }
    }

    fn stand_by(&mut self) {
        self.lives += 1;
        let me = MemberId::new("b", self.lives);
        let active = self.active.held().and_then(|held| held.holder.clone());
        let Some(active) = active else { return };
        let config =
            StandbyConfig { me: me.clone(), active, term: self.active.term(), mode: Mode::Net, timing: timing() };
        self.standby = Some(StandbyMember::new(config, self.began.elapsed()));
        self.to_standby.clear();
        self.to_active.push_back(ActiveInput::StandbyConnected { standby: me });
    }

    fn act_standby(&mut self, action: StandbyAction) {
        match action {
            StandbyAction::Register(request) => drop(self.registers[1].send(request)),
            StandbyAction::Send(message) => self.to_active.push_back(match message {
                StandbyMessage::Echo { term, sent } => ActiveInput::Echo { term, sent },
                StandbyMessage::Acknowledge { term, epoch } => ActiveInput::Acknowledged { term, epoch },
                StandbyMessage::Confirmed { term } => ActiveInput::Confirmed { term },
            }),
            StandbyAction::CloseLink => self.to_active.push_back(ActiveInput::LinkClosed),
            StandbyAction::Exit(_) => self.standby = None,
            _ => {}
        }
    }

    fn is_protected(&self) -> bool {
        self.active.state() == ActiveState::Protected
    }
}

/// What this process has used, all threads together (`/proc/PID/stat`, proc(5)), at 100 ticks a second.
fn processor_s() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u32>().ok()).ok_or("no ticks");
    Ok(f64::from(ticks(11)? + ticks(12)?) / 100.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, pairs, seconds] = &words[..] else { return Err("ENDPOINT PAIRS SECONDS".into()) };
    let (pairs, seconds): (usize, f64) = (pairs.parse()?, seconds.parse()?);
    let counts = Arc::new(Counts::default());
    // All are protected before anything is counted.
    let ready = Arc::new(Barrier::new(pairs + 1));
    let measured = Duration::from_secs_f64(seconds);
    let running: Vec<_> = (0..pairs)
        .map(|number| {
            let (endpoint, counts, ready) = (endpoint.clone(), Arc::clone(&counts), Arc::clone(&ready));
            thread::spawn(move || {
                let mut pair = Pair::new(number, &endpoint, &counts);
                // Not all at the same moment, as no host would have them.
                thread::sleep(Duration::from_millis(20) * u32::try_from(number).unwrap_or(0));
                pair.run_until(|pair| pair.is_protected() || pair.began.elapsed() > PROTECTED_WITHIN);
                let settled = Arc::new(AtomicBool::new(false));
                let waiting = {
                    let settled = Arc::clone(&settled);
                    thread::spawn(move || {
                        ready.wait();
                        settled.store(true, Ordering::Relaxed);
                    })
                };
                pair.run_until(|_| settled.load(Ordering::Relaxed));
                let _ = waiting.join();
                let until = Instant::now() + measured;
                pair.run_until(|_| Instant::now() >= until);
                pair.is_protected()
            })
        })
        .collect();
    ready.wait();
    counts.is_counting.store(true, Ordering::Relaxed);
    let (began, before_s) = (Instant::now(), processor_s()?);
    let protected =
        running.into_iter().filter_map(|pair| pair.join().ok()).filter(|is_protected| *is_protected).count();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let document = serde_json::json!({
        "pairs": pairs,
        "protected": protected,
        "seconds": began.elapsed().as_secs_f64(),
        "reads": count(&counts.reads),
        "writes": count(&counts.writes),
        "failed": count(&counts.failed),
        "cpu_s": processor_s()? - before_s,
    });
    writeln!(std::io::stdout(), "{document}")?;
    Ok(())
}
