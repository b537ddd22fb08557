"""How long clients of any machine saw nothing: what the agent has watched, put together and shown."""
