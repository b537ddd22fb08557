"""Latencies in words."""
