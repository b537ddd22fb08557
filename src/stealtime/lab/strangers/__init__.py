"""Strangers: programs of this host that are neither ours nor asked for, and the CPU time that they take meanwhile."""
