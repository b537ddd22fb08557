"""Is this host over-committed, is this guest under-provisioned, on what evidence: counters, verdict, live screen."""
