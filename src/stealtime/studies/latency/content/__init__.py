"""What is told of latencies, as plain data: filled from a run, worded, printed and drawn by others."""
