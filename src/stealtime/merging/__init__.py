"""Runs of many hosts as one: which belong together, their distributions added up exactly, and what they show."""
