"""The control plane's side of the frames and messages; the Rust twin is ``crates/wire``."""
