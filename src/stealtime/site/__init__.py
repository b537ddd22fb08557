"""A page over many runs: hosts beside their peers, and what changed from run to run."""
