//! Which boot of which machine, and which start of the program, an answer comes from.

use std::fs;

use thiserror::Error;

/// Drawn by the kernel at its start.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Drawn anew at each reading (random(4)).
const FRESH_ID: &str = "/proc/sys/kernel/random/uuid";

/// Why the kernel's numbers cannot be had.
#[derive(Debug, Error)]
pub enum IdentityError {
    #[error("{path} cannot be read")]
    Read { path: &'static str, source: std::io::Error },
    #[error("{path} holds {found:?}, which is no UUID")]
    Format { path: &'static str, found: String },
}

/// What stays the same as long as nothing is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The boot id of the machine.
    pub boot: [u8; 16],
    /// Drawn anew at each start of the program.
    pub life: [u8; 16],
}

impl Identity {
    /// That of this boot, with a life of its own.
    pub fn draw() -> Result<Self, IdentityError> {
        Ok(Self { boot: read(BOOT_ID)?, life: read(FRESH_ID)? })
    }
}

fn read(path: &'static str) -> Result<[u8; 16], IdentityError> {
    let text = fs::read_to_string(path).map_err(|source| IdentityError::Read { path, source })?;
    parse(text.trim()).ok_or(IdentityError::Format { path, found: text })
}

fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|&letter| letter != '-')
        .map(|letter| letter.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    if digits.len() == 32 { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_share_the_boot_but_not_the_life() {
        let (first, second) = (Identity::draw().unwrap(), Identity::draw().unwrap());
        assert_eq!(first.boot, second.boot);
        assert_ne!(first.life, second.life);
    }

    #[test]
    fn a_uuid_is_sixteen_bytes() {
        let parsed = parse("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(parsed[..3], [0x00, 0x11, 0x22]);
        assert_eq!(parsed[15], 0xff);
        for wrong in ["", "0011", "zz112233-4455-6677-8899-aabbccddeeff"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
