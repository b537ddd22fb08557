//! The receiving end of the preloaded library: its reports, and the userfaultfd.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};

use crate::handover::{MESSAGE_BYTES_MAX, Report, Step};

/// Why there is no userfaultfd.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    #[error("the library {library} was not loaded into QEMU")]
    NotLoaded {
        /// Its path, or why there is none.
        library: String,
    },
    #[error("QEMU did not map the guest's memory by `mmap` of the C library")]
    NeverMapped,
    /// There are several mappings, and writes through the others would be missed.
    #[error("QEMU mapped the guest's memory {times} times")]
    MappedAgain { times: usize },
    #[error("QEMU mapped {found} bytes of the guest's memory of {expected}")]
    Length {
        /// How much it mapped.
        found: u64,
        expected: u64,
    },
    #[error("`{step}` failed in QEMU: {}{}", Errno::from_raw_os_error(*.errno), explanation(*.step))]
    Failed { step: Step, errno: i32 },
    #[error("the library in QEMU reported what cannot be read: {report:?}")]
    Unreadable { report: String },
    #[error("the reports of the library in QEMU cannot be received: {0}")]
    Receive(io::Error),
}

fn explanation(step: Step) -> &'static str {
    match step {
        Step::Create => " (a kernel with CONFIG_USERFAULTFD is needed)",
        Step::Features => " (Linux 6.7 or newer is needed)",
        Step::Register | Step::Send => "",
    }
}

/// What the library handed over.
#[derive(Debug)]
pub struct Handover {
    /// QEMU's userfaultfd; closing it ends the tracking.
    pub userfaultfd: OwnedFd,
    /// Where the guest's memory is in QEMU's address space.
    pub address: u64,
    /// How long it is in bytes.
    pub length: u64,
}

/// The socket on which the library reports.
pub struct Reception {
    socket: OwnedFd,
}

impl Reception {
    /// A reception, and the end that QEMU inherits.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: ours }, theirs))
    }

    /// Read what was reported up to now. To be called when the guest's memory must have been mapped: once QMP
    /// answers. `library` is for the message.
    pub fn conclude(self, library: &str, memory_bytes: u64) -> Result<Handover, HandoverError> {
        let mut loaded = false;
        let mut handovers = Vec::new();
        while let Some((text, descriptor)) = self.receive().map_err(HandoverError::Receive)? {
            match (Report::parse(&text), descriptor) {
                (Some(Report::Loaded), None) => loaded = true,
                (Some(Report::Tracked { address, length }), Some(userfaultfd)) => {
                    handovers.push(Handover { userfaultfd, address, length });
                }
                (Some(Report::Failed { step, errno }), _) => {
                    return Err(HandoverError::Failed { step, errno });
                }
                _ => return Err(HandoverError::Unreadable { report: text }),
            }
        }
        let times = handovers.len();
        match handovers.pop() {
            Some(_) if times > 1 => Err(HandoverError::MappedAgain { times }),
            Some(handover) if handover.length != memory_bytes => {
                Err(HandoverError::Length { found: handover.length, expected: memory_bytes })
            }
            Some(handover) => Ok(handover),
            None if loaded => Err(HandoverError::NeverMapped),
            None => Err(HandoverError::NotLoaded { library: library.into() }),
        }
    }

    /// The next report; `None` if there is none or the other side has ended.
    fn receive(&self) -> io::Result<Option<(String, Option<OwnedFd>)>> {
        let mut text = [0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let length = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut text)], &mut control, flags) {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let descriptor = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok(Some((String::from_utf8_lossy(&text[..length]).into_owned(), descriptor)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;
    use std::os::fd::AsFd;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    fn conclude(reports: &[Report]) -> Result<Handover, HandoverError> {
        let (reception, other) = Reception::pair().unwrap();
        let descriptor = std::fs::File::open("/dev/null").unwrap();
        for report in reports {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [descriptor.as_fd()];
            if matches!(report, Report::Tracked { .. }) {
                assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
            }
            let text = report.to_string();
            sendmsg(&other, &[IoSlice::new(text.as_bytes())], &mut control, SendFlags::empty()).unwrap();
        }
        drop(other);
        reception.conclude("/x/library.so", 8192)
    }

    #[test]
    fn a_registered_mapping_comes_with_its_descriptor() {
        let handover = conclude(&[Report::Loaded, Report::Tracked { address: 4096, length: 8192 }]).unwrap();
        assert_eq!((handover.address, handover.length), (4096, 8192));
    }

    #[test]
    fn each_way_to_fail_has_its_name() {
        let tracked = Report::Tracked { address: 4096, length: 8192 };
        let failed = Report::Failed { step: Step::Features, errno: libc::EINVAL };
        let short = Report::Tracked { address: 4096, length: 4096 };
        for (reports, part) in [
            (vec![], "/x/library.so was not loaded"),
            (vec![Report::Loaded], "did not map"),
            (vec![Report::Loaded, tracked.clone(), tracked], "2 times"),
            (vec![Report::Loaded, short], "4096 bytes of the guest's memory of 8192"),
            (vec![Report::Loaded, failed], "Linux 6.7"),
        ] {
            let refused = conclude(&reports).unwrap_err().to_string();
            assert!(refused.contains(part), "{reports:?}: {refused}");
        }
    }
}
