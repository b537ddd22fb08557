"""Figures of trials and cells."""
