"""What this machine can do, what limits its results, and how to mend it."""
