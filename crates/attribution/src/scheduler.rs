//! The scheduler of a traced machine, replayed from its events: who runs on each CPU, and what the followed
//! threads do.
//!
//! Nothing is assumed before an event says it: at the beginning and after lost events a CPU is unknown until
//! the first event of that CPU tells who runs there.

use crate::processors::{IDLE, Processor, Served, ThreadTable};
use crate::trace::{EventKind, Mended, NO_NAME, Trace};

/// What a followed thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Unknown,
    /// It is on this CPU.
    Running(u16),
    /// It could run on this CPU, since that time; `woken` if it came from sleeping, or else it was displaced.
    Waiting {
        cpu: u16,
        since: u64,
        woken: bool,
    },
    Asleep,
}

/// What a group of followed threads does: the one that runs, or else the one that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    Unknown,
    Running { member: usize, cpu: u16 },
    Waiting { member: usize, cpu: u16, woken: bool },
    Asleep,
}

/// One event, with its columns by name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub time: u64,
    pub cpu: u16,
    pub kind: EventKind,
    pub thread: i32,
    pub value: i64,
    pub other: i32,
    pub name: u32,
    /// Of a switch that was not recorded: until when the one that left was seen, and from when on the one
    /// that came.
    pub seen: Option<(u64, u64)>,
}

/// Who an event says runs on its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    AsExpected,
    /// Nothing was known before, or the group hides its own switches.
    First,
    /// A switch to or from a followed thread was not recorded.
    MissedOwn,
    /// A switch between others was not.
    MissedAmongOthers,
    /// A woken thread left its CPU's idleness unrecorded. Linux 6.18 was seen to leave out such switches by
    /// the hundred; nothing else can have kept the thread, so it ran from then on.
    LeftIdle(u64),
}

/// The state after the events so far.
pub(crate) struct Scheduler<'a> {
    trace: &'a Trace<'a>,
    next_row: usize,
    next_mended: usize,
    pub processors: Vec<Processor>,
    pub threads: ThreadTable,
    doing: Vec<Doing>,
    /// Members that run or wait on each CPU.
    interest: Vec<u32>,
    running: usize,
    waiting: usize,
    asleep: usize,
    /// The member that ran last.
    last_running: usize,
    /// The member that the group's waiting is told of.
    last_waiting: usize,
    /// Stretches at whose end another thread ran than the events say, so that a switch in them was not
    /// recorded.
    pub unseen: Vec<(u64, u64)>,
    /// The last event showed that a followed thread runs since this time already; to be taken.
    pub ran_since: Option<u64>,
}

impl<'a> Scheduler<'a> {
    pub fn new(trace: &'a Trace<'a>, labels: &[(i32, u16)], members: &[i32]) -> Self {
        Self {
            trace,
            next_row: 0,
            next_mended: 0,
            processors: vec![Processor::default(); trace.cpus],
            threads: ThreadTable::new(trace, labels, members),
            doing: vec![Doing::Unknown; members.len()],
            interest: vec![0; trace.cpus],
            running: 0,
            waiting: 0,
            asleep: 0,
            last_running: 0,
            last_waiting: 0,
            unseen: Vec::new(),
            ran_since: None,
        }
    }

    pub fn doing(&self, member: usize) -> Doing {
        self.doing[member]
    }

    /// What the group does.
    pub fn focus(&mut self) -> Focus {
        if self.running > 0 {
            if !matches!(self.doing[self.last_running], Doing::Running(_)) {
                self.last_running = self.find(|doing| matches!(doing, Doing::Running(_)));
            }
            if let Doing::Running(cpu) = self.doing[self.last_running] {
                return Focus::Running { member: self.last_running, cpu };
            }
        }
        if self.waiting > 0 {
            if !matches!(self.doing[self.last_waiting], Doing::Waiting { .. }) {
                self.last_waiting = self.find(|doing| matches!(doing, Doing::Waiting { .. }));
            }
            if let Doing::Waiting { cpu, woken, .. } = self.doing[self.last_waiting] {
                return Focus::Waiting { member: self.last_waiting, cpu, woken };
            }
        }
        if self.asleep > 0 { Focus::Asleep } else { Focus::Unknown }
    }

    fn find(&self, is_wanted: impl Fn(&Doing) -> bool) -> usize {
        self.doing.iter().position(is_wanted).unwrap_or(0)
    }

    /// Go on to the next event by which anything that concerns the followed threads may have changed; `None`
    /// at the end.
    pub fn advance(&mut self) -> Option<Event> {
        while self.next_row < self.trace.len() {
            let mended = self.trace.mended.get(self.next_mended);
            let is_next = |mended: &&Mended| mended.before_row <= self.next_row;
            let concerning = if let Some(mended) = mended.filter(is_next) {
                self.next_mended += 1;
                self.apply_mended(mended)
            } else {
                self.next_row += 1;
                self.apply(self.next_row - 1)
            };
            if concerning.is_some() {
                return concerning;
            }
        }
        None
    }

    /// Take a switch that was not recorded.
    fn apply_mended(&mut self, mended: &Mended) -> Option<Event> {
        let event = Event {
            time: mended.time,
            cpu: mended.cpu,
            kind: EventKind::Switch,
            thread: mended.left,
            value: mended.state,
            other: mended.next,
            name: NO_NAME,
            seen: Some(mended.seen),
        };
        let concerns = self.interest[usize::from(mended.cpu)] > 0;
        self.processors[usize::from(mended.cpu)].last_event = mended.time;
        (self.switch(event) || concerns).then_some(event)
    }

    /// Take the next event; tells whether anything that concerns the followed threads may have changed.
    fn apply(&mut self, row: usize) -> Option<Event> {
        let columns = &self.trace.columns;
        let event = Event {
            time: columns.time[row],
            cpu: columns.cpu[row],
            kind: EventKind::from_code(columns.kind[row])?,
            thread: columns.thread[row],
            value: columns.value[row],
            other: columns.other[row],
            name: columns.name[row],
            seen: None,
        };
        let Event { time, cpu, kind, thread, value, .. } = event;
        let place = usize::from(cpu);
        let mut concerns = self.interest[place] > 0;
        if kind == EventKind::Lost {
            self.processors[place].last_event = time;
            self.lose(cpu);
            return concerns.then_some(event);
        }
        let since = self.processors[place].last_event;
        match self.see(cpu, thread, time) {
            Seen::AsExpected => {}
            Seen::First => concerns = true,
            Seen::LeftIdle(ran_since) => {
                self.ran_since = Some(ran_since);
                concerns = true;
            }
            Seen::MissedAmongOthers if !concerns => {}
            Seen::MissedAmongOthers | Seen::MissedOwn => {
                self.unseen.push((since, time));
                concerns = true;
            }
        }
        self.processors[place].last_event = time;
        match kind {
            EventKind::Switch => {
                self.threads.learn(event.other, columns.priority[row], event.name);
                concerns |= self.switch(event);
                if let Some(left) = self.threads.member(thread)
                    && self.trace.crossed.binary_search(&row).is_ok()
                {
                    self.wake(usize::from(left), cpu, time);
                }
            }
            EventKind::Waking => {
                if let Some(member) = self.threads.member(event.other) {
                    self.threads.learn(event.other, columns.priority[row], event.name);
                    let cpu = u16::try_from(value).unwrap_or(cpu);
                    self.wake(usize::from(member), cpu, time);
                    concerns = true;
                }
            }
            EventKind::InterruptEntry | EventKind::SoftirqEntry | EventKind::VectorEntry => {
                let served = Served { entry: kind, number: value, name: event.name, owner: thread };
                self.processors[place].enter(served);
            }
            EventKind::InterruptExit => {
                self.processors[place].exit(EventKind::InterruptEntry, value, thread);
            }
            EventKind::SoftirqExit => self.processors[place].exit(EventKind::SoftirqEntry, value, thread),
            EventKind::VectorExit => self.processors[place].exit(EventKind::VectorEntry, value, thread),
            EventKind::VmExit
            | EventKind::VmEntry
            | EventKind::Signal
            | EventKind::GuestSwitch
            | EventKind::Lost
            | EventKind::Nmi
            | EventKind::Runtime
            | EventKind::TimerEntry
            | EventKind::TimerExit
            | EventKind::ScheduleEntry
            | EventKind::ScheduleExit
            | EventKind::TimerStart
            | EventKind::CallEntry
            | EventKind::CallExit
            | EventKind::BlockIssue
            | EventKind::BlockComplete
            | EventKind::FileCall => {}
        }
        concerns.then_some(event)
    }

    /// An event of this CPU says that this thread runs there: believe it, also where the switch to it was not
    /// seen. Tells what that means.
    fn see(&mut self, cpu: u16, thread: i32, time: u64) -> Seen {
        let processor = &mut self.processors[usize::from(cpu)];
        if processor.current == Some(thread) {
            return Seen::AsExpected;
        }
        let before = processor.current;
        processor.switch_to(thread);
        let last_event = processor.last_event;
        let left = before.and_then(|before| self.threads.member(before));
        let next = self.threads.member(thread);
        let woken_at = next.and_then(|next| match self.doing[usize::from(next)] {
            Doing::Waiting { since, woken: true, .. } if before == Some(IDLE) => Some(since.max(last_event)),
            _ => None,
        });
        if let Some(left) = left {
            // Switches within a group may be hidden on purpose: then the one that left could still run.
            let doing = match next {
                Some(_) => Doing::Waiting { cpu, since: time, woken: false },
                None => Doing::Unknown,
            };
            self.set(usize::from(left), doing);
        }
        if let Some(next) = next {
            self.set(usize::from(next), Doing::Running(cpu));
        }
        if let Some(ran_since) = woken_at {
            return Seen::LeftIdle(ran_since);
        }
        match (before, left, next) {
            (None, ..) | (_, Some(_), Some(_)) => Seen::First,
            (_, None, None) => Seen::MissedAmongOthers,
            _ => Seen::MissedOwn,
        }
    }

    fn switch(&mut self, event: Event) -> bool {
        let Event { time, cpu, thread, value, other, .. } = event;
        let (left, next) = (self.threads.member(thread), self.threads.member(other));
        if let Some(left) = left {
            let doing = match value {
                0 => Doing::Waiting { cpu, since: time, woken: false },
                _ => Doing::Asleep,
            };
            self.set(usize::from(left), doing);
        }
        if let Some(next) = next {
            self.set(usize::from(next), Doing::Running(cpu));
        }
        self.processors[usize::from(cpu)].switch_to(other);
        left.is_some() || next.is_some()
    }

    fn wake(&mut self, member: usize, cpu: u16, time: u64) {
        if matches!(self.doing[member], Doing::Asleep | Doing::Unknown) {
            self.set(member, Doing::Waiting { cpu, since: time, woken: true });
        }
    }

    fn lose(&mut self, cpu: u16) {
        self.processors[usize::from(cpu)].forget();
        for member in 0..self.doing.len() {
            match self.doing[member] {
                Doing::Running(at) | Doing::Waiting { cpu: at, .. } if at == cpu => {
                    self.set(member, Doing::Unknown);
                }
                _ => {}
            }
        }
    }

    fn set(&mut self, member: usize, doing: Doing) {
        self.count(member, false);
        self.doing[member] = doing;
        self.count(member, true);
        match doing {
            Doing::Running(_) => self.last_running = member,
            // Of a group that waits, the first that began to is told of.
            Doing::Waiting { .. } if self.waiting == 1 => self.last_waiting = member,
            _ => {}
        }
    }

    fn count(&mut self, member: usize, more: bool) {
        let step = |count: &mut usize| *count = if more { *count + 1 } else { *count - 1 };
        let (counter, cpu) = match self.doing[member] {
            Doing::Unknown => return,
            Doing::Asleep => (&mut self.asleep, None),
            Doing::Running(cpu) => (&mut self.running, Some(cpu)),
            Doing::Waiting { cpu, .. } => (&mut self.waiting, Some(cpu)),
        };
        step(counter);
        if let Some(interest) = cpu.and_then(|cpu| self.interest.get_mut(usize::from(cpu))) {
            *interest = if more { *interest + 1 } else { *interest - 1 };
        }
    }
}
