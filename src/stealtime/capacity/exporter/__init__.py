"""Figures of this host and its guests for Prometheus: what is served, what it costs, and what is kept of a day."""
