"""The circumstances of a run in words, for any study: clocks, neighbours, traces, exits, limits."""
