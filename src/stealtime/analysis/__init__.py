"""Pure functions from the tables of a run to its figures: statistics, summaries, comparisons."""
