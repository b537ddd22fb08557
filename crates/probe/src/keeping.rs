//! How samples are kept while a trial measures: all of them, or taken away part by part in bounded memory.

/// The most memory that the samples of a trial take whose samples are taken away while it measures. A busy
/// loop of 68 us fills it in 20 minutes, switches at two million a second in 4 s.
pub const MOST_BYTES: u64 = 64 << 20;

/// Who has the memory when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// All samples stay until the end; when the memory is full the trial is over.
    Whole,
    /// The memory is a ring of two halves. While one is written, another CPU takes the other away.
    Beside,
    /// There is no other CPU: measuring pauses until all that was measured is taken away.
    Pausing {
        /// How long it measures between two pauses, in units of the trial's clock.
        every: u64,
    },
}

/// Takes samples away while a trial measures.
pub struct Taker {
    /// A trial that is longer is taken away in parts, at least as often as this.
    pub every_ns: u64,
    /// Whether that happens on a CPU that is not measured.
    pub is_beside: bool,
    /// Is told, by the thread that measures, that it waits for a part to be taken.
    pub wake: Box<dyn Fn() + Send + Sync>,
}

/// What a thread that measures does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Measure on; the samples below this index fit.
    Go(usize),
    /// As [`Self::Go`], but time has passed that nobody watched: say so with
    /// [`crate::recorder::Recorder::resumed`].
    Resume(usize),
    /// The trial is over.
    Stop,
}
