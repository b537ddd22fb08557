//! By which id the kernel's trace knows a thread: that of the initial PID namespace, whatever the thread's
//! own is.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use crate::{INITIAL_PID_NAMESPACE, ids_by_namespace, pid_namespace, shows_all};

/// What is known here of the ids in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceIds {
    /// They are those by which threads know themselves.
    Own,
    /// The ids are those that `/proc` shows.
    ShownByProc,
    /// This process is in a PID namespace and has a `/proc` of it, which tells nothing of the one around.
    Unknown,
}

impl TraceIds {
    pub fn here() -> Self {
        static HERE: OnceLock<TraceIds> = OnceLock::new();
        *HERE.get_or_init(|| Self::judge(Path::new("/proc")))
    }

    fn judge(proc: &Path) -> Self {
        match pid_namespace(&proc.join("self")) {
            Ok(0 | INITIAL_PID_NAMESPACE) => Self::Own,
            // Without /proc no namespace was entered either: it is the first program of a machine.
            Err(_) if !proc.join("self").exists() => Self::Own,
            _ if shows_all(proc) => Self::ShownByProc,
            _ => Self::Unknown,
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

    const KERNEL_THREAD: &str = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0";

    fn judged(namespace: &str, second: &str) -> TraceIds {
        let proc = tempfile::tempdir().unwrap();
        let this = proc.path().join("self");
        fs::create_dir_all(this.join("ns")).unwrap();
        fs::write(this.join("stat"), "").unwrap();
        if !namespace.is_empty() {
            symlink(format!("pid:[{namespace}]"), this.join("ns/pid")).unwrap();
        }
        fs::create_dir(proc.path().join("2")).unwrap();
        fs::write(proc.path().join("2/stat"), second).unwrap();
        TraceIds::judge(proc.path())
    }

    #[test]
    fn ids_are_known_where_the_initial_namespace_is_seen() {
        assert_eq!(judged("4026531836", KERNEL_THREAD), TraceIds::Own);
        assert_eq!(judged("", KERNEL_THREAD), TraceIds::Own, "a kernel without PID namespaces");
        assert_eq!(judged("4026532999", KERNEL_THREAD), TraceIds::ShownByProc);
        let ordinary = KERNEL_THREAD.replace("2129984", "4194560");
        assert_eq!(judged("4026532999", &ordinary), TraceIds::Unknown, "the name alone says nothing");
        assert_eq!(judged("4026532999", ""), TraceIds::Unknown);
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
