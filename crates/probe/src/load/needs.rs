//! The memory that a load takes: known before it begins, since the kernel would not refuse it but kill.

use std::io;

use stealtime_memory::Room;
use stealtime_wire::{Load, LoadRequest};

use crate::load::cpu;
use crate::load::error::LoadError;
use crate::load::rows;
use crate::needs::THREAD_BYTES;

/// Blocks may take half of what may still be used: who is copied beside needs some, too.
const BLOCKS_SHARE_DIVISOR: u64 = 2;

/// Of the blocks that a thread works on.
fn blocks_bytes(kind: &Load) -> u64 {
    match kind {
        Load::Cpu {} => cpu::WORKED_ON_BYTES,
        Load::Memory { block_bytes } => block_bytes.saturating_mul(2),
    }
}

/// All that a thread takes, the end of a load of days included.
pub fn bytes_of_a_thread(kind: &Load) -> u64 {
    blocks_bytes(kind).saturating_add(rows::NEEDED_BYTES + THREAD_BYTES)
}

pub fn refuse_too_much(request: &LoadRequest, room: Option<&Room>) -> Result<(), LoadError> {
    let Some(room) = room else { return Ok(()) };
    let (threads, bytes) = (request.threads, bytes_of_a_thread(&request.kind));
    let of_all = |bytes: u64| bytes.saturating_mul(threads.into());
    let most = room.bytes / BLOCKS_SHARE_DIVISOR;
    let fits = if of_all(blocks_bytes(&request.kind)) > most {
        let text = format!("blocks may take {most} bytes, half of what may still be used by {}", room.limit);
        Err(io::Error::new(io::ErrorKind::OutOfMemory, text))
    } else {
        room.refuse_more(of_all(bytes))
    };
    fits.map_err(|source| LoadError::Memory { threads, bytes, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn refused(kind: Load, threads: u32, room_bytes: u64) -> Option<String> {
        let request = LoadRequest { kind, cpus: Vec::new(), priority: 0, threads, on_ns: None, off_ns: None };
        let room = Room { bytes: room_bytes, limit: "/sys/fs/cgroup/job/memory.max".to_owned() };
        refuse_too_much(&request, Some(&room)).err().map(|error| error.to_string())
    }

    #[test]
    fn what_threads_write_down_counts_though_they_copy_nothing() {
        assert_eq!(refused(Load::Cpu {}, 1, 16 * MIB), None);
        let error = refused(Load::Cpu {}, 256, 200 * MIB).unwrap();
        assert!(error.starts_with("no memory for 256 threads with 7"), "{error}");
        assert!(error.ends_with("209715200 bytes may still be used by /sys/fs/cgroup/job/memory.max"), "{error}");
    }

    #[test]
    fn blocks_take_half_of_what_there_is_and_say_of_what() {
        let copying = Load::Memory { block_bytes: 30 * MIB };
        assert_eq!(refused(copying.clone(), 1, 120 * MIB), None);
        let error = refused(copying, 2, 200 * MIB).unwrap();
        assert!(error.ends_with("half of what may still be used by /sys/fs/cgroup/job/memory.max"), "{error}");
        assert!(refused(Load::Memory { block_bytes: u64::MAX / 2 }, 256, MIB).is_some(), "no sum overflows");
    }
}
