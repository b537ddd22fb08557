//! What there is: processes, guests, links, the register, and what a client has seen.

use std::collections::VecDeque;
use std::time::Duration;

use super::Fault;
use crate::{
    ActiveConfig, ActiveMember, ActiveMessage, Epoch, MemberId, Mode, OutputPolicy, OutputRule, Record, RegisterAnswer,
    RegisterRequest, StandbyMember, StandbyMessage, Term, Timing, Versioned,
};

/// One step of the model's clock. Deadlines are a few of them, so that few moments need to be told apart.
pub const TICK: Duration = Duration::from_nanos(20);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "what befalls a world does so independently")]
pub struct World {
    pub mode: Mode,
    pub fault: Option<Fault>,
    pub timing: Timing,
    /// The rate of the clock of the second host; that of the first is 100.
    pub beta_clock_percent: u32,
    pub time: u32,
    pub register: Option<Versioned>,
    /// What the register has held, its latest state last, once for each change of holder or standby. What a
    /// register that goes back forgets is still what was granted.
    pub granted: Vec<Record>,
    pub versions: u64,
    /// Requests that were given up by who made them, and are still on their way.
    pub late: Vec<(usize, RegisterRequest)>,
    pub processes: Vec<Process>,
    pub links: Vec<Link>,
    /// The highest value that left any guest.
    pub seen: u64,
    /// The latest failover: by which process, and the value that it resumed.
    pub resumed: Option<(usize, u64)>,
    pub failures: u32,
    /// The virtual machine was ended as asked.
    pub ended: bool,
    /// It was ended as asked, and somebody was named who may run it all the same.
    pub unregistered: bool,
    /// The second host was set up with another register.
    pub registers_differ: bool,
    /// What that holds.
    pub other_register: Option<Record>,
    /// The register is full, or its file system read-only: it can be read.
    pub takes_no_writes: bool,
    /// A random run has it fill, and empties it again.
    pub fills: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "what befalls a process does so independently")]
pub struct Process {
    pub me: MemberId,
    /// Clocks of different hosts have nothing in common, not even quite their rate.
    pub clock_offset: u32,
    /// How many percent of a tick this clock goes on in one.
    pub clock_percent: u32,
    pub role: Role,
    /// Stopped by SIGSTOP.
    pub stopped: bool,
    pub register_cut: bool,
    pub request: Option<RegisterRequest>,
    pub answer: Option<RegisterAnswer>,
    pub guest: Option<Guest>,
    /// What the relay of the guest's network does.
    pub output: OutputRule,
    pub seeking: bool,
    /// The guest that was offered is being loaded.
    pub loads: bool,
    /// Whose end was vouched for.
    pub vouched: Option<MemberId>,
    /// What this process would resume: the last epoch committed, and its value.
    pub copy: Option<(Epoch, u64)>,
    /// Epochs that have come and are not staged yet.
    pub arrived: VecDeque<Arrived>,
}

/// An epoch, and the value at its cut.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Arrived {
    pub term: Term,
    pub epoch: Epoch,
    pub full: bool,
    pub value: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::large_enum_variant, reason = "there are a few of them")]
pub enum Role {
    Active(ActiveMember),
    Standby(StandbyMember),
    Gone,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Guest {
    pub value: u64,
    pub running: bool,
    /// Frames not yet sent: the epoch that they belong to, none if it is not cut, and the value in them.
    pub frames: VecDeque<(Option<Epoch>, u64)>,
    /// The first epoch for the present standby, while epochs are cut.
    pub first: Option<Epoch>,
    pub last_wanted: bool,
    /// What the engine has told and the member has not heard. In between, anything may happen.
    pub told: VecDeque<Told>,
}

/// What the engine tells a member.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Told {
    Cut {
        epoch: Epoch,
        last: bool,
    },
    /// It was to cut at an epoch at which the output was cut already.
    Failed {
        cut: Epoch,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    pub active: usize,
    pub standby: usize,
    pub to_standby: VecDeque<Downstream>,
    pub to_active: VecDeque<Upstream>,
    /// Nothing arrives any more in this direction, and nobody is told.
    pub cut_to_standby: bool,
    pub cut_to_active: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Downstream {
    Message(ActiveMessage),
    Epoch(Arrived),
    Closed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Upstream {
    Message(StandbyMessage),
    Closed,
}

impl Link {
    /// Where the first heartbeat is that can overtake something.
    pub fn heartbeat_behind_others(&self) -> Option<usize> {
        let is_heartbeat = |sent: &Downstream| matches!(sent, Downstream::Message(ActiveMessage::Heartbeat { .. }));
        // What closes the link is read last.
        self.to_standby.iter().position(is_heartbeat).filter(|place| *place > 0)
    }
}

impl Guest {
    /// A guest that runs.
    pub fn with_value(value: u64) -> Self {
        Self { value, running: true, frames: VecDeque::new(), first: None, last_wanted: false, told: VecDeque::new() }
    }
}

/// Deadlines in ticks: 1, 2, 3 and 8.
pub fn timing() -> Timing {
    Timing {
        heartbeat_interval: TICK,
        active_deadline: TICK * 2,
        standby_timeout: TICK * 3,
        register_deadline: TICK * 8,
    }
}

/// Longer ones, among which the lease of what was not acknowledged, 2 ticks, ends before that of the rest.
pub fn two_leases() -> Timing {
    Timing {
        heartbeat_interval: TICK,
        active_deadline: TICK * 4,
        standby_timeout: TICK * 6,
        register_deadline: TICK * 16,
    }
}

impl World {
    /// One member that is about to start a virtual machine which nobody holds.
    pub fn new(mode: Mode, fault: Option<Fault>) -> Self {
        Self::with_timing(mode, fault, timing())
    }

    pub fn with_timing(mode: Mode, fault: Option<Fault>, timing: Timing) -> Self {
        timing.validate().unwrap();
        let mut world = Self {
            mode,
            fault,
            timing,
            beta_clock_percent: 100,
            time: 0,
            register: None,
            granted: Vec::new(),
            versions: 0,
            late: Vec::new(),
            processes: Vec::new(),
            links: Vec::new(),
            seen: 0,
            resumed: None,
            failures: 0,
            ended: false,
            unregistered: false,
            registers_differ: false,
            other_register: None,
            takes_no_writes: false,
            fills: false,
        };
        world.start("alpha", false);
        world
    }

    pub fn start(&mut self, host: &str, force: bool) -> usize {
        let index = self.add(host, Role::Gone);
        let config = self.active_config(index, force);
        let mut member = ActiveMember::new(config, self.now(index));
        member.fault = self.fault;
        self.processes[index].role = Role::Active(member);
        index
    }

    pub fn active_config(&self, index: usize, force: bool) -> ActiveConfig {
        ActiveConfig {
            me: self.processes[index].me.clone(),
            mode: self.mode,
            timing: self.timing,
            epochs_in_flight: 2,
            force,
        }
    }

    pub fn add(&mut self, host: &str, role: Role) -> usize {
        let index = self.processes.len();
        let life = index as u64;
        self.processes.push(Process {
            me: MemberId::new(host, life),
            clock_offset: 1000 / (u32::try_from(index).unwrap() + 1),
            clock_percent: if host == "beta" { self.beta_clock_percent } else { 100 },
            role,
            stopped: false,
            register_cut: false,
            request: None,
            answer: None,
            guest: None,
            output: OutputRule::new(OutputPolicy::Discard),
            seeking: false,
            loads: false,
            vouched: None,
            copy: None,
            arrived: VecDeque::new(),
        });
        index
    }

    /// The present moment by the clock of a process.
    pub fn now(&self, index: usize) -> Duration {
        let Process { clock_offset, clock_percent, .. } = self.processes[index];
        TICK * clock_offset + TICK * self.time * clock_percent / 100
    }

    /// Whether what a host reads is not the register of the first one.
    pub fn reads_another_register(&self, host: &str) -> bool {
        self.registers_differ && host == "beta"
    }

    pub fn active(&self, index: usize) -> Option<&ActiveMember> {
        match &self.processes[index].role {
            Role::Active(member) => Some(member),
            _ => None,
        }
    }

    /// Processes whose guest runs and may send now.
    pub fn serving(&self) -> Vec<usize> {
        let serves = |index: &usize| {
            let process = &self.processes[*index];
            let runs = process.guest.as_ref().is_some_and(|guest| guest.running) && !process.stopped;
            runs && self.active(*index).is_some_and(|member| member.permit().acknowledged_until > self.now(*index))
        };
        (0..self.processes.len()).filter(serves).collect()
    }
}
