"""Calls through the server, with their voice relayed by it; everything is seen from outside of it."""
