"""Is a machine quiet enough right now? One verdict with its cause, of this machine or another."""
