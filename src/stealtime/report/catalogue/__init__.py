"""What a study declares of its figures, and all that follows from it: cells, validity, comparison, tables, page."""
