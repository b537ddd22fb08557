"""What is measured of latencies: one file a probe."""
