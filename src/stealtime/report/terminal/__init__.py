"""What is printed of every run."""
