"""What ``equal_runs.py`` counts in runs that are equal."""
