"""What the host's kernel counts of its CPUs, its guests' threads and its memory, read once a second."""
