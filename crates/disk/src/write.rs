//! One change of a disk.

/// What a range of a disk holds from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Data(Vec<u8>),
    /// So many bytes of zeros; discarded ones are read as zeros, too.
    Zeroes(u64),
}

/// A range of a disk that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Its number among the machine's disks.
    pub disk: u8,
    /// In bytes.
    pub offset: u64,
    pub content: Content,
}

impl Write {
    /// How many bytes of the disk it changes.
    pub fn len(&self) -> u64 {
        match &self.content {
            Content::Data(data) => data.len() as u64,
            Content::Zeroes(bytes) => *bytes,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it takes in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let data = if let Content::Data(data) = &self.content { data.len() as u64 } else { 0 };
        data + size_of::<Self>() as u64
    }
}
