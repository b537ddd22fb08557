"""Under what a trial was measured, in figures, whatever it measured: clocks, placement, neighbours, traces, exits."""
