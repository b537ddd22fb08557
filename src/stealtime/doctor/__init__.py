"""Checks of what this machine can do, what limits its results, and how to fix that."""
