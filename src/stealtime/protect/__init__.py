"""Protection of virtual machines by continuous checkpoints: what drives the Rust members, and shows what they do.

The members (``crates/replicator``) do the protecting; this package writes their specifications (from ``VM.toml``),
starts them and talks with them over their control sockets.
"""
