//! How much memory this process may still lock.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// `CAP_IPC_LOCK` (`include/uapi/linux/capability.h`): who has it locks as much as there is.
const CAP_IPC_LOCK: u64 = 1 << 14;

/// What `RLIMIT_MEMLOCK` still allows to lock; `None` where nothing bounds it.
pub fn lockable_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    lockable(&status, getrlimit(Resource::Memlock).current)
}

fn lockable(status: &str, limit: Option<u64>) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let capabilities = field("CapEff").and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    if capabilities & CAP_IPC_LOCK != 0 {
        return None;
    }
    let locked = field("VmLck").and_then(|size| size.strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0);
    limit.map(|limit| limit.saturating_sub(locked * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_locked_already_counts() {
        assert_eq!(lockable("VmLck:\t    1024 kB\nCapEff:\t0000000000000000\n", Some(8 << 20)), Some(7 << 20));
        assert_eq!(lockable("VmLck:\t   16384 kB\nCapEff:\t0000000000000000\n", Some(8 << 20)), Some(0));
    }

    #[test]
    fn a_capability_or_no_limit_bounds_nothing() {
        assert_eq!(lockable("VmLck:\t0 kB\nCapEff:\t0000000000004000\n", Some(65536)), None);
        assert_eq!(lockable("VmLck:\t0 kB\nCapEff:\t0000000000000000\n", None), None);
        assert_eq!(lockable("", Some(65536)), Some(65536), "without /proc the limit alone counts");
    }
}
