"""The study's part of the report's page."""
