"""Hosts that keep guests, for studies, tests and demonstrations: network namespaces here, or real ones over ssh."""
