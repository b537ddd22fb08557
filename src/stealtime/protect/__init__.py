"""Protection of virtual machines by continuous checkpoints: what drives the Rust members, and shows what they do.

The members (``crates/replicator``) do the protecting; this room writes what they are told (``VM.toml`` becomes a spec),
starts them, talks with them over their control sockets, and keeps the laboratory in which they are killed.
"""
