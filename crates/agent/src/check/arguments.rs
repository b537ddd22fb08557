//! The command line of `check`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::check::bar::Bar;
use crate::cpu_list::CpuList;

/// Who reads the verdict: what is printed, and which exit codes mean what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Some lines for a person; exit codes as for json
    Text,
    /// A plugin of Nagios or Icinga, with performance data: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
    Nagios,
    /// A health check of GCM: one line, and the same exit codes
    Gcm,
    /// A custom plugin of node-problem-detector: at most 80 characters; 0 no problem, 1 a problem, 2 unknown
    Npd,
    /// One JSON document; 0 within the bar, 1 failed, 2 wrong usage, 3 over the bar, 4 not judged
    Json,
}

impl Format {
    /// Whether a program reads the exit code that has one for a check that failed.
    pub fn is_for_monitoring(self) -> bool {
        matches!(self, Self::Nagios | Self::Gcm | Self::Npd)
    }

    pub fn exit_of_failure(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Nagios | Self::Gcm => 3,
            Self::Npd => 2,
            Self::Text | Self::Json => 1,
        })
    }

    /// The format that a command line asks for which cannot be parsed.
    pub fn of_arguments(arguments: &[String]) -> Option<Self> {
        arguments.iter().position(|argument| argument == "check").filter(|&place| place == 1)?;
        let value = |(place, argument): (usize, &String)| match argument.strip_prefix("--format")? {
            "" => arguments.get(place + 1).cloned(),
            rest => rest.strip_prefix('=').map(str::to_owned),
        };
        let named = arguments.iter().enumerate().find_map(value)?;
        Self::from_str(&named, false).ok()
    }
}

pub const EXIT_CODES: &str = "Exit codes of text and json: 0 within the bar (also with a warning), 1 failed, 2 wrong \
                              usage, 3 over the bar, 4 not judged. Those of nagios and gcm: 0, 1, 2, 3; those of npd: \
                              0, 1, 2.";

/// `check`
#[derive(Debug, Args)]
pub struct Check {
    /// What no wake-up may be later than: a duration, or rhel-rt for what Red Hat names of cyclictest (40us)
    #[arg(long, value_name = "BAR", default_value = "1ms", value_parser = Bar::parse)]
    pub bar: Bar,
    /// From where on it is a warning [default: half the bar]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub warn: Option<Duration>,
    /// How long to measure, at most 45s (75s with --format json)
    #[arg(short = 'D', long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub duration: Duration,
    /// Who reads the verdict
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The CPUs to watch, e.g. 1 or 0,2-3 [default: those that this process was started on]
    #[arg(short = 'a', long, value_name = "CPUS", value_parser = CpuList::parse)]
    pub cpu: Option<CpuList>,
    /// SCHED_FIFO priority of the threads, which sleep nearly all the time; 0 for ordinary scheduling
    #[arg(short, long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(0..=99))]
    pub priority: u32,
    /// How often each CPU is looked at
    #[arg(short, long, default_value = "1ms", value_parser = humantime::parse_duration)]
    pub interval: Duration,
    /// Do not record the kernel's events, so that the cause stays unknown
    #[arg(long)]
    pub no_trace: bool,
    /// Stop when standard input is closed, that is, when whoever started this is gone
    #[arg(long)]
    pub until_closed: bool,
    /// Print no progress on standard error
    #[arg(short, long)]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_found_in_a_command_line_that_is_wrong_otherwise() {
        let format_of = |line: &str| {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            Format::of_arguments(&arguments)
        };
        assert_eq!(format_of("agent check --format nagios --bar oops"), Some(Format::Nagios));
        assert_eq!(format_of("agent check --oops --format=npd"), Some(Format::Npd));
        assert_eq!(format_of("agent check --format"), None);
        assert_eq!(format_of("agent check --format xml"), None);
        assert_eq!(format_of("agent tick --format nagios"), None);
    }
}
