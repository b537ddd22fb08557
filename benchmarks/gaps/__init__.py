"""What the benchmark of ``stealtime blackout`` consists of: watching a silent path, and judging what was told of it."""
