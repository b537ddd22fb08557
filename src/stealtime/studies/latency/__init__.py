"""Latency: how much longer anything takes in a virtual machine than natively, and whose fault that is."""
