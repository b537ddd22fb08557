"""What the page of a run shows of this study."""
