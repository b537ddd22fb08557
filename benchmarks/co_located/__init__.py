"""Work side by side on the same CPUs: which, how it is measured, and how well it was predicted."""
