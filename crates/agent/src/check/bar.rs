//! What a machine is held against.

use std::time::Duration;

use serde::Serialize;
use stealtime_console::quantities::nanoseconds;

/// Where the figures of `rhel-rt` come from.
const RHEL_RT_TITLE: &str = "Red Hat, RHEL for Real Time 10: cyclictest at most 40 us in 12 h, the housekeeping CPUs \
                             under load";

/// `wakeup-latency` of `report/acceptance/bars/rhel-rt.toml`.
const RHEL_RT_NS: u64 = 40_000;
const RHEL_RT_WATCHED: Duration = Duration::from_secs(12 * 3600);

/// A bar: the latest that a wake-up may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// As it was asked for.
    pub name: String,
    pub title: Option<String>,
    pub at_most_ns: u64,
    /// How long the bar asks to watch.
    pub watched_s: Option<u64>,
}

impl Bar {
    /// Parses a duration or a name.
    ///
    /// # Errors
    /// A sentence with what is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "rhel-rt" {
            return Ok(Self {
                name: text.to_owned(),
                title: Some(RHEL_RT_TITLE.to_owned()),
                at_most_ns: RHEL_RT_NS,
                watched_s: Some(RHEL_RT_WATCHED.as_secs()),
            });
        }
        let duration = humantime::parse_duration(text).ok().filter(|duration| !duration.is_zero());
        let at_most_ns = duration.and_then(|duration| nanoseconds(duration).ok());
        at_most_ns
            .map(|at_most_ns| Self { name: text.to_owned(), title: None, at_most_ns, watched_s: None })
            .ok_or_else(|| format!("{text:?} is no bar, write a duration such as 100us, or rhel-rt"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The agent has no files with it, so what the control plane reads from one stands here once more.
    #[test]
    fn the_named_bar_is_that_of_the_control_plane() {
        let file = include_str!("../../../../src/stealtime/report/acceptance/bars/rhel-rt.toml");
        let (_, of_wakeups) = file.split_once("quantity = \"wakeup-latency\"").unwrap();
        let field = |name: &str| {
            let line = of_wakeups.lines().find_map(|line| line.strip_prefix(&format!("{name} = \""))).unwrap();
            humantime::parse_duration(line.trim_end_matches('"')).unwrap()
        };
        let bar = Bar::parse("rhel-rt").unwrap();
        assert_eq!(field("at_most"), Duration::from_nanos(bar.at_most_ns));
        assert_eq!(Some(field("watched").as_secs()), bar.watched_s);
    }

    #[test]
    fn a_bar_is_a_duration_or_a_name() {
        assert_eq!(Bar::parse("100us").unwrap().at_most_ns, 100_000);
        assert_eq!(Bar::parse("1ms 500us").unwrap().at_most_ns, 1_500_000);
        for text in ["", "0s", "100", "rhel", "-1ms"] {
            assert!(Bar::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rhel_rt_is_what_the_acceptance_of_runs_has() {
        let file = include_str!("../../../../src/stealtime/report/acceptance/bars/rhel-rt.toml");
        let wakeup = file.split("[[bars]]").find(|bar| bar.contains("\"wakeup-latency\"")).unwrap();
        let value = |key: &str| {
            let line = wakeup.lines().find(|line| line.starts_with(key)).unwrap();
            humantime::parse_duration(line.split('"').nth(1).unwrap()).unwrap()
        };
        let bar = Bar::parse("rhel-rt").unwrap();
        assert_eq!(u128::from(bar.at_most_ns), value("at_most").as_nanos());
        assert_eq!(bar.watched_s, Some(value("watched").as_secs()));
    }
}
