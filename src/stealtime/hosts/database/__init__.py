"""A PostgreSQL server in a Debian guest with a disk, and a client that knows what it was told is committed."""
