"""What the README shows, from runs."""
