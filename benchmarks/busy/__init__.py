"""Trials on a quiet host and beside strangers: how they are measured, and how often they are told apart."""
