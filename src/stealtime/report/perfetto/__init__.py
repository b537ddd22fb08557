"""A run as a trace for Perfetto: all that happened on one time line, the host's clock."""
