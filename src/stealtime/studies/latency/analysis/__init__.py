"""From a run's samples to figures."""
