"""What the host observed of a trial: its kernel's events, and its counters of lost CPU time."""
