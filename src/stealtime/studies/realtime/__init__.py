"""Periodic real-time tasks: what becomes of their jobs, natively and in a guest."""
