//! Contents in front of the line: packed with LZ4 where that gains something.

/// The longest contents before packing: LZ4 looks back 64 KiB, so longer ones would pack no better, and
/// heartbeats wait for what is being sent.
pub const CONTENTS_LIMIT_BYTES: usize = 64 << 10;

/// Why contents are not unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackingError {
    #[error("it ends early")]
    Truncated,
    #[error("its packing {0} is unknown")]
    Unknown(u8),
    #[error("its contents have {0} bytes, over the limit of {CONTENTS_LIMIT_BYTES}")]
    Oversized(u32),
    #[error("its contents do not unpack: {0}")]
    Unpack(String),
}

/// How contents are packed: the first two rows of the table in [`super`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackingHead {
    packing: u8,
    contents_bytes: u32,
}

impl PackingHead {
    /// The bytes of a head.
    pub const BYTES: usize = 1 + 4;

    /// Reads a head, and steps over it.
    pub fn take(bytes: &mut &[u8]) -> Result<Self, PackingError> {
        let (&[packing, ref length @ ..], rest) =
            bytes.split_first_chunk::<{ Self::BYTES }>().ok_or(PackingError::Truncated)?;
        *bytes = rest;
        Ok(Self { packing, contents_bytes: u32::from_le_bytes(*length) })
    }

    /// Writes it behind what is in `body`.
    pub fn push(self, body: &mut Vec<u8>) {
        body.push(self.packing);
        body.extend_from_slice(&self.contents_bytes.to_le_bytes());
    }

    pub fn is_packed(self) -> bool {
        self.packing != 0
    }

    /// Unpacks contents into `into`, in place of what is there.
    pub fn unpack(self, packed: &[u8], into: &mut Vec<u8>) -> Result<(), PackingError> {
        let length = self.contents_bytes as usize;
        if length > CONTENTS_LIMIT_BYTES {
            return Err(PackingError::Oversized(self.contents_bytes));
        }
        let unpacked = match self.packing {
            0 => {
                into.clear();
                into.extend_from_slice(packed);
                packed.len()
            }
            1 => {
                into.resize(length, 0);
                lz4_flex::block::decompress_into(packed, into)
                    .map_err(|error| PackingError::Unpack(error.to_string()))?
            }
            other => return Err(PackingError::Unknown(other)),
        };
        if unpacked != length {
            return Err(PackingError::Unpack(format!("{unpacked} bytes instead of {length}")));
        }
        Ok(())
    }
}

/// Packs contents of at most [`CONTENTS_LIMIT_BYTES`]; `room` is memory to pack into, used again and again.
pub fn pack<'bytes>(contents: &'bytes [u8], room: &'bytes mut Vec<u8>) -> (PackingHead, &'bytes [u8]) {
    room.resize(lz4_flex::block::get_maximum_output_size(contents.len()), 0);
    let contents_bytes = u32::try_from(contents.len()).unwrap_or(u32::MAX);
    // Where packing gains less than a thirty-second, the standby is spared the unpacking.
    match lz4_flex::block::compress_into(contents, room) {
        Ok(length) if length < contents.len() - contents.len() / 32 => {
            (PackingHead { packing: 1, contents_bytes }, &room[..length])
        }
        _ => (PackingHead { packing: 0, contents_bytes }, contents),
    }
}
