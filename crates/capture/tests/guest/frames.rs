//! The other end of the guest's network card.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// What the guest says of itself in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Differs from boot to boot.
    pub boot: u64,
    pub round: u64,
    pub corrupt_pages: u64,
    pub vcpus: u64,
}

/// A peer that reads all frames, so that the guest is never held up.
pub struct Peer {
    socket: UnixStream,
    beats: Receiver<Beat>,
}

impl Peer {
    /// A peer, and the end for QEMU.
    pub fn pair() -> (Self, OwnedFd) {
        let (socket, other) = UnixStream::pair().unwrap();
        let (sender, beats) = mpsc::channel();
        let mut reader = socket.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut length = [0; 4];
            while reader.read_exact(&mut length).is_ok() {
                let mut frame = vec![0; u32::from_be_bytes(length) as usize];
                if reader.read_exact(&mut frame).is_err() {
                    break;
                }
                if let Some(beat) = parse(&frame) {
                    let _ = sender.send(beat);
                }
            }
        });
        (Self { socket, beats }, other.into())
    }

    /// The first beat from now on for which `wanted` holds. Generous with time: only a guest that hangs fails.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&Beat) -> bool) -> Beat {
        let deadline = Instant::now() + Duration::from_secs(600);
        let mut last = None;
        loop {
            match self.beats.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(beat) if wanted(&beat) => return beat,
                Ok(beat) if Instant::now() < deadline => last = Some(beat),
                Ok(beat) => panic!("no frame with {what} in time; the last one was {beat:?}"),
                Err(error) => panic!("no frame with {what}: {error}; the last one was {last:?}"),
            }
        }
    }

    /// The last beat that has come and was not waited for.
    pub fn newest(&self) -> Option<Beat> {
        self.beats.try_iter().last()
    }

    /// Tell the guest to reboot.
    pub fn send_reboot(&mut self) {
        let mut frame = vec![0x52, 0x54, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5];
        frame.extend(b"reboot");
        frame.resize(60, 0);
        let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
        self.socket.write_all(&[&length[..], &frame].concat()).unwrap();
    }
}

fn parse(frame: &[u8]) -> Option<Beat> {
    if frame.get(12..14)? != [0x88, 0xB5] {
        return None;
    }
    let number = |index: usize| Some(u64::from_le_bytes(frame.get(14 + index * 8..)?.first_chunk().copied()?));
    Some(Beat { boot: number(0)?, round: number(1)?, corrupt_pages: number(2)?, vcpus: number(3)? })
}
