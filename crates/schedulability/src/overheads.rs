//! What the kernel takes, in nanoseconds, for one number of tasks.

/// One kind of overhead. `docs/schedulability.md` defines where each begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overhead {
    EventLatency,
    Release,
    Scheduling,
    ContextSwitch,
    Tick,
    InterProcessorInterrupt,
    CachePreemption,
}

impl Overhead {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::EventLatency,
        Self::Release,
        Self::Scheduling,
        Self::ContextSwitch,
        Self::Tick,
        Self::InterProcessorInterrupt,
        Self::CachePreemption,
    ];

    /// As files and documents call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::EventLatency => "event_latency",
            Self::Release => "release",
            Self::Scheduling => "scheduling",
            Self::ContextSwitch => "context_switch",
            Self::Tick => "tick",
            Self::InterProcessorInterrupt => "inter_processor_interrupt",
            Self::CachePreemption => "cache_preemption",
        }
    }
}

/// Which CPU handles the timers that release jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupts {
    /// The one that runs the tasks.
    Here,
    /// Another one, which sends an inter-processor interrupt.
    OnAnotherCpu,
}

/// The overheads that one job meets at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// From the programmed release to the timer's handler.
    pub event_latency_ns: u64,
    /// The handler that releases one job.
    pub release_ns: u64,
    /// Choosing the next task.
    pub scheduling_ns: u64,
    /// From one task to the next.
    pub context_switch_ns: u64,
    pub tick_ns: u64,
    /// From one tick to the next; 0 only where there is none.
    pub tick_period_ns: u64,
    /// From another CPU's request to its handler here.
    pub inter_processor_interrupt_ns: u64,
    /// What a preempted job loses by finding the caches changed.
    pub cache_preemption_ns: u64,
}

impl Overheads {
    pub fn get(&self, overhead: Overhead) -> u64 {
        match overhead {
            Overhead::EventLatency => self.event_latency_ns,
            Overhead::Release => self.release_ns,
            Overhead::Scheduling => self.scheduling_ns,
            Overhead::ContextSwitch => self.context_switch_ns,
            Overhead::Tick => self.tick_ns,
            Overhead::InterProcessorInterrupt => self.inter_processor_interrupt_ns,
            Overhead::CachePreemption => self.cache_preemption_ns,
        }
    }

    /// The same with one of them changed.
    #[must_use]
    pub fn with(mut self, overhead: Overhead, ns: u64) -> Self {
        *match overhead {
            Overhead::EventLatency => &mut self.event_latency_ns,
            Overhead::Release => &mut self.release_ns,
            Overhead::Scheduling => &mut self.scheduling_ns,
            Overhead::ContextSwitch => &mut self.context_switch_ns,
            Overhead::Tick => &mut self.tick_ns,
            Overhead::InterProcessorInterrupt => &mut self.inter_processor_interrupt_ns,
            Overhead::CachePreemption => &mut self.cache_preemption_ns,
        } = ns;
        self
    }
}
