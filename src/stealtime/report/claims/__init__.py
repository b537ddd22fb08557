"""Figures that others have published, beside ours: each is a claim with a rule and a source, whatever was measured."""
