"""What a report shows of latencies."""
