"""What one more guest, or one less, does to all that are there."""
