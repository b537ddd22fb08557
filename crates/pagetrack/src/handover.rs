//! What the library and the process that started QEMU say to each other.
//!
//! Each message is one packet of a `SOCK_SEQPACKET` socket, a line of ASCII; `tracked` carries the
//! userfaultfd as `SCM_RIGHTS`.

use std::fmt;

/// The environment variable that names the file to look for: `DEVICE:INODE`.
pub const FILE_VARIABLE: &str = "STEALTIME_PAGETRACK_FILE";
/// The environment variable with the number of the inherited socket.
pub const SOCKET_VARIABLE: &str = "STEALTIME_PAGETRACK_SOCKET";
/// No message is longer.
pub const MESSAGE_BYTES_MAX: usize = 128;

const GREETING: &str = "stealtime-pagetrack/1";

/// A message from the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The library is in the process and found its environment in order.
    Loaded,
    /// A mapping of the file is registered; the userfaultfd comes along.
    Tracked {
        /// Where it begins in QEMU's address space.
        address: u64,
        /// How long it is in bytes.
        length: u64,
    },
    /// The mapping of the file is there but could not be registered.
    Failed {
        /// The system call that failed.
        step: Step,
        errno: i32,
    },
}

/// What can fail on the way to a registered mapping.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `userfaultfd(2)`: the kernel has none, or forbids it.
    Create,
    /// `UFFDIO_API`: the kernel has no asynchronous write-protection (before Linux 6.7).
    Features,
    /// `UFFDIO_REGISTER` of the mapping.
    Register,
    Send,
}

impl Step {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Create, "userfaultfd"),
        (Self::Features, "UFFDIO_API"),
        (Self::Register, "UFFDIO_REGISTER"),
        (Self::Send, "sendmsg"),
    ];
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(step, _)| step == self).map_or("?", |(_, name)| name);
        formatter.write_str(name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loaded => write!(formatter, "{GREETING} loaded"),
            Self::Tracked { address, length } => write!(formatter, "{GREETING} tracked {address} {length}"),
            Self::Failed { step, errno } => write!(formatter, "{GREETING} failed {step} {errno}"),
        }
    }
}

impl Report {
    /// Read a message; `None` is given for what this version does not know.
    pub fn parse(message: &str) -> Option<Self> {
        let words: Vec<&str> = message.split(' ').collect();
        match words[..] {
            [GREETING, "loaded"] => Some(Self::Loaded),
            [GREETING, "tracked", address, length] => {
                Some(Self::Tracked { address: address.parse().ok()?, length: length.parse().ok()? })
            }
            [GREETING, "failed", name, errno] => {
                let (step, _) = Step::ALL.into_iter().find(|(_, known)| *known == name)?;
                Some(Self::Failed { step, errno: errno.parse().ok()? })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_is_read_back_and_fits_a_message() {
        let mut reports = vec![Report::Loaded, Report::Tracked { address: u64::MAX, length: u64::MAX }];
        reports.extend(Step::ALL.map(|(step, _)| Report::Failed { step, errno: i32::MIN }));
        for report in reports {
            let text = report.to_string();
            assert!(text.len() <= MESSAGE_BYTES_MAX, "{text}");
            assert_eq!(Report::parse(&text).as_ref(), Some(&report), "{text}");
        }
    }

    #[test]
    fn what_is_no_report_is_refused() {
        for text in [
            "",
            "loaded",
            "stealtime-pagetrack/2 loaded",
            "stealtime-pagetrack/1 tracked 1",
            "stealtime-pagetrack/1 failed x 1",
        ] {
            assert_eq!(Report::parse(text), None, "{text:?}");
        }
    }
}
