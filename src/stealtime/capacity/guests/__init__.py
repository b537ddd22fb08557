"""Which guests run on this host, which of their threads are virtual CPUs, and what they say of themselves."""
