"""SIPp in the client's namespace: scenarios of our own, and what it tells."""
