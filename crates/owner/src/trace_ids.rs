//! By which id the kernel's trace knows a thread: that of the initial PID namespace, whatever the thread's own is.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::{INITIAL_PID_NAMESPACE, ids_by_namespace, pid_namespace};

/// What is known here of the ids in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceIds {
    /// They are those by which threads know themselves.
    Own,
    /// `/proc` shows them.
    ShownByProc,
    /// This process is in a PID namespace and has a `/proc` of it, which tells nothing of the one around.
    Unknown,
}

impl TraceIds {
    /// For this process.
    pub fn here() -> Self {
        static HERE: OnceLock<TraceIds> = OnceLock::new();
        *HERE.get_or_init(|| Self::judge(Path::new("/proc")))
    }

    fn judge(proc: &Path) -> Self {
        match pid_namespace(&proc.join("self")) {
            Ok(0 | INITIAL_PID_NAMESPACE) => Self::Own,
            // Without /proc no namespace was entered either: it is the first program of a machine.
            Err(_) if !proc.join("self").exists() => Self::Own,
            _ => match pid_namespace(&proc.join("1")) {
                Ok(INITIAL_PID_NAMESPACE) => Self::ShownByProc,
                _ => Self::Unknown,
            },
        }
    }

    /// The id by which a trace knows the calling thread; where nobody can tell, its own.
    pub fn of_this_thread(self, own: u32) -> u32 {
        match self {
            Self::Own | Self::Unknown => own,
            Self::ShownByProc => {
                let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
                ids_by_namespace(&status).first().copied().unwrap_or(own)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn judged(this: &str, first: &str) -> TraceIds {
        let proc = tempfile::tempdir().unwrap();
        for (entry, namespace) in [("self", this), ("1", first)] {
            let folder = proc.path().join(entry);
            fs::create_dir_all(folder.join("ns")).unwrap();
            fs::write(folder.join("stat"), "").unwrap();
            if !namespace.is_empty() {
                symlink(format!("pid:[{namespace}]"), folder.join("ns/pid")).unwrap();
            }
        }
        TraceIds::judge(proc.path())
    }

    #[test]
    fn ids_are_known_where_the_initial_namespace_is_seen() {
        assert_eq!(judged("4026531836", "4026531836"), TraceIds::Own);
        assert_eq!(judged("", ""), TraceIds::Own, "a kernel without PID namespaces");
        assert_eq!(judged("4026532999", "4026531836"), TraceIds::ShownByProc);
        assert_eq!(judged("4026532999", "4026532999"), TraceIds::Unknown);
        assert_eq!(judged("4026532999", "4026532998"), TraceIds::Unknown);
    }

    #[test]
    fn a_thread_is_told_by_the_first_of_its_ids() {
        let status = "Name:\tst-tick\nNSpid:\t31337\t12\t3\nThreads:\t1\n";
        assert_eq!(ids_by_namespace(status), [31_337, 12, 3]);
        assert_eq!(TraceIds::Unknown.of_this_thread(12), 12);
        let shown = TraceIds::ShownByProc.of_this_thread(0);
        let path = format!("/proc/{}/task/{shown}", std::process::id());
        assert!(Path::new(&path).exists(), "{path}");
    }
}
