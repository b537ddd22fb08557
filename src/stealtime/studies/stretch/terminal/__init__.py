"""The tables that `show` and `run` print."""
