"""What protection costs, and what a client sees when a host dies."""
