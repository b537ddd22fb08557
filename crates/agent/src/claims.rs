//! Claims on CPUs, so that whoever measures alone learns of a run that measures on the same CPU, and that run of it.
//!
//! A lock on a file for each CPU, in a folder that all users of the machine share; the control plane's
//! `lab/scenarios/cpu_claims.py` makes the same. Alone nothing is refused: who asks for a measurement by hand gets it,
//! with the finding.

use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use stealtime_wire::{Finding, FindingLevel};

const FOLDER_VARIABLE: &str = "STEALTIME_CLAIMS";
const SHARED: [&str; 2] = ["/run/lock", "/dev/shm"];
const FOLDER: &str = "stealtime";
/// `S_IFDIR`, sticky, and writable for others.
const FOLDER_FOR_EVERYBODY: u32 = 0o41_002;

/// Those of this process, which end with it.
pub struct Claims {
    _held: Vec<Flock<File>>,
}

/// Who claims a CPU, as it says itself.
#[derive(Serialize, Deserialize)]
struct Holder {
    what: String,
    pid: i64,
    since: String,
}

impl Claims {
    /// Claims what is free of these CPUs, and says who has the others. Without a folder there are no claims.
    pub fn take(cpus: &[u32], what: &str) -> (Self, Vec<Finding>) {
        shared_folder().map_or_else(|_| (Self { _held: Vec::new() }, Vec::new()), |at| Self::take_in(&at, cpus, what))
    }

    fn take_in(folder: &Path, cpus: &[u32], what: &str) -> (Self, Vec<Finding>) {
        let since = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let own = Holder { what: what.to_owned(), pid: i64::from(std::process::id()), since };
        let (mut held, mut findings) = (Vec::new(), Vec::new());
        for cpu in cpus {
            let path = folder.join(format!("cpu-{cpu}"));
            let Ok(file) = open(&path) else { continue };
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(mut lock) => {
                    // A claim that does not say whose it is still is one.
                    let _ = write_holder(&mut lock, &own);
                    held.push(lock);
                }
                Err(_) => findings.push(claimed(*cpu, &path)),
            }
        }
        (Self { _held: held }, findings)
    }
}

fn write_holder(file: &mut File, holder: &Holder) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(serde_json::to_string(holder)?.as_bytes())
}

fn claimed(cpu: u32, path: &Path) -> Finding {
    let who = fs::read_to_string(path).ok().and_then(|text| serde_json::from_str::<Holder>(&text).ok()).map_or_else(
        || "something else".to_owned(),
        |holder| format!("{} (pid {}, since {})", printable(&holder.what), holder.pid, printable(&holder.since)),
    );
    Finding {
        code: "cpu_claimed".to_owned(),
        level: FindingLevel::Limits,
        text: format!("{who} measures on CPU {cpu} as well, so the two measure each other"),
        hint: Some("wait for its end, or name another CPU with --cpu".to_owned()),
    }
}

/// What another user wrote may be anything.
fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(100).collect()
}

fn shared_folder() -> io::Result<PathBuf> {
    let folder = if let Some(named) = env::var_os(FOLDER_VARIABLE).filter(|named| !named.is_empty()) {
        PathBuf::from(named)
    } else {
        let above = SHARED.iter().map(Path::new).find(|folder| is_for_everybody(folder));
        above.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?.join(FOLDER)
    };
    match fs::create_dir(&folder) {
        Ok(()) => fs::set_permissions(&folder, Permissions::from_mode(0o1777))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(folder)
}

fn is_for_everybody(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|about| about.mode() & FOLDER_FOR_EVERYBODY == FOLDER_FOR_EVERYBODY)
}

/// Opens a claim's file, made if need be: in two steps, since in such a folder the kernel lets nobody open somebody
/// else's file with `O_CREAT` (`fs.protected_regular`, since Linux 4.19).
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = options.create_new(true).open(path);
            if let Ok(file) = &made {
                file.set_permissions(Permissions::from_mode(0o666))?;
            }
            made.or_else(|_| options.create_new(false).open(path))
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_claim_of_a_cpu_names_the_first_and_goes_when_that_does() {
        let folder = tempfile::tempdir().unwrap();
        let (first, nothing) = Claims::take_in(folder.path(), &[1, 2], "a run");
        assert!(nothing.is_empty());
        let (_second, found) = Claims::take_in(folder.path(), &[2, 3], "another");
        let texts: Vec<_> = found.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].starts_with(&format!("a run (pid {}, since ", std::process::id())), "{texts:?}");
        assert!(texts[0].ends_with("measures on CPU 2 as well, so the two measure each other"), "{texts:?}");
        drop(first);
        let (_third, found) = Claims::take_in(folder.path(), &[1, 2], "a third");
        assert!(found.is_empty());
    }

    #[test]
    fn what_a_claim_says_may_be_anything() {
        let folder = tempfile::tempdir().unwrap();
        let (_first, _) = Claims::take_in(folder.path(), &[1], "a run");
        fs::write(folder.path().join("cpu-1"), "{\"what\": 7").unwrap();
        let (_second, found) = Claims::take_in(folder.path(), &[1], "another");
        assert!(found[0].text.starts_with("something else measures on CPU 1"), "{}", found[0].text);
    }
}
