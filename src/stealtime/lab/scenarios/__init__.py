"""Scenarios: which CPUs a machine under test gets, and what runs beside it."""
