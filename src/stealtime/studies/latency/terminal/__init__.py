"""What is printed of latencies."""
