//! The user that QEMU runs as: whoever breaks out of a guest gets QEMU's rights.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid, getpid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Accelerator;

const KVM: &str = "/dev/kvm";
const READ_AND_WRITE: u32 = 0o6;

/// The numbers from here on belong to nobody: above those of containers, below 2^31
/// (<https://systemd.io/UIDS-GIDS>).
const FIRST_OWN: u32 = 0x7000_0000;
/// The kernel gives no process a higher number (include/linux/threads.h, `PID_MAX_LIMIT` of 64-bit machines).
const PROCESSES_MAX: u32 = 1 << 22;

/// A user that a QEMU may run as, with its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QemuUser {
    /// The number of the user.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Of its other groups.
    pub groups: Vec<u32>,
}

/// What a QEMU may do on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// The same as this process.
    Same,
    /// Nothing but what everybody may, and these groups: a user of its own, whose number no other process of
    /// this PID namespace has.
    Own {
        groups: Vec<u32>,
    },
    User(QemuUser),
}

impl Rights {
    /// Of a QEMU that is to run as `user`. None: as one of its own, where this process may give it one.
    pub fn of(user: Option<&QemuUser>, accelerator: Accelerator) -> Self {
        match user {
            Some(user) => Self::User(user.clone()),
            None if geteuid().is_root() && has_own_numbers() => {
                let kvm = (accelerator == Accelerator::Kvm).then(|| group_for(Path::new(KVM))).flatten();
                Self::Own { groups: kvm.into_iter().collect() }
            }
            None => Self::Same,
        }
    }

    /// Whether a QEMU with them may open `/dev/kvm`.
    pub fn may_use_kvm(&self) -> bool {
        let kvm = Path::new(KVM);
        match self {
            Self::Same => fs::OpenOptions::new().read(true).write(true).open(kvm).is_ok(),
            Self::Own { groups } => is_open_to(kvm, None, groups),
            Self::User(user) => {
                let groups = [&[user.gid], user.groups.as_slice()].concat();
                user.uid == 0 || is_open_to(kvm, Some(user.uid), &groups)
            }
        }
    }

    /// Take them, for good. For a process with one thread, between fork and exec: nothing is allocated.
    pub(crate) fn take(&self) -> io::Result<()> {
        match self {
            Self::Same => Ok(()),
            Self::Own { groups } => {
                // One PID, one process of this PID namespace; so no QEMU of it may signal, trace or read
                // another.
                let number = FIRST_OWN + getpid().as_raw_nonzero().get().cast_unsigned();
                become_user(number, number, groups)
            }
            Self::User(user) => become_user(user.uid, user.gid, &user.groups),
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => write!(to, "the user of this process"),
            Self::Own { .. } => write!(to, "a user of its own"),
            Self::User(user) => write!(to, "user {}", user.uid),
        }
    }
}

/// The group that somebody needs to read and write a file. Root's opens far more than that file, and is not
/// given.
fn group_for(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    group_needed(file.mode(), file.gid())
}

fn group_needed(mode: u32, gid: u32) -> Option<u32> {
    let is_open_to_class = |shift: u32| mode >> shift & READ_AND_WRITE == READ_AND_WRITE;
    (is_open_to_class(3) && !is_open_to_class(0) && gid != Gid::ROOT.as_raw()).then_some(gid)
}

/// Whether a user who is not root may read and write a file; as the kernel decides, the first class that fits
/// counts.
fn is_open_to(path: &Path, uid: Option<u32>, groups: &[u32]) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let shift = if uid == Some(file.uid()) {
        6
    } else if groups.contains(&file.gid()) {
        3
    } else {
        0
    };
    file.mode() >> shift & READ_AND_WRITE == READ_AND_WRITE
}

/// Whether our numbers exist here: in a user namespace only those that are mapped do (`user_namespaces(7)`).
fn has_own_numbers() -> bool {
    ["/proc/self/uid_map", "/proc/self/gid_map"]
        .iter()
        .all(|map| fs::read_to_string(map).is_ok_and(|map| are_mapped(&map)))
}

fn are_mapped(map: &str) -> bool {
    map.lines().any(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) = (words.next(), words.next(), words.next()) else {
            return false;
        };
        first <= u64::from(FIRST_OWN) && first + count >= u64::from(FIRST_OWN + PROCESSES_MAX)
    })
}

fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    const GROUPS_MAX: usize = 64;
    let mut list = [Gid::ROOT; GROUPS_MAX];
    let list = list.get_mut(..groups.len()).ok_or(io::ErrorKind::InvalidInput)?;
    for (slot, group) in list.iter_mut().zip(groups) {
        *slot = Gid::from_raw(*group);
    }
    set_thread_groups(list)?;
    set_thread_gid(Gid::from_raw(gid))?;
    Ok(set_thread_uid(Uid::from_raw(uid))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn our_numbers_exist_where_all_are_mapped() {
        assert!(are_mapped("         0          0 4294967295\n"));
        for map in ["", "0 100000 65536\n", "0 0 1879048192\n", "0 1000 1\n1 100000 65536\n", "words\n"] {
            assert!(!are_mapped(map), "{map:?}");
        }
        assert!(are_mapped("0 1000 1\n1879048192 5 4194304\n"));
    }

    #[test]
    fn a_group_is_given_only_where_it_is_needed_and_is_not_roots() {
        assert_eq!(group_needed(0o660, 104), Some(104));
        assert_eq!(group_needed(0o666, 104), None, "everybody may open it");
        assert_eq!(group_needed(0o600, 104), None, "the group may not open it");
        assert_eq!(group_needed(0o660, 0), None, "root's group");
    }

    #[test]
    fn a_file_is_open_to_the_first_class_that_fits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        fs::write(&path, "").unwrap();
        let (uid, gid) = (fs::metadata(&path).unwrap().uid(), fs::metadata(&path).unwrap().gid());
        for (mode, owner, member, other) in [
            (0o600, true, false, false),
            (0o660, true, true, false),
            (0o666, true, true, true),
            (0o606, true, false, true),
            (0o640, true, false, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_open_to(&path, Some(uid), &[gid]), owner, "{mode:o}");
            assert_eq!(is_open_to(&path, Some(uid + 1), &[gid]), member, "{mode:o}");
            assert_eq!(is_open_to(&path, None, &[gid + 1]), other, "{mode:o}");
        }
        assert!(!is_open_to(&folder.path().join("missing"), None, &[]));
    }
}
