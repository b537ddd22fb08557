"""What the host itself saw of a trial: its kernel's events, and its own counts of time that was not given."""
