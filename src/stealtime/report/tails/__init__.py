"""How likely longer latencies than the longest seen are: estimated where that can be, refused where it cannot."""
