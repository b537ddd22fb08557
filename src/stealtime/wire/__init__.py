"""The control plane's side of the frames and messages; the agent's is ``crates/wire``."""
