"""What emulated and paravirtual devices cost, on the way of a request to the disk and back."""
