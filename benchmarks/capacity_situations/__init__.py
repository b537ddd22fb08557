"""Guests that share a host in known ways: which, how much longer their work took, and what was said of them."""
