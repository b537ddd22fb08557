//! The guest's serial console, kept in a file that a guest cannot make grow without bound.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};

use crate::bounded_file::BoundedFile;

const READ_BYTES: usize = 16 << 10;

/// A thread that takes what QEMU writes to its end of a socket. Dropping this waits for the last of it, so
/// QEMU must have ended by then.
#[derive(Debug)]
pub struct Console(Option<JoinHandle<()>>);

impl Console {
    /// Start it; give QEMU's end of the socket.
    pub fn start(path: PathBuf, limit_bytes: u64) -> io::Result<(Self, UnixStream)> {
        let (mut ours, of_qemu) = UnixStream::pair()?;
        let mut file = BoundedFile::continued(path, limit_bytes);
        let copy = move || {
            let mut bytes = vec![0; READ_BYTES];
            loop {
                match ours.read(&mut bytes) {
                    Ok(0) => return,
                    // On a full disk the console is lost, and the guest goes on.
                    Ok(length) => drop(file.add(&bytes[..length])),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        };
        let thread = Builder::new().name("console".to_owned()).spawn(copy)?;
        Ok((Self(Some(thread)), of_qemu))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_flood_is_taken_whole_and_kept_within_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console.log");
        let (console, mut of_qemu) = Console::start(path.clone(), 1 << 20).unwrap();
        let line = [b'x'; 999];
        for _ in 0..20_000 {
            of_qemu.write_all(&line).unwrap();
            of_qemu.write_all(b"\n").unwrap();
        }
        of_qemu.write_all(b"the last words").unwrap();
        drop(of_qemu);
        drop(console);
        let sizes = [path.clone(), BoundedFile::older(&path)].map(|path| fs::metadata(path).unwrap().len());
        assert!(sizes.iter().sum::<u64>() <= 1 << 20, "{sizes:?}");
        assert!(fs::read(&path).unwrap().ends_with(b"the last words"));
    }
}
