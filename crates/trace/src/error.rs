//! Errors of tracing a kernel.

use std::io;
use std::path::{Path, PathBuf};

/// Why a kernel cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("this kernel's events cannot be reached, tracefs cannot be mounted: {source}")]
    Tracefs {
        /// What the kernel said.
        source: io::Error,
    },
    #[error("{path}: {source}")]
    File {
        /// Which one, from the root of tracefs on.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another machine than x86.
    #[error("the kernel has no trace clock x86-tsc, only {offered}")]
    Clock { offered: String },
    #[error("{path} is not understood: {problem}")]
    Format {
        path: PathBuf,
        /// What is missing or wrong.
        problem: String,
    },
    #[error("{parameter} = {value} is not possible, it must be {expected}")]
    Parameter {
        /// Its name in the request.
        parameter: &'static str,
        value: String,
        expected: String,
    },
    #[error("no group of events can be recorded: {reasons}")]
    NoEvents {
        /// Why, group by group.
        reasons: String,
    },
    #[error("what was read of the trace cannot be kept: {source}")]
    Spool {
        /// What the file system said.
        #[from]
        source: io::Error,
    },
}

impl TraceError {
    /// The error of a file of tracefs.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { path, source }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Tracefs { source } | Self::File { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => "run as root; a locked-down kernel refuses also root",
                _ => "boot a kernel with CONFIG_FTRACE, such as Debian's, or measure with tracing off",
            },
            Self::Clock { .. } => "measure with tracing off",
            Self::NoEvents { .. } => "boot a kernel with CONFIG_FTRACE, or measure with tracing off",
            Self::Spool { .. } => "free some space in the folder for temporary files, or name another with TMPDIR",
            Self::Format { .. } | Self::Parameter { .. } => return None,
        };
        Some(hint.to_owned())
    }
}
