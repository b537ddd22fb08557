//! The words of the NBD protocol (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>), as far as a
//! server for one QEMU needs them: the fixed newstyle handshake, and simple replies.

use std::io::{self, ErrorKind, Read, Write};

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// `FIXED_NEWSTYLE | NO_ZEROES`, of both sides.
const HANDSHAKE_FLAGS: u16 = 0b11;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;

const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = 1 << 31 | 1;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

/// `HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES`.
const TRANSMISSION_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;

/// The longest option that anybody has a use for: a name of an export, and what is asked of it.
const OPTION_BYTES_MAX: u32 = 4096;

/// What is read or written at once, at most: what the protocol lets a client assume.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// What QEMU is to have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    Unknown(u16),
}

/// A request; the data of a write follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub command: Command,
    /// Whether it is to be on the medium before it is answered.
    pub is_durable: bool,
    /// By which its answer is known.
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

/// Errors of the protocol's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Failure {
    NotPermitted = 1,
    InputOutput = 5,
    Invalid = 22,
    NoSpace = 28,
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("QEMU does not speak NBD as expected: {what}"))
}

/// Agree with a client on an export of so many bytes; whatever name it asks for, it is this one. False: it has left.
pub fn shake_hands(stream: &mut (impl Read + Write), bytes: u64) -> io::Result<bool> {
    let mut greeting = Vec::new();
    greeting.extend_from_slice(&INIT_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    greeting.extend_from_slice(&HANDSHAKE_FLAGS.to_be_bytes());
    stream.write_all(&greeting)?;
    let client_flags = u32::from_be_bytes(array(stream)?);
    if client_flags & 1 == 0 {
        return Err(malformed("it knows no fixed newstyle"));
    }
    loop {
        if u64::from_be_bytes(array(stream)?) != OPTION_MAGIC {
            return Err(malformed("an option begins with other bytes"));
        }
        let option = u32::from_be_bytes(array(stream)?);
        let length = u32::from_be_bytes(array(stream)?);
        if length > OPTION_BYTES_MAX {
            return Err(malformed("an option is too long"));
        }
        // The name, and what else it asks for.
        stream.read_exact(&mut vec![0; length as usize])?;
        match option {
            OPTION_EXPORT_NAME => {
                let mut export = bytes.to_be_bytes().to_vec();
                export.extend_from_slice(&TRANSMISSION_FLAGS.to_be_bytes());
                stream.write_all(&export)?;
                return Ok(true);
            }
            OPTION_INFO | OPTION_GO => {
                let mut export = INFO_EXPORT.to_be_bytes().to_vec();
                export.extend_from_slice(&bytes.to_be_bytes());
                export.extend_from_slice(&TRANSMISSION_FLAGS.to_be_bytes());
                reply_to_option(stream, option, REPLY_INFO, &export)?;
                let mut sizes = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
                // The least, the best, the most.
                for size in [512, 4096, PAYLOAD_BYTES_MAX] {
                    sizes.extend_from_slice(&size.to_be_bytes());
                }
                reply_to_option(stream, option, REPLY_INFO, &sizes)?;
                reply_to_option(stream, option, REPLY_ACK, &[])?;
                if option == OPTION_GO {
                    return Ok(true);
                }
            }
            OPTION_ABORT => {
                reply_to_option(stream, option, REPLY_ACK, &[])?;
                return Ok(false);
            }
            _ => reply_to_option(stream, option, REPLY_UNSUPPORTED, &[])?,
        }
    }
}

fn reply_to_option(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut reply = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    reply.extend_from_slice(&option.to_be_bytes());
    reply.extend_from_slice(&kind.to_be_bytes());
    reply.extend_from_slice(&u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    reply.extend_from_slice(data);
    stream.write_all(&reply)
}

impl Request {
    /// Read the next one; None where the client has gone between two.
    pub fn read(stream: &mut impl Read) -> io::Result<Option<Self>> {
        let mut magic = [0; 4];
        match stream.read(&mut magic[..1])? {
            0 => return Ok(None),
            _ => stream.read_exact(&mut magic[1..])?,
        }
        if u32::from_be_bytes(magic) != REQUEST_MAGIC {
            return Err(malformed("a request begins with other bytes"));
        }
        let flags = u16::from_be_bytes(array(stream)?);
        let command = match u16::from_be_bytes(array(stream)?) {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            other => Command::Unknown(other),
        };
        Ok(Some(Self {
            command,
            is_durable: flags & 1 != 0,
            cookie: u64::from_be_bytes(array(stream)?),
            offset: u64::from_be_bytes(array(stream)?),
            length: u32::from_be_bytes(array(stream)?),
        }))
    }

    /// Whether it is within a disk of so many bytes.
    pub fn fits(&self, bytes: u64) -> bool {
        self.offset.checked_add(u64::from(self.length)).is_some_and(|end| end <= bytes)
    }
}

/// Answer a request; `data` is what was read.
pub fn reply(stream: &mut impl Write, cookie: u64, failure: Option<Failure>, data: &[u8]) -> io::Result<()> {
    let mut answer = Vec::with_capacity(16 + data.len());
    answer.extend_from_slice(&REPLY_MAGIC.to_be_bytes());
    answer.extend_from_slice(&failure.map_or(0, |failure| failure as u32).to_be_bytes());
    answer.extend_from_slice(&cookie.to_be_bytes());
    answer.extend_from_slice(data);
    stream.write_all(&answer)
}
