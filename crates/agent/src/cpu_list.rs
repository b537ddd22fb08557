//! A list of CPUs on the command line, in the kernel's form: `0,2-3`.

/// The CPUs, in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

/// The kernel's own limit for x86-64 (`NR_CPUS`, `CONFIG_MAXSMP`), so that a mistyped range is no endless
/// list.
const MOST_CPUS: u32 = 8192;

impl CpuList {
    /// Parses a list.
    ///
    /// # Errors
    /// A sentence with the part that is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.parse().ok()?..=last.parse().ok()?;
            (!range.is_empty() && *range.end() < MOST_CPUS).then_some(range)
        };
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let range = range(part).ok_or_else(|| format!("{part:?} is no CPU, write for example 1 or 0,2-3"))?;
            cpus.extend(range);
        }
        Ok(Self(cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_a_list_and_ranges_are_read() {
        assert_eq!(CpuList::parse("1"), Ok(CpuList(vec![1])));
        assert_eq!(CpuList::parse("4,0-2"), Ok(CpuList(vec![4, 0, 1, 2])));
    }

    #[test]
    fn what_is_no_list_is_named() {
        for text in ["", "a", "1,", "3-1", "-1", "0-4000000000", "1-2-3"] {
            assert!(CpuList::parse(text).is_err(), "{text}");
        }
        assert!(CpuList::parse("0,x").unwrap_err().contains("\"x\""));
    }
}
