//! What depends on being the first process of a machine.

/// Whether this is the first process of its machine, or of its container.
pub fn is_process_one() -> bool {
    std::process::id() == 1
}

/// Whether the kernel started this program to begin a machine. A container's first process is process 1, too, but
/// was told what to do, which a kernel does not do in these words.
pub fn is_init(arguments: &[String]) -> bool {
    is_process_one() && arguments.get(1).is_none_or(|command| command != "check")
}
