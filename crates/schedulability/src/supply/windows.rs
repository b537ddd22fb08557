//! Windows of a time-partitioned hypervisor: a table that repeats in every major frame (ARINC 653).

use super::Supply;
use crate::error::Error;
use crate::utilization::exceeds_one;

/// The windows of one partition in a major frame, at any phase: jobs may arrive at any moment of it.
///
/// Exact: no window of time has less service than the bound says, and one has just as much. Each of the worst ones
/// begins where a window of the table ends, as for any periodic supply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_field_names)] // each with its unit
pub struct Windows {
    frame_ns: u64,
    /// Service in a frame.
    served_ns: u64,
    /// Begin and length, in order, none empty, none touching the next one within the frame.
    windows_ns: Vec<(u64, u64)>,
}

impl Windows {
    /// From windows `(begin, length)` in order of time, within a major frame.
    ///
    /// # Errors
    /// [`Error::Supply`]: there is none, they overlap, are empty, end after the frame, or it exceeds 104 days.
    pub fn new(frame_ns: u64, windows: &[(u64, u64)]) -> Result<Self, Error> {
        if frame_ns > crate::LONGEST_NS {
            return Err(Error::Supply("the major frame exceeds 104 days"));
        }
        let mut one = Self { frame_ns, served_ns: 0, windows_ns: Vec::new() };
        let mut last_end = 0;
        for &(begin, length) in windows {
            let end = begin.checked_add(length).ok_or(Error::Overflow)?;
            if length == 0 {
                return Err(Error::Supply("a window is empty"));
            }
            if end > frame_ns {
                return Err(Error::Supply("a window ends after the major frame"));
            }
            if begin < last_end {
                return Err(Error::Supply("windows overlap or are not in order of time"));
            }
            one.served_ns += length;
            match one.windows_ns.last_mut() {
                Some(last) if begin == last_end => last.1 += length,
                _ => one.windows_ns.push((begin, length)),
            }
            last_end = end;
        }
        if one.windows_ns.is_empty() {
            return Err(Error::Supply("the partition has no window in the major frame"));
        }
        Ok(one)
    }

    /// Service from the frame's begin to a moment of the first frame or the second.
    fn served_until(&self, at_ns: u64) -> u64 {
        let (frames, within) = (at_ns / self.frame_ns, at_ns % self.frame_ns);
        let in_last = self.windows_ns.iter().map(|&(begin, length)| within.saturating_sub(begin).min(length));
        frames * self.served_ns + in_last.sum::<u64>()
    }

    /// The first moment, from the frame's begin, by which that much was served; at most twice a frame's service.
    fn reached(&self, served_ns: u64) -> u64 {
        // A whole frame's service ends with its last window.
        let frames = (served_ns - 1) / self.served_ns;
        let mut rest = served_ns - frames * self.served_ns;
        for &(begin, length) in &self.windows_ns {
            if rest <= length {
                return frames * self.frame_ns + begin + rest;
            }
            rest -= length;
        }
        (frames + 1) * self.frame_ns
    }

    fn ends(&self) -> impl Iterator<Item = u64> {
        self.windows_ns.iter().map(|&(begin, length)| begin + length)
    }
}

impl Supply for Windows {
    fn service_in(&self, window_ns: u64) -> Result<u64, Error> {
        let (frames, rest) = (window_ns / self.frame_ns, window_ns % self.frame_ns);
        let whole = frames.checked_mul(self.served_ns).ok_or(Error::Overflow)?;
        let least = self.ends().map(|end| self.served_until(end + rest) - self.served_until(end)).min();
        whole.checked_add(least.unwrap_or(0)).ok_or(Error::Overflow)
    }

    fn window_for(&self, service_ns: u64) -> Result<u64, Error> {
        if service_ns == 0 {
            return Ok(0);
        }
        let frames = (service_ns - 1) / self.served_ns;
        let rest = (service_ns - 1) % self.served_ns + 1;
        let longest = self.ends().map(|end| self.reached(self.served_until(end) + rest) - end).max();
        let whole = frames.checked_mul(self.frame_ns).ok_or(Error::Overflow)?;
        whole.checked_add(longest.unwrap_or(0)).ok_or(Error::Overflow)
    }

    fn carries(&self, pairs: &[(u64, u64)]) -> bool {
        let mut all = pairs.to_vec();
        all.push((self.frame_ns - self.served_ns, self.frame_ns));
        !exceeds_one(&all)
    }

    fn is_dedicated(&self) -> bool {
        false
    }
}
