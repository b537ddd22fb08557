"""Tasks of a running program, from the trace of its machine's kernel, and whether they can be guaranteed."""
