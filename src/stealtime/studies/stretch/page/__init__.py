"""The part of the report."""
