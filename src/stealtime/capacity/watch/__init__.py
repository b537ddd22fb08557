"""The same figures live: a screen, metrics for Prometheus, and the neighbours by name."""
