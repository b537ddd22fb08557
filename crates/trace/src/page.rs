//! A page of the kernel's ring buffer, as `per_cpu/cpuN/trace_pipe_raw` gives it
//! (`kernel/trace/ring_buffer.c`).
//!
//! A page starts with the time of its first entry (u64) and the length of what follows (u64, whose bits 31
//! and 30 say that events were lost before this page, and that their number stands after the last entry). An
//! entry starts with a u32: 5 bits of type or length, 27 bits of time since the entry before. Longer pauses
//! have an entry of their own (*time extend*), as have absolute times (*time stamp*), of which the highest 5
//! of 64 bits are left out. What was taken back is *padding*, whose time does not count.

/// Bit 31 of the length: events were lost just before this page.
const MISSED_EVENTS: u64 = 1 << 31;

/// Bit 30 of the length: the number of lost events follows the last entry.
const MISSED_STORED: u64 = 1 << 30;

/// What of the length is one.
const LENGTH_MASK: u64 = (1 << 20) - 1;

/// The time and the length.
pub const HEADER_BYTES: usize = 16;

const LONG_DATA: u32 = 0;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// What an absolute time has no room for.
const ABSOLUTE_TIME_BITS: u32 = 59;

/// Events that were lost before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    Nothing,
    Count(u64),
    /// Some: the page was too full to say how many.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'page> {
    /// When, in the units of the trace clock.
    pub time: u64,
    /// The event, from its id on.
    pub event: &'page [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    #[error("a page of {bytes} bytes has no header")]
    NoHeader { bytes: usize },
    #[error("a page announces {announced} bytes and holds {held}")]
    Short {
        /// As its header says.
        announced: usize,
        held: usize,
    },
    #[error("the entry at byte {at} of a page reaches over its end")]
    Entry {
        /// From the first entry on.
        at: usize,
    },
}

/// A page whose header was understood; gives its entries, and ends after the first that is wrong.
#[derive(Debug, Clone)]
pub struct Page<'page> {
    data: &'page [u8],
    /// What was lost before it.
    pub missed: Missed,
    /// When its first entry was written.
    pub start: u64,
    position: usize,
    time: u64,
}

/// What an entry was.
enum Step<'page> {
    Event(Entry<'page>),
    /// A time, or what was taken back.
    NoEvent,
}

/// How many bytes of a page are worth keeping: the header, the entries, the number of lost events.
pub fn used_bytes(bytes: &[u8]) -> Result<usize, PageError> {
    let page = Page::parse(bytes)?;
    let stored = if matches!(page.missed, Missed::Count(_)) { 8 } else { 0 };
    Ok(HEADER_BYTES + page.data.len() + stored)
}

impl<'page> Page<'page> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`PageError`], if it is too short for what it announces.
    pub fn parse(bytes: &'page [u8]) -> Result<Self, PageError> {
        let no_header = PageError::NoHeader { bytes: bytes.len() };
        let (Some(start), Some(commit)) = (word(bytes, 0), word(bytes, 8)) else { return Err(no_header) };
        let length = usize::try_from(commit & LENGTH_MASK).unwrap_or(usize::MAX);
        let held = bytes.len() - HEADER_BYTES;
        let stored = commit & MISSED_EVENTS != 0 && commit & MISSED_STORED != 0;
        let announced = length + if stored { 8 } else { 0 };
        if announced > held {
            return Err(PageError::Short { announced, held });
        }
        let missed = match (commit & MISSED_EVENTS != 0, stored) {
            (false, _) => Missed::Nothing,
            (true, false) => Missed::Unknown,
            (true, true) => word(bytes, HEADER_BYTES + length).map_or(Missed::Unknown, Missed::Count),
        };
        let data = &bytes[HEADER_BYTES..HEADER_BYTES + length];
        Ok(Self { data, missed, start, position: 0, time: start })
    }

    /// Whether it holds nothing at all.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    fn half_word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.data.get(at..at.checked_add(4)?)?.try_into().ok()?))
    }

    /// Steps over one entry of any type; `None` if it reaches over the end.
    fn step(&mut self) -> Option<Step<'page>> {
        let at = self.position;
        let head = self.half_word(at)?;
        let (kind, delta) = (head & 0x1f, u64::from(head >> 5));
        let (from, length) = match kind {
            TIME_EXTEND | TIME_STAMP => {
                let value = u64::from(self.half_word(at + 4)?) << 27 | delta;
                self.time = if kind == TIME_EXTEND {
                    self.time.wrapping_add(value)
                } else {
                    with_high_bits_of(self.time, value)
                };
                self.position = at + 8;
                return Some(Step::NoEvent);
            }
            PADDING if delta == 0 => {
                self.position = self.data.len();
                return Some(Step::NoEvent);
            }
            // The length counts its own four bytes.
            PADDING | LONG_DATA => (at + 8, (self.half_word(at + 4)? as usize).checked_sub(4)?),
            words => (at + 4, words as usize * 4),
        };
        let event = self.data.get(from..from.checked_add(length)?)?;
        // The kernel rounds lengths up itself, so that the next entry follows at once.
        self.position = from + length;
        if kind == PADDING {
            return Some(Step::NoEvent);
        }
        self.time = self.time.wrapping_add(delta);
        Some(Step::Event(Entry { time: self.time, event }))
    }
}

impl<'page> Iterator for Page<'page> {
    type Item = Result<Entry<'page>, PageError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.position < self.data.len() {
            match self.step() {
                Some(Step::Event(entry)) => return Some(Ok(entry)),
                Some(Step::NoEvent) => {}
                None => {
                    let at = std::mem::replace(&mut self.position, self.data.len());
                    return Some(Err(PageError::Entry { at }));
                }
            }
        }
        None
    }
}

/// As `rb_fix_abs_ts()` does (commit 6695da58f9d6, v6.0): the high bits are those of the time before, one
/// more if the low ones have run over since.
fn with_high_bits_of(before: u64, low: u64) -> u64 {
    let time = before >> ABSOLUTE_TIME_BITS << ABSOLUTE_TIME_BITS | low;
    if time < before && before >> ABSOLUTE_TIME_BITS != 0 { time.wrapping_add(1 << ABSOLUTE_TIME_BITS) } else { time }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
