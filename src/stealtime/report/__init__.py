"""The report of a run: one HTML file that holds its tables, its figures and what they were measured on."""
