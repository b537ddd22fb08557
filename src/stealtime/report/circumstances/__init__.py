"""The circumstances of a trial as figures, for any probe: clocks, placement, neighbours, traces, exits."""
