"""What docs/figures.md shows, from runs."""
