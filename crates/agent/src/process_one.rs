//! What depends on being the first process of a machine.

/// Whether the kernel started this program as its first process.
pub fn is_process_one() -> bool {
    std::process::id() == 1
}
